"""Forecast of a decision, before anything is asked: questions from replays of past pairs, calls from the plan."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

import numpy as np

from shaberi_dagster.deciding.candidates import CandidateScores, partial_spec
from shaberi_dagster.deciding.decision import Decision
from shaberi_dagster.reports.report import UNKNOWN, Block, Heading, Result, Sentences, number, table_of, text
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.stages.answers import Answers
from shaberi_dagster.stages.consensus import ConsensusAnswers
from shaberi_dagster.stages.forecast import forecast
from shaberi_dagster.stages.judgements import Judgements
from shaberi_dagster.statistics.calibration import PairClass

_STAGES = tuple(stage.name for stage in (Answers, ConsensusAnswers, Judgements))
_IN_WORDS: dict[PairClass, str] = {
    "p<0.001": "a clear pair",
    "p0.001-0.05": "a close pair",
    "p>0.05": "a pair that all questions leave undecided",
}


@dataclass(frozen=True)
class Expectation:
    """Forecast for one kind of pair.

    Attributes:
        pair: How close it is.
        n_questions: Questions, on average over replayed pairs; at most all.
        calls: Calls that are not paid for yet, the fewest.
        calls_most: The most.
        cost_usd: List price; None is unknown.
    """

    pair: str
    n_questions: int
    calls: int
    calls_most: int
    cost_usd: float | None


def expected(decision: Decision, workspace: Workspace, now: datetime) -> list[Expectation]:
    """Forecast what each kind of pair would take; nothing is changed and nobody is asked.

    Args:
        decision: From `prepare`.
        workspace: Where to read.
        now: The date of the prices.
    """
    calibration = decision.boundary.calibration if decision.boundary.history else None
    kinds = [
        (_IN_WORDS[result.name], int(np.ceil(result.mean_questions)))
        for result in (calibration.classes if calibration else ())
        if result.mean_questions is not None
    ]
    kinds.append(("at most", len(decision.pool.questions)))
    scores = CandidateScores(decision.candidates, decision.pool, workspace)
    return [
        Expectation(pair, n, *_calls(decision, scores, decision.boundary.order.questions[:n].tolist(), workspace, now))
        for pair, n in kinds
    ]


def _calls(
    decision: Decision, scores: CandidateScores, questions: Sequence[int], workspace: Workspace, now: datetime
) -> tuple[int, int, float | None]:
    """The fewest calls, the most, and what they cost."""
    full = {candidate.partial_run_id: candidate.spec for candidate in decision.candidates}
    specs = [partial_spec(full[run_id], asked, workspace.lake) for run_id, asked in scores.unasked(questions).items()]
    estimates = [
        estimate for spec in specs for estimate in forecast([spec], list(spec.benchmarks), _STAGES, workspace, now=now)
    ]
    costs = [estimate.cost_usd for estimate in estimates if estimate.calls_most]
    known = [cost for cost in costs if cost is not None]
    return (
        sum(estimate.calls for estimate in estimates),
        sum(estimate.calls_most for estimate in estimates),
        sum(known) if len(known) == len(costs) else None,
    )


def expected_result(expectations: Sequence[Expectation], decision_id: str, boundary: str, n_history: int) -> Result:
    """Say what a decision may take, a line for each kind of pair.

    Args:
        expectations: By how close the pair is.
        decision_id: Which decision.
        boundary: What would tell when it is sure: history or anytime.
        n_history: Past models of the judges.
    """
    columns = [
        text("for", lambda row: row.pair),
        number("questions", lambda row: f"{row.n_questions:,}"),
        number("calls", _range_of_calls),
        number("cost in USD", lambda row: UNKNOWN if row.cost_usd is None else f"{row.cost_usd:,.4f}"),
    ]
    note = (
        f"Questions: means of replayed decisions between past models (history of {n_history}); calls are "
        "of all candidates, and what is paid for is left out."
        if boundary == "history"
        else f"The history of {n_history} models does not suffice for a replay: a decision stops as soon as "
        "bets that are valid at any time allow it. Calls are of all candidates; what is paid for is left out."
    )
    rows = [asdict(row) for row in expectations]
    said: list[Block] = [
        Heading("plan; no call is made", f"decision {decision_id}"),
        table_of(expectations, columns),
        Sentences([note], "note"),
    ]
    document = {"decision_id": decision_id, "boundary": boundary, "n_history": n_history}
    return Result(said, rows, document | {"expected": rows, "notes": [note]})


def _range_of_calls(row: Expectation) -> str:
    return f"{row.calls:,}" if row.calls == row.calls_most else f"{row.calls:,}–{row.calls_most:,}"
