"""What calls cost, against the library's own arithmetic, the published changes of prices, and the user's file."""

import hashlib
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import genai_prices
import pytest
from genai_prices.data import providers

from shaberi_dagster.llm import prices as prices_module
from shaberi_dagster.llm.prices import PriceList
from shaberi_dagster.util.errors import ConfigurationError
from tests.sizes import size

pytestmark = pytest.mark.unit

_OPENAI = "https://api.openai.com/v1"
_LOCAL = "http://localhost:8000/v1"


def _call(**values: Any) -> dict[str, Any]:
    return {
        "model": "gpt-4o-mini",
        "base_url": _OPENAI,
        "prompt_tokens": 1_000_000,
        "completion_tokens": 1_000_000,
        "cached_tokens": None,
        "reasoning_tokens": None,
        "created_at": datetime(2025, 7, 1, tzinfo=UTC),
    } | values


def _usd(prices: PriceList | None = None, **values: Any) -> float | None:
    cost = (prices or PriceList()).cost(_call(**values))
    return None if cost is None else cost.usd


def _own(folder: Path, text: str) -> PriceList:
    path = folder / "prices.yaml"
    path.write_text(text, encoding="utf-8")
    return PriceList.read(path)


def test_a_known_model_costs_its_list_price() -> None:
    cost = PriceList().cost(_call())
    assert cost is not None
    assert cost.usd == pytest.approx(0.15 + 0.60)
    assert cost.source == f"genai-prices {genai_prices.__version__}"


def test_more_cached_tokens_than_were_sent_is_no_price() -> None:
    assert _usd(cached_tokens=2_000_000) is None


def test_tokens_from_the_cache_are_cheaper() -> None:
    assert _usd(cached_tokens=1_000_000) == pytest.approx(0.075 + 0.60)
    assert _usd(cached_tokens=250_000) == pytest.approx(0.75 * 0.15 + 0.25 * 0.075 + 0.60)


def test_the_price_is_that_of_the_day_of_the_call() -> None:
    """o3 became cheaper on 2025-06-10: from 10 and 40 to 2 and 8 dollars for a million tokens."""
    change = datetime(2025, 6, 10, tzinfo=UTC)
    assert _usd(model="o3", created_at=change - timedelta(microseconds=1)) == pytest.approx(10 + 40)
    assert _usd(model="o3", created_at=change) == pytest.approx(2 + 8)
    first, second = PriceList().history("o3", _OPENAI)
    assert (first.valid_from, first.valid_to, second.valid_from, second.valid_to) == (None, change, change, None)


def test_the_day_of_a_call_is_that_of_utc() -> None:
    assert _usd(model="o3", created_at="2025-06-10T08:59:59+09:00") == pytest.approx(10 + 40)
    assert _usd(model="o3", created_at="2025-06-10T09:00:00+09:00") == pytest.approx(2 + 8)


def test_gemini_at_its_openai_address_has_a_price_by_the_length_of_the_prompt() -> None:
    google = {"base_url": "https://generativelanguage.googleapis.com/v1beta/openai"}
    assert _usd(model="gemini-2.5-flash", **google) == pytest.approx(0.30 + 2.50)
    pro = google | {"model": "gemini-2.5-pro", "completion_tokens": 0}
    assert _usd(prompt_tokens=200_000, **pro) == pytest.approx(0.2 * 1.25)
    assert _usd(prompt_tokens=200_001, **pro) == pytest.approx(0.200001 * 2.5)


def test_a_price_can_depend_on_the_hour() -> None:
    """DeepSeek had a discount from 16:30 to 0:30 UTC."""
    deepseek = {"model": "deepseek-chat", "base_url": "https://api.deepseek.com/v1"}
    assert _usd(created_at="2025-03-01T16:29:59.999999+00:00", **deepseek) == pytest.approx(0.27 + 1.10)
    assert _usd(created_at="2025-03-01T16:30:00+00:00", **deepseek) == pytest.approx(0.135 + 0.55)


