"""Samples of a run that are there, and those that are missing."""

from collections.abc import Sequence

from shaberi_dagster.lake.store import Lake
from shaberi_dagster.reports.report import Result, Row, Sentences
from shaberi_dagster.runs.spec import RunSpec


def samples_of(spec: RunSpec, benchmarks: Sequence[str], lake: Lake) -> list[Row]:
    """Count the samples of some benchmarks of a run, in their order.

    Returns:
        Rows with the benchmark, its question set and number of questions, and samples `planned`, `made` and `failed`.
    """
    answers = lake.read("answers", {"run_id": spec.run_id, "benchmark": benchmarks}, ["benchmark", "status"])
    made = {name: answers.filter(benchmark=name, status="ok").height for name in benchmarks}
    return [
        {
            "benchmark": name,
            "question_set": spec.benchmarks[name].question_set,
            "n_questions": spec.n_questions(name),
            "planned": spec.n_planned(name),
            "made": made[name],
            "failed": spec.n_planned(name) - made[name],
        }
        for name in benchmarks
    ]


def samples_result(samples: Sequence[Row]) -> Result:
    """Say how many samples there are, a line for each benchmark."""
    return Result(
        [Sentences([_LINE.format(**row) + _FAILED.format(**row) * bool(row["failed"]) for row in samples])], samples
    )


_LINE = "{benchmark} ({question_set}): {made} of {planned} samples of {n_questions} questions"
_FAILED = ", {failed} failed"
