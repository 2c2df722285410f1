"""What a decision may take, before anything is asked: questions from replays of past pairs, calls from the plan."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from shaberi_dagster.deciding.candidates import Scores, partial_spec
from shaberi_dagster.deciding.decision import Decision
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.stages.answers import Answers
from shaberi_dagster.stages.consensus import Consensus
from shaberi_dagster.stages.forecast import forecast
from shaberi_dagster.stages.judgements import Judgements
from shaberi_dagster.statistics.calibration import PairClass

_STAGES = tuple(stage.name for stage in (Answers, Consensus, Judgements))
_IN_WORDS: dict[PairClass, str] = {
    "p<0.001": "a clear pair",
    "p0.001-0.05": "a close pair",
    "p>0.05": "a pair that all questions leave undecided",
}


@dataclass(frozen=True)
class Expectation:
    """What one kind of pair takes.

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
    """What each kind of pair would take; nothing is changed and nobody is asked.

    Args:
        decision: From `prepare`.
        workspace: Where to read.
        now: The date of the prices.
    """
    calibration = decision.boundary.calibration if decision.boundary.history else None
    kinds = [
        (_IN_WORDS[one.name], int(np.ceil(one.mean_questions)))
        for one in (calibration.classes if calibration else ())
        if one.mean_questions is not None
    ]
    kinds.append(("at most", len(decision.pool.questions)))
    scores = Scores(decision.candidates, decision.pool, workspace)
    return [
        Expectation(pair, n, *_calls(decision, scores, decision.boundary.order.questions[:n].tolist(), workspace, now))
        for pair, n in kinds
    ]


def _calls(
    decision: Decision, scores: Scores, questions: Sequence[int], workspace: Workspace, now: datetime
) -> tuple[int, int, float | None]:
    """The fewest calls, the most, and what they cost."""
    full = {one.partial_run_id: one.spec for one in decision.candidates}
    specs = [partial_spec(full[run_id], own, workspace.lake) for run_id, own in scores.unasked(questions).items()]
    estimates = [one for spec in specs for one in forecast([spec], list(spec.benchmarks), _STAGES, workspace, now=now)]
    costs = [one.cost_usd for one in estimates if one.calls_most]
    known = [cost for cost in costs if cost is not None]
    return (
        sum(one.calls for one in estimates),
        sum(one.calls_most for one in estimates),
        sum(known) if len(known) == len(costs) else None,
    )
