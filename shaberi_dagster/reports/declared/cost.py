"""Calls, tokens and US dollars of runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shaberi_dagster.reports.figures import counted
from shaberi_dagster.reports.report import Column, Report, Table, known, number, several, text
from shaberi_dagster.reports.requests import RunSelection


def _prices(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say where the prices are from, of which dates they are, and how many calls are not in the sum."""
    sources = sorted({source for row in rows for source in row["price_sources"]})
    first, last = min(row["first_day"] for row in rows), max(row["last_day"] for row in rows)
    dates = first if first == last else f"{first} to {last}"
    unknown = sum(row["calls_without_price"] for row in rows)
    note = f"Prices: {', '.join(sources)}, at each call's date" if sources else "Prices: none is known"
    note += f" ({dates})" if dates else ""
    return (
        f"{note}; {counted(unknown, 'call')} of unknown price or tokens are not in the sum." if unknown else f"{note}."
    )


def _tokens(title: str, **options: Any) -> Column:
    return number(title, total=True, unknown="calls_without_usage", **options)


TOKENS = Table(
    [
        text("run", lambda row: f"{row['model']} {row['run_tag']}", where=several("model", "run_tag"), folds=True),
        text("stage"),
        text("benchmark"),
        number("calls", total=True),
        _tokens("prompt tokens"),
        _tokens("completion tokens"),
        # Few endpoints tell these; a call without them is no call without usage.
        _tokens("cached tokens", where=known("cached_tokens")),
        _tokens("reasoning tokens", where=known("reasoning_tokens")),
        number("cost in USD", "cost_usd", form="{:,.4f}", total=True, unknown="calls_without_price"),
    ],
    sql="cost",
    totals=("calls", "prompt_tokens", "completion_tokens", "cost_usd", "calls_without_price"),
    brief=("model", "run_tag", "stage"),
    remarks=[_prices],
)
"""A line for each run, stage and benchmark, and the total."""


_STAGES = {"answers": "Generation", "judgements": "Judging", "pass_outputs": "Passes"}


def stage_totals(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Sum the lines of each stage, in the order of the stages' first lines, and all."""
    stages = dict.fromkeys(row["stage"] for row in rows)
    columns = [column for column in TOKENS.columns if column.total or column.title == "stage"]
    of_stage = [[row for row in rows if row["stage"] == stage] for stage in stages]
    named = [{"stage": _STAGES.get(stage, stage.replace("_", " ").capitalize())} for stage in stages]
    summed = [name | TOKENS.summed(own) for name, own in zip(named, of_stage, strict=True)]
    return Table(columns, name="stages").of(summed)


COST = Report(
    "cost",
    "Show calls, tokens and US dollars of runs by stage and benchmark.",
    [TOKENS],
    selection=RunSelection,
    empty="No call was made for these runs: imported ones do not say what they cost.",
    examples=[
        "shaberi cost                                   all runs",
        "shaberi cost --model my-model --tag july",
        "shaberi cost --format csv > cost.csv",
        "shaberi sql cost_by_person                     who made the runs",
    ],
    more="Costs are at the price of each call's date; calls of unknown price are counted.",
)


def cost_line(tokens: Sequence[Mapping[str, Any]]) -> str:
    """Return all calls in a few words: `Cost: $0.61; 640 calls, 1,200,000 prompt and 400,000 completion tokens`."""
    sums, columns = TOKENS.summed(tokens), {column.name: column for column in TOKENS.columns}
    sent, received = (columns[name].cell(sums) for name in ("prompt_tokens", "completion_tokens"))
    cost = replace(columns["cost_usd"], form="${:,.2f}").cell(sums)
    calls = counted(sums["calls"], "call")
    return f"Cost: {cost}; {calls}, {sent} prompt and {received} completion tokens (--cost)."
