"""Judgements of a judge that is asked several times about an answer: one row, of which the score is the mean."""

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from shaberi_dagster.lake.journal.records import Call, Usage
from shaberi_dagster.llm.request import CallMaker, ChatRequest
from shaberi_dagster.tasks.judges.base import Case, Judge

_SUMMED = (*(f"judge_{name}" for name in Usage.__dataclass_fields__), "latency_seconds")
_BETWEEN = "\n\n"


async def judge_samples(judge: Judge, case: Case, make_call: CallMaker) -> dict[str, Any]:
    """Ask a judge as often as its settings say, and make one judgement of it.

    A time without a score makes the judgement a failure, which has the columns of that time: the same command asks for
    that one again, and finds the others paid for.
    """
    if judge.samples == 1:
        return await judge.judge(case, make_call)
    return _summed_up([await judge.judge(case, _calling(make_call, index)) for index in range(judge.samples)])


def _calling(make_call: CallMaker, index: int) -> CallMaker:
    """Return the maker of the calls of one of the times, the first of which is as if it were the only one."""

    def call(request: ChatRequest, purpose: str, *, lookup: bool = False) -> Coroutine[Any, Any, tuple[Call, bool]]:
        return make_call(replace(request, sample_index=index), purpose, lookup=lookup or index > 0)

    return call


def _summed_up(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    scores: list[Any] = [row.get("score") for row in found]
    row = {
        **next((row for row in found if row["status"] != "ok"), found[0]),
        **{name: _sum([row[name] for row in found]) for name in _SUMMED},
        "sample_scores": scores,
        "sample_request_hashes": [row["request_hash"] for row in found],
    }
    if row["status"] == "ok":
        row["score"] = fmean(scores)
        outputs = (f"[{number} of {len(found)}]\n{row['judge_output']}" for number, row in enumerate(found, start=1))
        row["judge_output"] = _BETWEEN.join(outputs)
    return row


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
