"""A decision between models, as it is shown."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shaberi_dagster.reports.decision import DecisionReport
from shaberi_dagster.reports.figures import counted, interval_of, signed_interval
from shaberi_dagster.reports.report import Block, Column, Heading, Result, Row, Sentences, Table, number, text

_OPEN = "open"


def decision_result(report: DecisionReport, full: Sequence[str] = ()) -> Result:
    """Say what a decision came to: the result first; then each pair, what it took, and how sure it is.

    Args:
        report: What it came to.
        full: The commands that evaluate the candidates in full.
    """
    own = report.decision
    outside, notes = list(_outside(own)), list(_notes(own))
    said: list[Block] = [
        Heading(report.verdict, f"decision {own['decision_id']}"),
        Sentences([f"{own['reason']}."] if own["reason"] else [], "warning"),
        _PAIRS.of([{**look, "n_questions": own["n_questions"]} for look in report.last_looks]),
        Sentences(outside, "warning"),
        Sentences(list(_sentences(report, full))),
        *([_REPLAYED.of(report.calibration)] if report.calibration else []),
        Sentences(notes, "note"),
    ]
    document = {
        **own,
        "verdict": report.verdict,
        "questions_saved": report.n_saved,
        "calls_saved": report.calls_saved,
        "cost_saved_usd": report.cost_saved_usd,
        "pairs": report.last_looks,
        "curve": report.curve,
        "calibration": report.calibration,
        "full_evaluation": list(full),
        "notes": [*outside, *notes],
    }
    return Result(said, [{"decision_id": own["decision_id"], **look} for look in report.curve], document)


def _in_words(look: Row) -> str:
    if look["verdict"] in {"A", "B"}:
        return f"{look['verdict']} is better"
    return _OPEN if look["verdict"] == _OPEN else "equal within the margin"


_PAIRS = Table(
    [
        text("A", "a"),
        text("B", "b"),
        number("asked", lambda look: f"{look['n_asked']} of {look['n_questions']}"),
        number("A - B", "estimate", form="{:+.2f}"),
        number("interval", lambda look: signed_interval(interval_of(look))),
        text("decided", _in_words),
    ]
)
_REPLAYED = Table(
    [
        Column("replayed pairs", "class"),
        Column("n", "n_pairs"),
        number("questions", "class_mean_questions", form="{:.2f}"),
        number("wrong", "share_wrong", form="{:.1%}"),
        number("equal", "share_equal", form="{:.1%}"),
    ]
)


def _outside(own: Mapping[str, Any]) -> Iterator[str]:
    for beyond in own.get("outside") or ():
        yield (
            f"Outside of the history: {beyond} than all {own['n_history']} past models on the same questions. "
            "What the replay promises does not hold for it, so that bets decide its pairs: they need no history."
        )


def _sentences(report: DecisionReport, full: Sequence[str]) -> Iterator[str]:
    own = report.decision
    cost = "cost unknown" if own["cost_usd"] is None else f"${own['cost_usd']:.4f}"
    yield (
        f"{counted(own['n_asked'] or 0, 'question')} of {own['n_questions']:,} were needed, with "
        f"{counted(own['calls'] or 0, 'call')} ({cost})."
    )
    if report.n_saved:
        about = f"about {report.calls_saved:,} calls" if report.calls_saved is not None else "their calls"
        dollars = f" (${report.cost_saved_usd:.4f})" if report.cost_saved_usd is not None else ""
        yield f"Not asked: {counted(report.n_saved, 'question')}, which saved {about}{dollars}."
    for command in full:
        yield f"In full, paying only for the rest: {command}"


def _notes(own: Mapping[str, Any]) -> Iterator[str]:
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
