"""What `--dry-run` prints: calls, tokens and cost by stage, and how far they can be trusted."""

from collections.abc import Sequence
from dataclasses import asdict

import orjson
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from shaberi_dagster.forecast import ALL_STAGES, NO_CALL, Estimate, totals
from shaberi_dagster.rendering.text import json_safe, printable, width_of

_GAP = 2
_UNKNOWN = "unknown"
_NAMES = ("question set", "stage", "with")
_NUMBERS = ("rows\nthere", "calls", "fallback\ncalls", "prompt\ntokens", "completion\ntokens", "cost\nin USD")
_BASIS = "based on"
_NARROWEST_NAME, _NARROWEST_BASIS = 14, 12


def write_plan(estimates: Sequence[Estimate], console: Console, *, as_json: bool) -> None:
    """Print a plan.

    Args:
        estimates: From `forecast`.
        console: Where to; its width is the table's.
        as_json: One document instead of a table.
    """
    if as_json:
        console.file.write(_as_json(estimates))
    else:
        console.print(_as_table(estimates, console.width), crop=False)


def _as_json(estimates: Sequence[Estimate]) -> str:
    document = {
        "rows": [asdict(one) for one in estimates],
        "totals": [asdict(one) for one in totals(estimates)],
        "notes": _notes(estimates),
    }
    return json_safe(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()) + "\n"


def _as_table(estimates: Sequence[Estimate], width: int) -> RenderableType:
    """A row for each estimate and each total; on a narrow terminal the names of a row stand below each other."""
    runs = list(dict.fromkeys(one.run_id for one in estimates))
    several = len(runs) > 1
    lines = [
        (*map(printable, (one.run_id, one.question_set, one.stage, one.model)), *_numbers([one]), one.basis)
        for one in estimates
    ]
    for total in totals(estimates):
        parts = [one for one in estimates if total.stage in {one.stage, ALL_STAGES}]
        lines.append(("", "", total.stage, "", *_numbers(parts), _bases(parts)))
    columns = [list(column) for column in zip(("run", *_NAMES, *_NUMBERS, _BASIS), *lines, strict=True)][not several :]
    n_names = len(_NAMES) + several
    if sum(map(_width, columns)) + _GAP * (len(columns) - 1) > width:
        below = ["\n".join(filter(None, names)) for names in zip(*columns[:n_names], strict=True)]
        columns, n_names = [below, *columns[n_names:]], 1
    table = _table(columns, n_names, width, n_bold=len(lines) - len(estimates))
    heading = Text("plan; no call is made") if several else Text(f"{printable(runs[0])}  plan; no call is made")
    return Group(heading, "", table, "", *(Text(note, style="dim") for note in _notes(estimates)))


def _table(columns: Sequence[Sequence[str]], n_names: int, width: int, n_bold: int) -> Table:
    """Columns with their titles; names and the basis fold where they must, a number is never cut."""
    widths = [_width(column) for column in columns]
    if (excess := sum(widths) + _GAP * (len(widths) - 1) - width) > 0:
        basis = min(widths[-1], _NARROWEST_BASIS)
        excess -= widths[-1] - basis
        widths[0], widths[-1] = max(min(widths[0], _NARROWEST_NAME), widths[0] - max(excess, 0)), basis
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False)
    for index, (column, wide) in enumerate(zip(columns, widths, strict=True)):
        left = index < n_names or index == len(columns) - 1
        table.add_column(
            Text(column[0], style="bold"), width=wide, justify="left" if left else "right", overflow="fold"
        )
    rows = list(zip(*(column[1:] for column in columns), strict=True))
    for index, cells in enumerate(rows):
        table.add_row(*map(Text, cells), style="bold" if index >= len(rows) - n_bold else "")
    table.width = sum(widths) + _GAP * (len(widths) - 1)
    return table


def _width(cells: Sequence[str]) -> int:
    return max(width_of(line) for cell in cells for line in cell.split("\n"))


def _numbers(parts: Sequence[Estimate]) -> tuple[str, ...]:
    """The sums of some estimates."""
    return (
        f"{sum(one.rows_there for one in parts):,}/{sum(one.rows_planned for one in parts):,}",
        _range(sum(one.calls for one in parts), sum(one.calls_most for one in parts)),
        _sum_of([one.fallback_calls for one in parts], "{:,.0f}"),
        f"{sum(one.prompt_tokens for one in parts):,}",
        f"{sum(one.completion_tokens for one in parts):,}",
        _sum_of([one.cost_usd for one in parts], "{:,.4f}"),
    )


def _range(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _sum_of(values: Sequence[float | None], form: str) -> str:
    """The sum of what is known, and whether something is not; nothing and something unknown is unknown."""
    known = sum(value for value in values if value is not None)
    if None not in values:
        return form.format(known)
    return f"{form.format(known)} +\n{_UNKNOWN}" if known else _UNKNOWN


def _bases(parts: Sequence[Estimate]) -> str:
    """What a sum is made of: measured averages, upper bounds, or both."""
    kinds = dict.fromkeys(one.basis.partition(":")[0] for one in parts if one.calls_most)
    return " + ".join(kinds) or NO_CALL


def _notes(estimates: Sequence[Estimate]) -> list[str]:
    asked = [one for one in estimates if one.calls_most]
    notes = ["Calls: what is paid for is left out; calls that fail and are tried again are not foreseen."]
    if any(one.calls < one.calls_most for one in asked):
        notes.append(
            "a–b calls: from the fewest to the most, where it hangs on replies that are not there yet. Tokens and cost "
            "are of the most calls; for judges, of the fewest and of the fallback calls."
        )
    if any(not one.upper_bound for one in asked):
        notes.append(
            "history: averages measured over finished calls in this lake, of the same stage, benchmark and model "
            "unless it says otherwise."
        )
    if any(one.upper_bound for one in asked):
        notes.append(
            "template (upper bound): completion tokens, and answers that a judge is yet to be shown, are at the limit "
            "of the call, the most there can be. Other prompt tokens are a rough count of the rendered text: within "
            "about 20 % for current large models, less than half of what a small vocabulary takes for Japanese."
        )
    if any(one.fallback_calls is None for one in asked):
        notes.append("Fallback calls (for judgements without a score): without history unknown, and none is counted.")
    elif any(one.fallback_calls for one in asked):
        notes.append("Fallback calls (for judgements without a score): at their past share; in tokens and cost.")
    if any(one.cost_usd is None for one in asked):
        notes.append("Cost unknown: there is no list price for the model at its endpoint.")
    return notes