_PROMPTS = (0, 1, 128_000, 128_001, 200_000, 200_001, 272_001, 1_000_000)
_TIMES = [
    datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=197 * step, hours=5 * step, minutes=30 * (step % 2))
    for step in range(6)
]
_CALLS = list(product(_TIMES, _PROMPTS))[:: size(5, 1)]
"""When calls are made with how many tokens; each time and each number is among them."""


@pytest.mark.acceptance
@pytest.mark.parametrize("provider", providers, ids=lambda provider: provider.id)
def test_every_listed_price_is_the_librarys_own(provider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """For every model of every provider; a price that the tokens of a chat call cannot tell is unknown, not 0."""
    for model in provider.models:
        monkeypatch.setattr(prices_module, "_listed", lambda *_, model=model: model)
        prices = PriceList()
        for index, (moment, prompt) in enumerate(_CALLS):
            tokens = {
                "prompt_tokens": prompt,
                "completion_tokens": index,
                "cached_tokens": (None, prompt // 3)[index % 2],
            }
            found = _usd(prices, model=model.id, created_at=moment, **tokens)
            listed = model.get_prices(moment)
            lacking = listed.input_mtok is None or listed.output_mtok is None
            if lacking or listed.output_reasoning_mtok is not None or listed.output_citation_mtok is not None:
                assert found is None
                continue
            usage = genai_prices.Usage(
                input_tokens=prompt, output_tokens=index, cache_read_tokens=tokens["cached_tokens"]
            )
            expected = model.calc_price(usage, provider, genai_request_timestamp=moment).total_price
            assert found == pytest.approx(float(expected), rel=1e-12, abs=1e-15), model.id


@pytest.mark.parametrize(
    "values",
    [
        {"base_url": "http://127.0.0.1:8000/v1"},
        {"base_url": "https://proxy.example.com/v1"},
        {"model": "a-model-that-nobody-sells"},
        {"model": "whisper-1"},  # listed, but not by tokens
        {"prompt_tokens": None},
        {"completion_tokens": None},
    ],
)
def test_what_is_not_known_is_never_guessed(values: dict[str, Any]) -> None:
    assert _usd(**values) is None


def test_a_call_without_tokens_costs_nothing() -> None:
    assert _usd(prompt_tokens=0, completion_tokens=0) == 0.0


@pytest.mark.parametrize("tokens", [None, 5])
def test_the_embedded_model_is_free(tokens: int | None, tmp_path: Path) -> None:
    embedded = _call(base_url="embedded:", model="embedded/smollm2-135m", prompt_tokens=tokens)
    for prices in (PriceList(), _own(tmp_path, "- {model: '*', input: 5, output: 5}")):
        cost = prices.cost(embedded)
        assert cost is not None
        assert (cost.usd, cost.source) == (0.0, "embedded")


def test_the_users_own_price_wins_and_says_where_it_is_from(tmp_path: Path) -> None:
    prices = _own(tmp_path, "- {model: gpt-4o-mini, input: 1, output: 2, cached: 0.5, per: 1M tokens, currency: USD}\n")
    cost = prices.cost(_call(cached_tokens=500_000))
    assert cost is not None
    assert cost.usd == pytest.approx(0.5 * 1 + 0.5 * 0.5 + 2)
    assert cost.source == f"prices.yaml {hashlib.sha256((tmp_path / 'prices.yaml').read_bytes()).hexdigest()[:12]}"
    assert _usd(prices, model="gpt-4.1-mini") == _usd(model="gpt-4.1-mini")


def test_a_local_server_can_be_priced_at_nothing(tmp_path: Path) -> None:
    prices = _own(tmp_path, "- {model: '*', base_url: 'http://localhost', input: 0, output: 0}")
    assert prices.is_price_known("my-model", _LOCAL)
    assert _usd(prices, model="my-model", base_url=_LOCAL) == 0.0
    assert _usd(prices, model="my-model", base_url=_LOCAL, completion_tokens=None) is None
    assert not prices.is_price_known("my-model", "http://localhostess/v1")
    assert _usd(prices) == _usd()


def test_without_a_cached_price_cached_tokens_cost_what_the_others_do(tmp_path: Path) -> None:
    assert _usd(_own(tmp_path, "- {model: m, input: 3, output: 0}"), model="m", cached_tokens=10**6) == 3.0


_ENTRIES = """
- {model: "*", input: 1, output: 0}
- {model: "org/*", input: 2, output: 0}
- {model: "org/long-*", input: 3, output: 0}
- {model: org/long-name, input: 4, output: 0}
- {model: "*", base_url: "http://localhost:8000", input: 5, output: 0}
- {model: "*", base_url: "http://localhost:8000/v1/", input: 6, output: 0}
- {model: "org/*", base_url: "http://localhost:8000/v1", input: 7, output: 0}
- {model: "org/*", base_url: "http://localhost:8000/v1", input: 8, output: 0}
"""


@pytest.mark.parametrize(
    ("model", "base_url", "usd"),
    [
        ("m", "http://elsewhere/v1", 1),
        ("org/m", "http://elsewhere/v1", 2),
        ("org/long-other", "http://elsewhere/v1", 3),
        ("org/long-name", "http://elsewhere/v1", 4),
        ("org/long-name", "http://localhost:8000/v2", 5),
        ("org/long-name", "http://localhost:80000/v1", 4),
        ("m", "http://localhost:8000/v1", 6),
        ("org/long-name", "http://localhost:8000/v1", 7),
    ],
)
def test_the_most_specific_entry_is_taken_and_the_first_of_equals(
    model: str, base_url: str, usd: float, tmp_path: Path
) -> None:
    assert _usd(_own(tmp_path, _ENTRIES), model=model, base_url=base_url) == usd


def test_own_prices_hold_from_their_first_day_to_their_last(tmp_path: Path) -> None:
    prices = _own(
        tmp_path,
        "- {model: o3, from: 2025-06-01, to: 2025-06-20, input: 1, output: 0}\n"
        "- {model: o3, from: 2025-06-15, to: 2025-06-30, input: 2, output: 0}\n",
    )
    days = {"05-31": 50, "06-01": 1, "06-14": 1, "06-15": 2, "06-20": 2, "06-30": 2, "07-01": 10}
    for day, usd in days.items():
        assert _usd(prices, model="o3", created_at=f"2025-{day}T23:59:59+00:00") == pytest.approx(usd), day
    assert [price.input_usd_per_million for price in prices.history("o3", _OPENAI)] == [10, 1, 2, 2]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("model: m", "must be a list of entries"),
        ("- {model: m, input: 1}", r"entry 1 \(m\): output: Field required"),
        ("- {model: m, input: 1, output: 1}\n- 5", "entry 2: must be a valid dictionary"),
        ("- {model: m, input: -1, output: 1}", r"input: must be greater than or equal to 0"),
        ("- {model: m, input: .nan, output: 1}", r"input: must be a finite number"),
        ("- {model: '', input: 1, output: 1}", r"model: String should have at least 1 character"),
        ("- {model: m, input: 1, output: 1, per: 1k tokens}", r"per: must be '1M tokens'"),
        ("- {model: m, input: 1, output: 1, currency: JPY}", r"currency: must be 'USD'"),
        ("- {model: m, input: 1, output: 1, from: soon}", "from: must be a valid date"),
        ("- {model: m, input: 1, output: 1, from: 2026-02-30}", "is not valid YAML: day is out of range"),
        ("- {model: m, input: 1, output: 1, from: 2026-02-02, to: 2026-02-01}", r"to \(2026-02-01\) is before from"),
        ("- [", "is not valid YAML"),
    ],
)
def test_a_wrong_file_is_refused_with_the_entry_and_what_is_wrong(text: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=complaint) as caught:
        _own(tmp_path, text)
    assert str(tmp_path / "prices.yaml") in str(caught.value)
