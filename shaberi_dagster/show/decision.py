"""How a decision between models is shown."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from shaberi_dagster.reports.decision import DecisionReport, StoredLook
from shaberi_dagster.reports.figures import counted, decimals, percent, signed
from shaberi_dagster.reports.report import Block, Document, Heading, Sentences, number, table_of, text
from shaberi_dagster.statistics.intervals import Interval

_OPEN = "open"


@dataclass(frozen=True)
class DecisionDocument(Document):
    """A decision in each of the formats.

    Attributes:
        report: What it came to.
        full: The commands that evaluate the candidates in full.
    """

    report: DecisionReport
    full: tuple[str, ...] = ()

    def blocks(self, width: int | None) -> Iterable[Block]:
        """The result first; then each pair, what it took, and how sure it is."""
        del width
        own = self.report.decision
        yield Heading(f"{self.report.verdict}", f"decision {own['decision_id']}")
        if own["reason"]:
            yield Sentences([f"{own['reason']}."], "warning")
        columns = [
            text("A", lambda look: look.a),
            text("B", lambda look: look.b),
            number("asked", lambda look: f"{look.n_asked} of {own['n_questions']}"),
            number("A - B", lambda look: signed(look.estimate)),
            number("interval", _interval),
            text("decided", _in_words),
        ]
        yield table_of(self.report.last_looks, columns)
        yield Sentences(list(self._outside()), "warning")
        yield Sentences(list(self._sentences()))
        if self.report.calibration:
            yield table_of(
                self.report.calibration,
                [
                    text("replayed pairs", lambda row: row["class"]),
                    number("n", lambda row: f"{row['n_pairs']:,}"),
                    number("questions", lambda row: decimals(row["class_mean_questions"])),
                    number("wrong", lambda row: percent(row["share_wrong"])),
                    number("equal", lambda row: percent(row["share_equal"])),
                ],
            )
        yield Sentences(list(self._notes()), "note")

    def _outside(self) -> Iterator[str]:
        own = self.report.decision
        for beyond in own.get("outside") or ():
            yield (
                f"Outside of the history: {beyond} than all {own['n_history']} past models on the same questions. "
                "What the replay promises does not hold for it, so that bets decide its pairs: they need no history."
            )

    def _sentences(self) -> Iterator[str]:
        report, own = self.report, self.report.decision
        cost = "cost unknown" if own["cost_usd"] is None else f"${own['cost_usd']:.4f}"
        yield (
            f"{counted(own['n_asked'] or 0, 'question')} of {own['n_questions']:,} were needed, with "
            f"{counted(own['calls'] or 0, 'call')} ({cost})."
        )
        if report.n_saved:
            about = f"about {report.calls_saved:,} calls" if report.calls_saved is not None else "their calls"
            dollars = f" (${report.cost_saved_usd:.4f})" if report.cost_saved_usd is not None else ""
            yield f"Not asked: {counted(report.n_saved, 'question')}, which saved {about}{dollars}."
        for command in self.full:
            yield f"In full, paying only for the rest: {command}"

    def _notes(self) -> Iterator[str]:
        own = self.report.decision
        judges = " + ".join(own["judges"])
        yield (
            f"This is about these questions ({', '.join(own['question_sets'])}), judged by {judges}, every benchmark "
            "with equal weight; `shaberi compare` is about questions of the kind."
        )
        yield f"Equal: the whole interval is within {own['margin']:g}."
        yield f"Allowed error: {own['error']:g}, shared out over all pairs."
        if own["boundary"] == "history":
            yield (
                f"Boundary: the history of {own['n_history']} models by {judges}, calibrated by replay with families "
                f"held out: the truth may be {own['constant']:.2f} spreads away. The table is of that replay."
            )
        else:
            yield (
                f"Boundary: bets that are valid however often one looks, in a random order; the history of "
                f"{own['n_history']} models by {judges} does not suffice to calibrate a bolder one."
            )
        yield "What was asked is a partial run: it is in no leaderboard, and a full evaluation pays only for the rest."

    def data(self) -> Mapping[str, Any]:
        """One document."""
        return {
            **self.report.decision,
            "verdict": self.report.verdict,
            "questions_saved": self.report.n_saved,
            "calls_saved": self.report.calls_saved,
            "cost_saved_usd": self.report.cost_saved_usd,
            "pairs": [asdict(look) for look in self.report.last_looks],
            "curve": [asdict(look) for look in self.report.curve],
            "calibration": self.report.calibration,
            "full_evaluation": list(self.full),
            "notes": [*self._outside(), *self._notes()],
        }

    def records(self) -> Iterable[Mapping[str, Any]]:
        """A line for each look."""
        own = {"decision_id": self.report.decision["decision_id"]}
        return (own | asdict(look) for look in self.report.curve)


def _interval(look: StoredLook) -> str:
    if look.lower is None or look.upper is None:
        return "-"
    ends = Interval(look.lower, look.upper)
    return f"{signed(ends.lower)} to {signed(ends.upper)}"


def _in_words(look: StoredLook) -> str:
    if look.verdict in {"A", "B"}:
        return f"{look.verdict} is better"
    return _OPEN if look.verdict == _OPEN else "equal within the margin"
