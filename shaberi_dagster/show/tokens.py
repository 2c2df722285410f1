"""Tokens and what they cost, as they are shown."""

import math
from collections.abc import Callable, Sequence

from shaberi_dagster.reports.figures import counted, is_number
from shaberi_dagster.reports.report import NOTHING, Cell, Table, number, table_of, text
from shaberi_dagster.reports.scores import TokenRow, grouped
from shaberi_dagster.show.score_data import RARE_TOKENS, TOKENS

_UNKNOWN = "unknown"
_MOST_LINES = 40


def token_table(tokens: Sequence[TokenRow], *, whole: bool) -> Table:
    """A line for each run, stage and benchmark; where that would be too many, for each run and stage; and the total."""
    by_benchmark = whole or len(tokens) <= _MOST_LINES
    several = len({(row.model, row.run_tag) for row in tokens}) > 1
    lines = grouped(tokens, lambda row: (row.model, row.run_tag, row.stage, row.benchmark if by_benchmark else ""))
    groups = [*(rows for _, rows in lines), list(tokens)]
    last = len(groups) - 1

    def name(of_first: Callable[[TokenRow], str], total: str = "") -> Callable[[list[TokenRow]], Cell]:
        return lambda rows: total if rows is groups[last] else of_first(rows[0])

    def known(field: str) -> Callable[[list[TokenRow]], Cell]:
        def cell(rows: list[TokenRow]) -> Cell:
            unknown = sum(row.calls_without_usage for row in rows)
            return _sum_of([getattr(row, field) for row in rows], unknown, "{:,.0f}")

        return cell

    def cost(rows: list[TokenRow]) -> Cell:
        return _sum_of([row.cost_usd for row in rows], sum(row.calls_without_price for row in rows), "{:,.4f}")

    # Few endpoints tell these; a call without them is no call without usage.
    rare = [field for field in RARE_TOKENS if any(getattr(row, field) for row in tokens)]
    columns = [
        *([text("run", name(lambda row: f"{row.model} {row.run_tag}", "total"), folds=True)] if several else []),
        text("stage", name(lambda row: row.stage, "" if several else "total")),
        *([text("benchmark", name(lambda row: row.benchmark))] if by_benchmark else []),
        number("calls", lambda rows: f"{sum(row.calls for row in rows):,}"),
        *(number(field.replace("_", " "), known(field)) for field in (*TOKENS, *rare)),
        number("cost in USD", cost),
    ]
    return table_of(groups, columns, bold=[last], notes=[_price_note(tokens)])


def _sum_of(values: Sequence[float | None], n_unknown: int, form: str) -> str:
    """The sum of what is known, and whether something is not."""
    known = [value for value in values if is_number(value)]
    if not known:
        return _UNKNOWN if n_unknown else NOTHING
    return form.format(math.fsum(known)) + (f" + {_UNKNOWN}" if n_unknown else "")


def _price_note(tokens: Sequence[TokenRow]) -> str:
    """Where the prices are from, of which dates they are, and how many calls are not in the sum."""
    sources = sorted({source for row in tokens for source in row.price_sources})
    first, last = min(row.first_day for row in tokens), max(row.last_day for row in tokens)
    dates = first if first == last else f"{first} to {last}"
    unknown = sum(row.calls_without_price for row in tokens)
    note = f"Prices: {', '.join(sources)}, at each call's date" if sources else "Prices: none is known"
    note += f" ({dates})" if dates else ""
    if unknown:
        note += f"; {unknown:,} call{'s' if unknown > 1 else ''} of unknown price or tokens are not in the sum"
    return f"{note}."


def cost_line(tokens: Sequence[TokenRow]) -> str:
    """All calls in a few words: `Cost: $0.61, 1.2 M + 0.4 M tokens in 640 calls`."""
    usage, price = (sum(getattr(row, f"calls_without_{what}") for row in tokens) for what in ("usage", "price"))
    sent, received = (_sum_of([getattr(row, name) for row in tokens], usage, "{:,.0f}") for name in TOKENS)
    cost = _sum_of([row.cost_usd for row in tokens], price, "${:,.2f}")
    calls = counted(sum(row.calls for row in tokens), "call")
    return f"Cost: {cost}; {calls}, {sent} prompt and {received} completion tokens (--cost)."
