"""The plan that `--dry-run` prints: calls, tokens and cost by stage, and how far they can be trusted."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from shaberi_dagster.reports.report import UNKNOWN, Block, Heading, Result, Row, Sentences, Table, number, text
from shaberi_dagster.reports.scores import grouped
from shaberi_dagster.runs.forecast import NO_CALL, Forecast, sum_if_known

_NO_CALL_IS_MADE = "plan; no call is made"
_ALL_STAGES = "all"
_SUMMED = (
    *("rows_planned", "rows_there", "calls", "calls_most"),
    *("fallback_calls", "prompt_tokens", "completion_tokens", "cost_usd"),
)


class _Line(NamedTuple):
    """A row of the table.

    Attributes:
        names: Run, question set, stage and model by their titles; a sum has the stage alone.
        parts: The estimates that it adds up.
    """

    names: Mapping[str, str]
    parts: Sequence[Forecast]


def plan_result(estimates: Sequence[Forecast]) -> Result:
    """Say what a plan comes to: a row for each estimate and each total.

    On a narrow terminal the names of a row stand below each other.
    """
    runs = {estimate.run_id for estimate in estimates}
    several = len(runs) > 1
    names = [*(["run"] if several else []), "question set", "stage", "with"]
    rows, notes = [asdict(estimate) for estimate in estimates], _notes(estimates)
    said: list[Block] = [
        Heading(runs.pop(), _NO_CALL_IS_MADE) if len(runs) == 1 else Heading(_NO_CALL_IS_MADE),
        _table(estimates, [(name,) for name in names], narrow=_table(estimates, [tuple(names)])),
        Sentences(notes, "note"),
    ]
    totals = [_total(stage, parts) for stage, parts in _by_stage(estimates)]
    return Result(said, rows, {"rows": rows, "totals": totals, "notes": notes})


def _by_stage(estimates: Sequence[Forecast]) -> list[tuple[str, Sequence[Forecast]]]:
    """Put the estimates of each stage together, and then all of them."""
    return [*grouped(estimates, attrgetter("stage")), (_ALL_STAGES, estimates)]


def _total(stage: str, parts: Sequence[Forecast]) -> Row:
    """Sum estimates; None where a part is unknown."""
    sums = {name: sum_if_known(map(attrgetter(name), parts)) for name in _SUMMED}
    return {"stage": stage, **sums, "upper_bound": any(part.upper_bound for part in parts)}


def _table(estimates: Sequence[Forecast], named: Sequence[tuple[str, ...]], narrow: Table | None = None) -> Table:
    """Make the table.

    Args:
        estimates: Its rows but for the totals.
        named: The columns of names, each with the titles of those that stand in it.
        narrow: Another one for where there is no room.
    """
    lines = [
        _Line({"run": part.run_id, "question set": part.question_set, "stage": part.stage, "with": part.model}, [part])
        for part in estimates
    ]
    lines += [_Line({"stage": stage}, parts) for stage, parts in _by_stage(estimates)]
    columns = [
        *(text(titles, partial(_names, titles), folds=len(named) == 1) for titles in named),
        number(("rows", "there"), lambda line: f"{_sum(line, 'rows_there')}/{_sum(line, 'rows_planned')}"),
        number("calls", _calls),
        number(("fallback", "calls"), lambda line: _known([part.fallback_calls for part in line.parts], ",.0f")),
        number(("prompt", "tokens"), lambda line: _sum(line, "prompt_tokens")),
        number(("completion", "tokens"), lambda line: _sum(line, "completion_tokens")),
        number(("cost", "in USD"), lambda line: _known([part.cost_usd for part in line.parts], ",.4f")),
        text("based on", _basis, folds=True),
    ]
    return Table(columns, bold=range(len(estimates), len(lines)), narrow=narrow).of(lines)


def _names(titles: Iterable[str], line: _Line) -> tuple[str, ...]:
    return tuple(line.names[title] for title in titles if title in line.names)


def _sum(line: _Line, name: str) -> str:
    return f"{sum(getattr(part, name) for part in line.parts):,}"


def _calls(line: _Line) -> str:
    low, high = _sum(line, "calls"), _sum(line, "calls_most")
    return low if low == high else f"{low}–{high}"


def _known(values: Sequence[float | None], form: str) -> str | tuple[str, str]:
    """Sum what is known, and say whether something is not; nothing and something unknown is unknown."""
    known = sum(value for value in values if value is not None)
    if None not in values:
        return f"{known:{form}}"
    return (f"{known:{form}} +", UNKNOWN) if known else UNKNOWN


def _basis(line: _Line) -> str:
    """Say what a number is made of: measured averages, upper bounds, or both."""
    if "with" in line.names:
        return line.parts[0].basis
    kinds = dict.fromkeys(part.basis.partition(":")[0] for part in line.parts if part.calls_most)
    return " + ".join(kinds) or NO_CALL


def _notes(estimates: Sequence[Forecast]) -> list[str]:
    asked = [estimate for estimate in estimates if estimate.calls_most]
    notes = ["Calls: what is paid for is left out; calls that fail and are tried again are not foreseen."]
    if any(estimate.calls < estimate.calls_most for estimate in asked):
        notes.append(
            "a–b calls: from the fewest to the most, where it hangs on replies that are not there yet. Tokens and cost "
            "are of the most calls; for judges, of the fewest and of the fallback calls."
        )
    if not all(estimate.upper_bound for estimate in asked):
        notes.append(
            "history: averages measured over finished calls in this lake, of the same stage, benchmark and model "
            "unless it says otherwise."
        )
    if any(estimate.upper_bound for estimate in asked):
        notes.append(
            "template (upper bound): completion tokens, and answers that a judge is yet to be shown, are at the limit "
            "of the call, the most there can be. Other prompt tokens are a rough count of the rendered text: within "
            "about 20 % for current large models, less than half of what a small vocabulary takes for Japanese."
        )
    if any(estimate.fallback_calls is None for estimate in asked):
        notes.append("Fallback calls (for judgements without a score): without history unknown, and none is counted.")
    elif any(estimate.fallback_calls for estimate in asked):
        notes.append("Fallback calls (for judgements without a score): at their past share; in tokens and cost.")
    if any(estimate.cost_usd is None for estimate in asked):
        notes.append("Cost unknown: there is no list price for the model at its endpoint.")
    return notes
