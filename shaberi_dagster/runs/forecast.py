"""Forecasts of the rows, calls, tokens and dollars of runs."""

from collections.abc import Iterable
from dataclasses import dataclass

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


def sum_if_known(values: Iterable[float | None]) -> float | None:
    """Sum values; None when one of them is unknown."""
    every = list(values)
    known = [value for value in every if value is not None]
    return sum(known) if len(known) == len(every) else None
