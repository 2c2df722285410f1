from datetime import UTC, datetime
from typing import Any

import pytest

from shaberi_dagster.llm.prices import cost_usd

pytestmark = pytest.mark.unit


def _call(**values: Any) -> dict[str, Any]:
    return {
        "model": "gpt-4o-mini",
        "base_url": "https://api.openai.com/v1",
        "prompt_tokens": 1_000_000,
        "completion_tokens": 1_000_000,
        "cached_tokens": None,
        "reasoning_tokens": None,
        "created_at": datetime(2025, 7, 1, tzinfo=UTC),
    } | values


def test_a_known_model_costs_its_list_price() -> None:
    assert cost_usd(_call()) == pytest.approx(0.15 + 0.60)


def test_more_cached_tokens_than_were_sent_is_no_price() -> None:
    assert cost_usd(_call(cached_tokens=2_000_000)) is None


def test_tokens_from_the_cache_are_cheaper() -> None:
    assert cost_usd(_call(cached_tokens=1_000_000)) == pytest.approx(0.075 + 0.60)


def test_the_price_is_that_of_the_day_of_the_call() -> None:
    """o3 became cheaper on 2025-06-10: from 10 and 40 to 2 and 8 dollars for a million tokens."""
    before = _call(model="o3", created_at=datetime(2025, 6, 1, tzinfo=UTC))
    after = _call(model="o3", created_at=datetime(2025, 6, 12, tzinfo=UTC))
    assert cost_usd(before) == pytest.approx(10 + 40)
    assert cost_usd(after) == pytest.approx(2 + 8)


def test_a_time_that_is_text_is_read() -> None:
    assert cost_usd(_call(created_at="2025-07-01T00:00:00+00:00")) == cost_usd(_call())


def test_gemini_at_its_openai_address_has_a_price() -> None:
    url = "https://generativelanguage.googleapis.com/v1beta/openai"
    assert cost_usd(_call(model="gemini-2.5-flash", base_url=url)) == pytest.approx(0.30 + 2.50)


@pytest.mark.parametrize(
    "values",
    [
        {"base_url": "http://127.0.0.1:8000/v1"},
        {"base_url": "https://proxy.example.com/v1"},
        {"model": "a-model-that-nobody-sells"},
        {"prompt_tokens": None},
        {"completion_tokens": None},
    ],
)
def test_what_is_not_known_is_never_guessed(values: dict[str, Any]) -> None:
    assert cost_usd(_call(**values)) is None


def test_a_call_without_tokens_costs_nothing() -> None:
    assert cost_usd(_call(prompt_tokens=0, completion_tokens=0)) == 0.0


@pytest.mark.parametrize("tokens", [None, 5])
def test_the_embedded_model_is_free(tokens: int | None) -> None:
    assert cost_usd(_call(base_url="embedded:", model="embedded/smollm2-135m", prompt_tokens=tokens)) == 0.0
