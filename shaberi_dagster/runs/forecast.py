"""Forecasts of the rows, calls, tokens and dollars of runs, and their totals."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

ALL_STAGES = "all"


NO_CALL = "no call"


@dataclass(frozen=True)
class Forecast:
    """Forecast of the calls to one model in one stage, for one benchmark of one run.

    Attributes:
        run_id: The run.
        benchmark: The benchmark.
        question_set: The version of its questions.
        source: Where the questions come from.
        stage: One of the stages that make calls.
        model: The model that is asked; a judge, strategy or pass by its name.
        rows_planned: Rows that the stage will have.
        rows_there: Those that stand already.
        calls: The fewest calls to be made if none fails; the other missing rows are paid for already, or need none.
        calls_most: The most; more than `calls` where it hangs on replies that are not there yet: a judgement without
            a score takes a second call, an answer that a rule cannot tell takes one, a council some more.
        fallback_calls: Further calls expected, for judgements without a score in the agreed form, at their past
            share; None where there is no history, and then none is in the other numbers.
        prompt_tokens: Expected tokens sent: of `calls` and `fallback_calls`, in other stages of `calls_most`.
        completion_tokens: Expected tokens received.
        cost_usd: Expected list price in US dollars; None is unknown.
        basis: What the expectation rests on: `history: N calls`, `template (upper bound)`, or `no call`.
        upper_bound: Whether completion tokens (and what follows from them) are the most there can be.
    """

    run_id: str
    benchmark: str
    question_set: str
    source: str
    stage: str
    model: str
    rows_planned: int
    rows_there: int
    calls: int
    calls_most: int
    fallback_calls: float | None
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    basis: str
    upper_bound: bool

    def without_calls(self) -> "Forecast":
        """Return the same rows for a command that makes no call."""
        return replace(
            self,
            calls=0,
            calls_most=0,
            fallback_calls=0.0,
            prompt_tokens=0,
            completion_tokens=0,
            cost_usd=0.0,
            basis=NO_CALL,
            upper_bound=False,
        )


@dataclass(frozen=True)
class Total:
    """The sum over estimates; None where a part is unknown.

    Attributes:
        stage: A stage, or `all`.
        rows_planned: As in `Forecast`, like all that follow.
    """

    stage: str
    rows_planned: int
    rows_there: int
    calls: int
    calls_most: int
    fallback_calls: float | None
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    upper_bound: bool


def totals(estimates: Sequence[Forecast]) -> list[Total]:
    """Sum estimates for each stage, in their order, and over all."""
    stages = dict.fromkeys(estimate.stage for estimate in estimates)
    return [
        *(_total(stage, [estimate for estimate in estimates if estimate.stage == stage]) for stage in stages),
        _total(ALL_STAGES, estimates),
    ]


def _total(stage: str, estimates: Sequence[Forecast]) -> Total:
    return Total(
        stage=stage,
        rows_planned=sum(estimate.rows_planned for estimate in estimates),
        rows_there=sum(estimate.rows_there for estimate in estimates),
        calls=sum(estimate.calls for estimate in estimates),
        calls_most=sum(estimate.calls_most for estimate in estimates),
        fallback_calls=_sum_of([estimate.fallback_calls for estimate in estimates]),
        prompt_tokens=sum(estimate.prompt_tokens for estimate in estimates),
        completion_tokens=sum(estimate.completion_tokens for estimate in estimates),
        cost_usd=_sum_of([estimate.cost_usd for estimate in estimates]),
        upper_bound=any(estimate.upper_bound for estimate in estimates),
    )


def _sum_of(values: Sequence[float | None]) -> float | None:
    """The sum, None when one of them is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
