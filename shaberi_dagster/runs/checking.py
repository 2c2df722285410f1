"""One tiny call of a model: whether it answers, what that cost, and which parameters its server took."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx2

from shaberi_dagster.llm.endpoints import check_parameters, loaded_url, named_pairs, not_sent, resolve_endpoint
from shaberi_dagster.llm.engine import Engine, RetrySettings
from shaberi_dagster.llm.keys import keys_named
from shaberi_dagster.llm.parameters import read_settings, sent, with_system_prompt
from shaberi_dagster.llm.prices import PriceList
from shaberi_dagster.llm.request import ChatRequest
from shaberi_dagster.llm.stopping import refused_parameter
from shaberi_dagster.llm.types import Message, Sampling

_QUESTION = (Message("user", "Say OK."),)
_USUAL = Sampling(temperature=0.2, max_tokens=4096)
_SECONDS = 120.0
_SOON = 5.0


def check_model(
    model: str, base_url: str | None, parameters: Sequence[str], environment: Mapping[str, str], prices: PriceList
) -> dict[str, Any]:
    """Ask a model one tiny question, once more for each parameter that its server refuses.

    Args:
        model: Its name, see `resolve_endpoint`.
        base_url: Its address, where the name does not say it.
        parameters: `KEY=VALUE`, sent beside temperature and token limit.
        environment: Where keys are read from.
        prices: What the last call cost is looked up there.

    Returns:
        The `model` and its `base_url`, `status` (`ok` or `error`), `error_message`, `latency_seconds`, `usage`,
        `cost_usd` (None is unknown), `loaded` (the models in the server's memory, None where it does not tell), and
        `parameters`: those `taken` and `refused` by the server, and `not_sent`, which the endpoint's entry leaves out.

    Raises:
        ConfigurationError: There is no such endpoint, its key is missing, or a parameter cannot be sent.
    """
    endpoint, asked = resolve_endpoint(model, base_url), read_settings(parameters, "--param")
    sampling = replace(_USUAL, parameters=sent(asked))
    check_parameters(endpoint, model, sampling)
    left_out = not_sent(endpoint, model, sampling)
    wanted = {"temperature": _USUAL.temperature, "max_tokens": _USUAL.max_tokens} | asked
    names = [name for name, value in wanted.items() if value is not None and name not in left_out]
    messages = with_system_prompt(_QUESTION, asked)

    async def ask() -> dict[str, Any]:
        refused: list[str] = []
        retry = RetrySettings(transient_attempts=2, deadline_seconds=_SECONDS)
        async with Engine(environment, retry=retry) as engine:
            while True:
                own = sent(asked | dict.fromkeys(refused))
                call = await engine.call(ChatRequest(endpoint, model, messages, replace(_USUAL, parameters=own)))
                name = refused_parameter(call.error_message or "")
                if name is None or name not in names or name in refused:
                    taken = [name for name in names if name not in refused] if call.status == "ok" else []
                    cost = prices.cost(call.to_record())
                    return {
                        "model": call.model,
                        "base_url": call.base_url,
                        "status": call.status,
                        "error_message": call.error_message,
                        "latency_seconds": call.latency_seconds,
                        "usage": vars(call.usage),
                        "cost_usd": cost.usd if cost else None,
                        "loaded": await _loaded(endpoint.base_url),
                        "parameters": {"taken": taken, "refused": refused, "not_sent": left_out},
                    }
                refused.append(name)

    with keys_named(named_pairs((base_url, None))):
        return asyncio.run(ask())


async def _loaded(base_url: str) -> list[str] | None:
    """Read which models are in a server's memory; no key is sent."""
    url = loaded_url(base_url)
    if url is None:
        return None
    try:
        async with httpx2.AsyncClient(timeout=_SOON) as client:
            return [str(model["name"]) for model in (await client.get(url)).json()["models"]]
    except (httpx2.HTTPError, ValueError, LookupError, TypeError):
        return None  # an older server, or another one at its address
