"""Cost in SQL: what was recorded, the same calls at the prices of any date, and sums that agree."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import genai_prices
import polars as pl
import pytest

from shaberi_dagster.lake.catalog import connect
from shaberi_dagster.lake.statements import default_parameters
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from tests.sizes import size

pytestmark = pytest.mark.integration

Row = dict[str, Any]
Ask = Callable[..., list[Row]]
_OPENAI, _GOOGLE = "https://api.openai.com/v1", "https://generativelanguage.googleapis.com/v1beta/openai"
_DEEPSEEK = "https://api.deepseek.com/v1"
_CALLED = [
    ("o3", _OPENAI),
    ("gpt-4o-mini", _OPENAI),
    ("gemini-2.5-pro", _GOOGLE),
    ("deepseek-chat", _DEEPSEEK),
    ("own", "http://localhost:8000/v1"),
    ("nobody-knows", "http://localhost:8000/v1"),
    ("embedded/smollm2-135m", "embedded:"),
]
_OWN = """
- {model: own, from: 2025-01-01, to: 2025-12-31, input: 0.3, output: 0.7, cached: 0.1}
- {model: own, from: 2026-01-01, input: 0.6, output: 1.4}
"""


@pytest.fixture
def workspace(settings: Settings, tmp_path: Path) -> Workspace:
    """A lake with the user's own prices for one model."""
    path = tmp_path / "prices.yaml"
    path.write_text(_OWN, encoding="utf-8")
    return Workspace(
        Settings.from_environment({"SHABERI_WAREHOUSE": str(settings.warehouse), "SHABERI_PRICES": str(path)})
    )


@pytest.fixture
def lake(workspace: Workspace) -> Lake:
    return workspace.lake


def call(number: int, **values: Any) -> Row:
    """A call of one run for one benchmark in one stage."""
    return {
        "request_hash": f"h{number}",
        "run_id": "m@@t",
        "stage": "answers",
        "benchmark": "tengu",
        "model": "o3",
        "base_url": _OPENAI,
        "status": "ok",
        "prompt_tokens": 1000,
        "completion_tokens": 100,
        "cached_tokens": None,
        "created_at": datetime(2025, 7, 1, 12, tzinfo=UTC),
    } | values


