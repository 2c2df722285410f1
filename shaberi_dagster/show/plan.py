"""How a plan is shown, as `--dry-run` prints it: calls, tokens and cost by stage, and how far they can be trusted."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from shaberi_dagster.reports.report import Block, Document, Heading, Sentences, Table, number, table_of, text
from shaberi_dagster.show.terminal import table_width
from shaberi_dagster.stages.forecast import ALL_STAGES, NO_CALL, Forecast, totals

_UNKNOWN = "unknown"
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


@dataclass(frozen=True)
class PlanDocument(Document):
    """A plan in each of the formats.

    Attributes:
        estimates: From `forecast`.
    """

    estimates: Sequence[Forecast]

    def blocks(self, width: int | None) -> Iterable[Block]:
        """A row for each estimate and each total; on a narrow terminal the names of a row stand below each other."""
        runs = list(dict.fromkeys(one.run_id for one in self.estimates))
        several = len(runs) > 1
        yield Heading(_NO_CALL_IS_MADE) if several else Heading(runs[0], _NO_CALL_IS_MADE)
        names = [*(["run"] if several else []), "question set", "stage", "with"]
        table = self._table([(name,) for name in names])
        too_wide = width is not None and table_width(table) > width
        yield self._table([tuple(names)]) if too_wide else table
        yield Sentences(_notes(self.estimates), "note")

    def records(self) -> Iterable[Mapping[str, Any]]:
        """A line for each estimate."""
        return map(asdict, self.estimates)

    def data(self) -> Mapping[str, Any]:
        """Estimates, sums by stage, and what is to know of them."""
        return {
            "rows": [asdict(one) for one in self.estimates],
            "totals": [asdict(one) for one in totals(self.estimates)],
            "notes": _notes(self.estimates),
        }

    def _table(self, named: Sequence[tuple[str, ...]]) -> Table:
        """The table.

        Args:
            named: The columns of names, each with the titles of those that stand in it.
        """
        lines = [
            _Line({"run": one.run_id, "question set": one.question_set, "stage": one.stage, "with": one.model}, [one])
            for one in self.estimates
        ]
        for total in totals(self.estimates):
            parts = [one for one in self.estimates if total.stage in {one.stage, ALL_STAGES}]
            lines.append(_Line({"stage": total.stage}, parts))
        columns = [
            *(text(titles, partial(_names, titles), folds=len(named) == 1) for titles in named),
            number(("rows", "there"), lambda line: f"{_sum(line, 'rows_there')}/{_sum(line, 'rows_planned')}"),
            number("calls", _calls),
            number(("fallback", "calls"), lambda line: _known([one.fallback_calls for one in line.parts], ",.0f")),
            number(("prompt", "tokens"), lambda line: _sum(line, "prompt_tokens")),
            number(("completion", "tokens"), lambda line: _sum(line, "completion_tokens")),
            number(("cost", "in USD"), lambda line: _known([one.cost_usd for one in line.parts], ",.4f")),
            text("based on", _basis, folds=True),
        ]
        return table_of(lines, columns, bold=range(len(self.estimates), len(lines)))


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
    return (f"{known:{form}} +", _UNKNOWN) if known else _UNKNOWN


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
