"""A plan, as `--dry-run` prints it: calls, tokens and cost by stage, and how far they can be trusted."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

from shaberi_dagster.reports.report import UNKNOWN, Block, Heading, Result, Sentences, Table, number, table_of, text
from shaberi_dagster.runs.forecast import ALL_STAGES, NO_CALL, Forecast, totals

_NO_CALL_IS_MADE = "plan; no call is made"


@dataclass(frozen=True)
class _Line:
    """A row of the table.

    Attributes:
        names: Run, question set, stage and model by their titles; a sum has the stage alone.
        parts: What it adds up.
    """

    names: Mapping[str, str]
    parts: Sequence[Forecast]


def plan_result(estimates: Sequence[Forecast]) -> Result:
    """Say what a plan comes to: a row for each estimate and each total.

    On a narrow terminal the names of a row stand below each other.
    """
    runs = list(dict.fromkeys(estimate.run_id for estimate in estimates))
    several = len(runs) > 1
    names = [*(["run"] if several else []), "question set", "stage", "with"]
    rows, notes = [asdict(estimate) for estimate in estimates], _notes(estimates)
    said: list[Block] = [
        Heading(_NO_CALL_IS_MADE) if several else Heading(runs[0], _NO_CALL_IS_MADE),
        _table(estimates, [(name,) for name in names], narrow=_table(estimates, [tuple(names)])),
        Sentences(notes, "note"),
    ]
    return Result(said, rows, {"rows": rows, "totals": [asdict(total) for total in totals(estimates)], "notes": notes})


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
    for total in totals(estimates):
        parts = [part for part in estimates if total.stage in {part.stage, ALL_STAGES}]
        lines.append(_Line({"stage": total.stage}, parts))
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
    return table_of(lines, columns, bold=range(len(estimates), len(lines)), narrow=narrow)


def _names(titles: Iterable[str], line: _Line) -> tuple[str, ...]:
    return tuple(line.names[title] for title in titles if title in line.names)


def _sum(line: _Line, name: str) -> str:
    return f"{sum(getattr(one, name) for one in line.parts):,}"


def _calls(line: _Line) -> str:
    low, high = _sum(line, "calls"), _sum(line, "calls_most")
    return low if low == high else f"{low}–{high}"


def _known(values: Sequence[float | None], form: str) -> str | tuple[str, str]:
    """The sum of what is known, and whether something is not; nothing and something unknown is unknown."""
    known = sum(value for value in values if value is not None)
    if None not in values:
        return f"{known:{form}}"
    return (f"{known:{form}} +", UNKNOWN) if known else UNKNOWN


def _basis(line: _Line) -> str:
    """What a number is made of: measured averages, upper bounds, or both."""
    if "with" in line.names:
        return line.parts[0].basis
    kinds = dict.fromkeys(one.basis.partition(":")[0] for one in line.parts if one.calls_most)
    return " + ".join(kinds) or NO_CALL


def _notes(estimates: Sequence[Forecast]) -> list[str]:
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