def many(seed: int, n: int = 600) -> list[Row]:
    """Calls of all models at all hours over three years, some failed, some without tokens."""
    random, start = Random(seed), datetime(2024, 1, 1, tzinfo=UTC).timestamp()
    rows = []
    for number in range(n):
        model, base_url = random.choice(_CALLED)
        prompt = random.choice([0, 1, 999, 200_000, 200_001, 500_000])
        row = call(
            number,
            model=model,
            base_url=base_url,
            run_id=f"m@@t{random.randrange(3)}",
            stage=random.choice(["answers", "judgements", "pass_outputs"]),
            benchmark=random.choice(["tengu", "elyza"]),
            prompt_tokens=prompt,
            completion_tokens=random.randrange(4000),
            cached_tokens=random.choice([None, 0, prompt // 3, prompt]),
            created_at=datetime.fromtimestamp(start + random.randrange(3 * 365 * 86400), UTC),
        )
        if random.random() < 0.1:
            row |= {"prompt_tokens": None, "completion_tokens": None, "cached_tokens": None}
            row |= {"status": random.choice(["ok", "error"])}
        rows.append(row)
    return rows


def store(workspace: Workspace, rows: list[Row], *, prices: bool = True) -> None:
    """The calls as a stage commits them."""
    costs = [workspace.prices.cost(row) for row in rows]
    columns = [{"cost_usd": cost and cost.usd, "price_source": cost and cost.source} for cost in costs]
    workspace.lake.append(
        "calls",
        pl.DataFrame([row | priced for row, priced in zip(rows, columns, strict=True)], infer_schema_length=None),
    )
    runs = [
        {"run_id": name, "model": "m", "run_tag": name.removeprefix("m@@"), "spec": "{}", "spec_hash": "x"}
        | {"status": "complete", "created_at": rows[0]["created_at"], "updated_at": rows[0]["created_at"]}
        for name in sorted({row["run_id"] for row in rows})
    ]
    workspace.lake.append("runs", pl.DataFrame(runs))
    if prices:
        workspace.record_prices((row["model"], row["base_url"]) for row in rows)


def query(settings: Settings, ask: Ask, name: str, **values: Any) -> list[Row]:
    path = settings.sql / "queries" / f"{name}.sql"
    return ask(path.read_text(encoding="utf-8").rstrip().removesuffix(";"), **(default_parameters(path) | values))


def exact(values: Any) -> Decimal:
    return sum((Decimal(repr(value)).quantize(Decimal("1e-12")) for value in values if value is not None), Decimal())


@pytest.mark.parametrize("seed", range(3))
def test_sql_prices_every_call_as_it_was_priced_to_the_last_bit(seed: int, workspace: Workspace, ask: Ask) -> None:
    store(workspace, many(seed))

    rows = ask("from repriced_calls")

    assert len(rows) == 600  # no call is in two ranges
    assert {row["recorded_price_source"] for row in rows} >= {
        None,
        "embedded",
        f"genai-prices {genai_prices.__version__}",
    }
    for row in rows:
        assert (row["cost_usd"], row["price_source"]) == (row["recorded_cost_usd"], row["recorded_price_source"]), row


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_a_clients_time_zone_changes_no_price(zone: str, workspace: Workspace) -> None:
    """Around the midnight in UTC at which o3 became cheaper."""
    change = datetime(2025, 6, 10, tzinfo=UTC)
    store(workspace, many(4) + [call(hour, created_at=change + timedelta(hours=hour)) for hour in range(-14, 14)])

    with connect(workspace.lake) as connection:
        connection.execute(f"set TimeZone = '{zone}'")
        other = "from repriced_calls where cost_usd is distinct from recorded_cost_usd"
        assert connection.execute(other).fetchall() == []
        for day, usd in (("2025-06-09", 0.014), ("2025-06-10", 0.0028)):
            dated = f"select distinct round(cost_usd, 9) from cost_at('{day}') where request_hash = 'h-1'"
            assert connection.execute(dated).fetchall() == [(usd,)]


@pytest.mark.parametrize(("day", "usd"), [("2025-06-09", 0.014), ("2025-06-10", 0.0028), ("2030-01-01", 0.0028)])
def test_a_call_can_be_priced_at_any_date(day: str, usd: float, workspace: Workspace, ask: Ask) -> None:
    store(workspace, [call(1)])

    (row,) = ask(f"from cost_at('{day}')")

    assert row["cost_usd"] == pytest.approx(usd)
    assert row["recorded_cost_usd"] == pytest.approx(0.0028)


def test_a_date_keeps_the_hour_of_the_call(workspace: Workspace, ask: Ask) -> None:
    deepseek = {"model": "deepseek-chat", "base_url": _DEEPSEEK}
    store(workspace, [call(hour, created_at=datetime(2025, 3, 1, hour, tzinfo=UTC), **deepseek) for hour in (12, 20)])

    day, night = ask("from cost_at('2025-04-01') order by request_hash")

    assert day["cost_usd"] == pytest.approx((1000 * 0.27 + 100 * 1.1) / 1e6)
    assert night["cost_usd"] == pytest.approx((1000 * 0.135 + 100 * 0.55) / 1e6)


def test_other_prices_change_what_a_run_would_cost_and_not_what_it_cost(
    workspace: Workspace, settings: Settings, ask: Ask
) -> None:
    store(
        workspace, [call(1, model="own", base_url="http://localhost:8000/v1"), call(2), call(3, model="nobody-knows")]
    )
    workspace.settings.prices.write_text("- {model: own, input: 30, output: 70}", encoding="utf-8")
    later = Workspace(workspace.settings)

    assert later.record_prices([("own", "http://localhost:8000/v1"), ("o3", _OPENAI)])
    assert not later.record_prices([("own", "http://localhost:8000/v1"), ("nobody-knows", _OPENAI)])

    rows = {row["called_model"]: row for row in query(settings, ask, "reprice_run", model="m", tag="t")}
    assert rows["own"]["recorded_cost_usd"] == pytest.approx(0.00037)
    assert rows["own"]["cost_usd"] == pytest.approx(0.037)
    assert rows["own"]["price_sources"][0].startswith("prices.yaml ")
    assert rows["o3"]["cost_usd"] == rows["o3"]["recorded_cost_usd"]
    assert (rows["nobody-knows"]["cost_usd"], rows["nobody-knows"]["calls_without_price"]) == (None, 1)
    assert query(settings, ask, "reprice_run", run_id="another") == []
    dated = query(settings, ask, "reprice_run", run_id="m@@t", price_date="2025-01-01")
    assert {row["called_model"]: row["cost_usd"] for row in dated}["o3"] == pytest.approx(0.014)


def test_a_price_that_is_known_no_more_leaves_the_table(workspace: Workspace, ask: Ask) -> None:
    store(workspace, [call(1, model="own", base_url="http://localhost:8000/v1")])
    workspace.settings.prices.write_text("[]", encoding="utf-8")

    assert Workspace(workspace.settings).record_prices([("own", "http://localhost:8000/v1")])

    assert ask("from prices") == []
    assert ask("select cost_usd, recorded_cost_usd from repriced_calls") == [
        {"cost_usd": None, "recorded_cost_usd": pytest.approx(0.00037)}
    ]


def test_a_call_without_a_row_in_prices_has_no_price_in_sql(workspace: Workspace, ask: Ask) -> None:
    store(workspace, [call(1)], prices=False)

    (row,) = ask("from cost_by_stage")

    assert (row["repriced_cost_usd"], row["calls_without_repriced_cost"]) == (None, 1)
    assert (row["recorded_cost_usd"], row["calls_without_price"]) == (pytest.approx(0.0028), 0)


def test_cost_is_told_by_person_and_since_when(workspace: Workspace, settings: Settings, ask: Ask) -> None:
    store(workspace, [call(1), call(2, run_id="m@@u"), call(3, run_id="m@@v"), call(4, run_id="m@@w")])
    makers = [("m@@t", "aki", 1), ("m@@u", "aki", 2), ("m@@v", "ben", 2), ("m@@w", None, 2)]
    for run_id, person, month in makers:
        row = workspace.lake.read("runs", {"run_id": run_id}).with_columns(
            pl.lit(person, pl.String).alias("created_by"),
            pl.lit(datetime(2026, month, 1, tzinfo=UTC)).cast(pl.Datetime("us", "UTC")).alias("created_at"),
        )
        workspace.lake.replace("runs", row, {"run_id": run_id})

    rows = query(settings, ask, "cost_by_person")
    assert [(row["person"], row["runs"], row["calls"]) for row in rows] == [
        ("aki", 2, 2),
        ("ben", 1, 1),
        ("unknown", 1, 1),
    ]
    assert rows[0]["cost_usd"] == pytest.approx(2 * 0.0028)
    of_february = query(settings, ask, "cost_by_person", since="2026-02-01")
    assert [(row["person"], row["runs"]) for row in of_february] == [("aki", 1), ("ben", 1), ("unknown", 1)]


@pytest.mark.acceptance
def test_sums_over_any_parts_are_the_same_to_the_last_decimal(
    workspace: Workspace, settings: Settings, ask: Ask
) -> None:
    alike = [
        call(number, model="gpt-4o-mini", run_id="m@@alike", prompt_tokens=333_333 + number, stage="judgements")
        for number in range(size(2000, 10_000))
    ]
    store(workspace, many(7) + alike)
    calls = ask("from calls")
    total, n_unknown = (
        exact(row["cost_usd"] for row in calls),
        sum(row["status"] == "ok" and row["cost_usd"] is None for row in calls),
    )
    assert total > 0
    assert n_unknown > 0

    parts = {
        "stage x benchmark": query(settings, ask, "tokens_by_stage"),
        "run": query(settings, ask, "cost_by_run"),
        "called model": ask("from token_usage"),
        "recorded": ask("select recorded_cost_usd as cost_usd, calls_without_price from cost_by_stage"),
        "repriced": ask(
            "select repriced_cost_usd as cost_usd, calls_without_repriced_cost as calls_without_price from cost_by_stage"
        ),
        "query": query(settings, ask, "reprice_run"),
    }
    for name, rows in parts.items():
        assert len(rows) > 1, name
        assert exact(row["cost_usd"] for row in rows) == total, name
        assert sum(row["calls_without_price"] for row in rows) == n_unknown, name
    # As floats, and in whatever order, they add up to something else in the last digits.
    (of_alike,) = (row["cost_usd"] for row in parts["run"] if row["run_id"] == "m@@alike")
    assert of_alike == float(exact(row["cost_usd"] for row in calls if row["run_id"] == "m@@alike"))
    by_stage = [
        row[f"cost_usd_of_{stage}"] for row in parts["run"] for stage in ("answers", "judgements", "other_stages")
    ]
    assert exact(by_stage) == total


def test_usage_says_where_prices_are_from_also_for_calls_that_did_not_record_it(workspace: Workspace, ask: Ask) -> None:
    store(
        workspace, [call(1), call(2, model="own", base_url="http://localhost:8000/v1"), call(3, completion_tokens=None)]
    )
    old = call(4) | {"cost_usd": 0.5, "stage": "judgements"}
    workspace.lake.append("calls", pl.DataFrame([old]))

    rows = ask("select stage, price_sources, calls_without_usage, calls_without_price from token_usage order by all")

    own = workspace.prices.history("own", "http://localhost:8000/v1")[0].source
    assert [(row["stage"], row["price_sources"]) for row in rows] == [
        ("answers", [f"genai-prices {genai_prices.__version__}"]),
        ("answers", [own]),
        ("judgements", ["genai-prices"]),
    ]
    assert sum(row["calls_without_usage"] for row in rows) == sum(row["calls_without_price"] for row in rows) == 1


def test_the_ranges_of_a_models_prices_do_not_overlap(workspace: Workspace, ask: Ask) -> None:
    workspace.record_prices(_CALLED)

    overlap = """
    select count(*) as n
    from prices as one
    join prices as two using (model, base_url)
    where (coalesce(one.valid_from, '0001-01-01'), one.day_seconds_from, one.prompt_tokens_from)
        < (coalesce(two.valid_from, '0001-01-01'), two.day_seconds_from, two.prompt_tokens_from)
      and coalesce(one.valid_to, '9999-01-01') > coalesce(two.valid_from, '0001-01-01')
      and coalesce(two.valid_to, '9999-01-01') > coalesce(one.valid_from, '0001-01-01')
      and one.day_seconds_to > two.day_seconds_from and two.day_seconds_to > one.day_seconds_from
      and coalesce(one.prompt_tokens_to, 1e12) > two.prompt_tokens_from
      and coalesce(two.prompt_tokens_to, 1e12) > one.prompt_tokens_from
    """
    assert ask(overlap) == [{"n": 0}]
    assert ask("select count(*) as n from prices")[0]["n"] == 2 + 1 + 2 + 3 + 2 + 1
