"""What a call cost: the list price at its date, from genai-prices (offline data)."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from genai_prices import Usage, calc_price


def cost_usd(call: Mapping[str, Any]) -> float | None:
    """The list price of one call record in US dollars.

    Args:
        call: A row of the `calls` table: model, base_url, tokens, created_at.

    Returns:
        None when the model or the number of tokens is unknown (never a guess); 0.0 for the embedded model.
    """
    if call["base_url"] == "embedded:":
        return 0.0
    if call["prompt_tokens"] is None or call["completion_tokens"] is None:
        return None
    created = call["created_at"]
    try:
        usage = Usage(
            input_tokens=call["prompt_tokens"],
            output_tokens=call["completion_tokens"],
            cache_read_tokens=call["cached_tokens"],
        )
        price = calc_price(
            usage,
            model_ref=call["model"],
            provider_api_url=call["base_url"],
            genai_request_timestamp=created if isinstance(created, datetime) else datetime.fromisoformat(created),
        )
    except (LookupError, ValueError):  # an unknown model, or tokens that cannot be (more cached than sent)
        return None
    return float(price.total_price)


def is_price_known(model: str, base_url: str) -> bool:
    """Whether `cost_usd` can tell what a call of the model costs today."""
    tokens = {"prompt_tokens": 1, "completion_tokens": 1, "cached_tokens": None}
    return cost_usd({"model": model, "base_url": base_url, "created_at": datetime.now(UTC)} | tokens) is not None
