"""Forecast of a decision, before anything is asked: questions from replays of past pairs, calls from the plan."""

from collections.abc import Sequence
from datetime import datetime

import numpy as np

from shaberi_dagster.deciding.candidates import CandidateScores, partial_spec
from shaberi_dagster.deciding.decision import Decision
from shaberi_dagster.reports.blocks import UNKNOWN, Block, Heading, Result, Row, Sentences, Table, number, text
from shaberi_dagster.runs.forecast import sum_if_known
from shaberi_dagster.runs.stages.answers import Answers
from shaberi_dagster.runs.stages.consensus import ConsensusAnswers
from shaberi_dagster.runs.stages.forecast import forecast
from shaberi_dagster.runs.stages.judgements import Judgements
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.statistics.calibration import PairClass

_STAGES = tuple(stage.name for stage in (Answers, ConsensusAnswers, Judgements))
_IN_WORDS: dict[PairClass, str] = {
    "p<0.001": "a clear pair",
    "p0.001-0.05": "a close pair",
    "p>0.05": "a pair that all questions leave undecided",
}


def expected(decision: Decision, workspace: Workspace, now: datetime) -> list[Row]:
    """Forecast what each kind of pair would take; nothing is changed and no model is called.

    Args:
        decision: From `prepare`.
        workspace: Where to read.
        now: The date of the prices.

    Returns:
        Rows with the kind of `pair`, its questions (`n_questions`, on average over replayed pairs, or at most), calls
        that are not paid for yet, the fewest (`calls`) and the most (`calls_most`), and their list price (`cost_usd`).
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
        {"pair": pair, "n_questions": n}
        | _calls(decision, scores, decision.boundary.order.questions[:n].tolist(), workspace, now)
        for pair, n in kinds
    ]


def _calls(
    decision: Decision, scores: CandidateScores, questions: Sequence[int], workspace: Workspace, now: datetime
) -> dict[str, float | None]:
    """Count the fewest calls, the most, and what they cost; None is unknown."""
    full = {candidate.partial_run_id: candidate.spec for candidate in decision.candidates}
    specs = [partial_spec(full[run_id], asked, workspace.lake) for run_id, asked in scores.unasked(questions).items()]
    estimates = [
        estimate for spec in specs for estimate in forecast([spec], list(spec.benchmarks), _STAGES, workspace, now=now)
    ]
    return {
        "calls": sum(estimate.calls for estimate in estimates),
        "calls_most": sum(estimate.calls_most for estimate in estimates),
        "cost_usd": sum_if_known(estimate.cost_usd for estimate in estimates if estimate.calls_most),
    }


def expected_result(expectations: Sequence[Row], decision_id: str, boundary: str, n_history: int) -> Result:
    """Say what a decision may take, a line for each kind of pair.

    Args:
        expectations: By how close the pair is.
        decision_id: The decision.
        boundary: The rule that would tell when it is sure: history or anytime.
        n_history: Past models of the judges.
    """
    note = (
        f"Questions: means of replayed decisions between {n_history} past models. "
        "Calls: of all candidates, less what is paid for."
        if boundary == "history"
        else f"The history of {n_history} models does not suffice for a replay: a decision stops as soon as "
        "bets allow it. Calls: of all candidates, less what is paid for."
    )
    said: list[Block] = [
        Heading("plan; no call is made", f"decision {decision_id}"),
        _EXPECTED.of(expectations),
        Sentences([note], "note"),
    ]
    document = {"decision_id": decision_id, "boundary": boundary, "n_history": n_history}
    return Result(said, expectations, document | {"expected": expectations, "notes": [note]})


def _range_of_calls(row: Row) -> str:
    least, most = f"{row['calls']:,}", f"{row['calls_most']:,}"
    return least if least == most else f"{least}–{most}"


_EXPECTED = Table(
    [
        text("for", "pair"),
        number("questions", "n_questions"),
        number("calls", _range_of_calls),
        number("cost in USD", "cost_usd", form="{:,.4f}", null=UNKNOWN),
    ]
)
