"""Calls, tokens and US dollars of runs."""

from dataclasses import replace
from operator import itemgetter
from typing import Any

from shaberi_dagster.reports.blocks import (
    UNKNOWN,
    Block,
    Column,
    Heading,
    Report,
    Rows,
    Sentences,
    Table,
    counted,
    grouped,
    known,
    listed,
    number,
    several,
    table_of,
    text,
)
from shaberi_dagster.reports.requests import RunSelection


def _prices(rows: Rows) -> str:
    """Say where the prices are from, of which dates they are, and how many calls are not in the sum."""
    sources = sorted({source for row in rows for source in row["price_sources"]})
    first, last = min(row["first_day"] for row in rows), max(row["last_day"] for row in rows)
    dates = first if first == last else f"{first} to {last}"
    unknown, recorded = (sum(row[name] for row in rows) for name in ("calls_without_price", "calls_at_recorded_price"))
    models = sorted({model for row in rows for model in row["models_without_price"]})
    note = (
        f"Prices: {', '.join(sources)}, as known now"
        if sources
        else "Prices: none is known; write them into a file, and name it in SHABERI_PRICES"
    )
    note += f" ({dates})" if dates else ""
    note += f"; {counted(recorded, 'call')} at the recorded price, as none is known now" if recorded else ""
    of_models = f" (of {listed(models)})" if models else ""
    note += f"; {counted(unknown, 'call')} of unknown price or tokens{of_models} are not in the sum" if unknown else ""
    return f"{note}."


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


def stage_totals(rows: Rows) -> Table:
    """Sum the lines of each stage, in the order of the stages' first lines, and all."""
    columns = [column for column in TOKENS.columns if column.total or column.title == "stage"]
    lines = [
        {"stage": _STAGES.get(stage, stage.replace("_", " ").capitalize())} | TOKENS.summed(own)
        for stage, own in grouped(rows, itemgetter("stage"))
    ]
    return table_of(lines, columns, name="stages")


def cost_totals(rows: Rows) -> list[Block]:
    """Show the totals of each model and of each run, where there are several."""
    sums = [column for column in TOKENS.columns if column.total]
    names = {"By model": "with the calls of its judges", "By run": ""}
    found: list[Block] = [Sentences([cost_line(rows)], "verdict")]
    for (title, detail), keys in zip(names.items(), (("model",), ("model", "run_tag")), strict=True):
        groups = grouped(rows, itemgetter(*keys))
        if len(groups) > 1:
            lines = [{name: own[0][name] for name in keys} | TOKENS.summed(own) for _, own in groups]
            columns = [*(text("tag" if name == "run_tag" else name, name, folds=True) for name in keys), *sums]
            table = table_of(lines, [replace(column, total=False) for column in columns])
            found += [Heading(title, detail), table]
    return [*found, Heading("By stage and benchmark")]


COST = Report(
    "cost",
    "Show calls, tokens and US dollars of runs by stage and benchmark.",
    [TOKENS],
    selection=RunSelection,
    lead=lambda rows: cost_totals(rows["rows"]) if rows["rows"] else [],
    empty="No call was made for these runs: imported ones do not say what they cost.",
    examples=[
        "shaberi cost                                   all runs",
        "shaberi cost --model my-model --tag july",
        "shaberi cost --format csv > cost.csv",
        "shaberi sql cost_by_person                     who made the runs",
    ],
    more="Costs are at the price of each call's date as it is known now, else as recorded; unknown ones are counted.",
)


def cost_line(tokens: Rows) -> str:
    """Return all calls in a few words: `Cost: $0.61; 640 calls, 1,200,000 prompt and 400,000 completion tokens`."""
    sums, columns = TOKENS.summed(tokens), {column.name: column for column in TOKENS.columns}
    sent, received = (columns[name].cell(sums) for name in ("prompt_tokens", "completion_tokens"))
    cost = replace(columns["cost_usd"], form="${:,.2f}").cell(sums)
    calls, why = counted(sums["calls"], "call"), " (no prices)" if cost == UNKNOWN else ""
    return f"Cost: {cost}{why}; {calls}, {sent} prompt and {received} completion tokens."
