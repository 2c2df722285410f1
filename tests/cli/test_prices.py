"""`shaberi prices` on real tables."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import genai_prices
import polars as pl
import pytest

from shaberi_dagster.cli.prices import prices
from shaberi_dagster.lake.catalog import open_catalog, run_query
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError

pytestmark = pytest.mark.integration

_LISTED = f"genai-prices {genai_prices.__version__}"
_OPENAI = "https://api.openai.com/v1"
_LOCAL = "http://localhost:8000/v1"
Said = Callable[..., Any]


@pytest.fixture
def lake(settings: Settings) -> Lake:
    """Calls of a listed model, a local one, and one with a name that would steer a terminal."""
    lake = Lake(settings.warehouse)
    called = [("o3", _OPENAI), ("o3", _OPENAI), ("local", _LOCAL), ("evil\x1b[2J[red]", _LOCAL)]
    rows = [
        {"request_hash": f"h{number}", "run_id": "m@@t", "stage": "answers", "model": model, "base_url": base_url}
        | {"status": "ok", "prompt_tokens": 1000, "completion_tokens": 100}
        | {"created_at": datetime(2025, 7, 1, tzinfo=UTC)}
        for number, (model, base_url) in enumerate(called)
    ]
    lake.append("calls", pl.DataFrame(rows))
    return lake


@pytest.fixture
def said(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Said:
    def asked(own: str | None = None, *, refresh: bool = False, as_json: bool = True) -> Any:
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setenv("SHABERI_WAREHOUSE", str(settings.warehouse))
        monkeypatch.delenv("SHABERI_PRICES", raising=False)
        if own is not None:
            path = tmp_path / "own.yaml"
            path.write_text(own, encoding="utf-8")
            monkeypatch.setenv("SHABERI_PRICES", str(path))
        prices(refresh=refresh, as_json=as_json)
        out = capsys.readouterr().out
        return json.loads(out) if as_json else out

    return asked


def repriced(settings: Settings) -> dict[str, float | None]:
    with open_catalog(settings.warehouse) as catalog:
        return dict(run_query(catalog, "select distinct model, cost_usd from repriced_calls").fetchall())


@pytest.mark.usefixtures("lake")
def test_each_called_model_has_its_prices_with_their_source_or_is_unknown(said: Said) -> None:
    document = said()

    assert [(row["model"], row["input_usd_per_million"], row["valid_from"]) for row in document["prices"]] == [
        ("o3", 10.0, None),
        ("o3", 2.0, "2025-06-10T00:00:00+00:00"),
    ]
    assert {row["source"] for row in document["prices"]} == {_LISTED}
    assert [row["model"] for row in document["unknown"]] == ["evil\x1b[2J[red]", "local"]
    assert document["table_is_current"] is False


def test_a_refresh_writes_the_table_by_which_sql_reprices(said: Said, lake: Lake, settings: Settings) -> None:
    assert set(repriced(settings).values()) == {None}

    assert said(refresh=True)["table_is_current"] is True
    assert repriced(settings)["o3"] == pytest.approx(0.0028)
    assert repriced(settings)["local"] is None
    before = lake.versions()
    assert said(refresh=True)["table_is_current"] is True
    assert lake.versions() == before

    own = "- {model: local, input: 1, output: 10}\n- {model: o3, input: 0, output: 0}"
    assert said(own)["table_is_current"] is False
    assert said(own, refresh=True)["prices"][0]["source"].startswith("own.yaml ")
    assert {name: usd for name, usd in repriced(settings).items() if usd is not None} == {"local": 0.002, "o3": 0.0}


@pytest.mark.usefixtures("lake")
def test_the_table_for_people_steers_no_terminal_and_says_what_to_do(said: Said) -> None:
    out = said("- {model: local, from: 2025-01-01, input: 0.25, output: 1}", as_json=False)

    assert "\x1b" not in out
    lines = [line.split() for line in out.splitlines()]
    assert ["local", _LOCAL, "2025-01-01", "0.25", "0.25", "1", "own.yaml"] in [line[:7] for line in lines]
    assert ["o3", _OPENAI, "2025-06-10", "10", "0.5", "40", *_LISTED.split()] in lines
    assert "unknown: evil␛[2J[red] at http://localhost:8000/v1" in out
    assert "--refresh" in out
    assert "--refresh" not in said("- {model: local, input: 0.25, output: 1}", as_json=False, refresh=True)


def test_hours_prompt_lengths_and_fees_are_named(said: Said, lake: Lake) -> None:
    called = [
        ("deepseek-chat", "https://api.deepseek.com/v1"),
        ("gemini-2.5-pro", "https://generativelanguage.googleapis.com/v1beta/openai"),
        ("sonar", "https://api.perplexity.ai"),
    ]
    rows = lake.read("calls").head(1).drop("model", "base_url")
    lake.append("calls", rows.join(pl.DataFrame(called, schema=["model", "base_url"], orient="row"), how="cross"))

    out = said(as_json=False)

    for text in (
        "00:30-16:30",
        "16:30-24:00",
        "prompts below 200,001 tokens",
        "prompts from 200,001",
        "+ 0.012 for each",
    ):
        assert text in out


def test_without_a_lake_or_calls_that_is_said(said: Said, settings: Settings) -> None:
    with pytest.raises(ConfigurationError, match="no lake in"):
        said()
    Lake(settings.warehouse).delta("calls")
    assert said() == {"prices": [], "unknown": [], "table_is_current": True}
    assert said(as_json=False) == "The lake has no calls.\n"
