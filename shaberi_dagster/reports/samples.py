"""How many of a run's samples are there."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from shaberi_dagster.lake.store import Lake
from shaberi_dagster.reports.report import Result, Sentences
from shaberi_dagster.runs.spec import RunSpec


@dataclass(frozen=True)
class Samples:
    """The samples of one benchmark of a run.

    Attributes:
        benchmark: Its name.
        question_set: What was asked.
        n_questions: Questions of it.
        planned: Samples in all.
        made: Those without failure.
    """

    benchmark: str
    question_set: str
    n_questions: int
    planned: int
    made: int

    @property
    def failed(self) -> int:
        """Those that are missing."""
        return self.planned - self.made


def samples_of(spec: RunSpec, benchmarks: Sequence[str], lake: Lake) -> list[Samples]:
    """The samples of some benchmarks of a run, in their order."""
    answers = lake.read("answers", {"run_id": spec.run_id, "benchmark": benchmarks}, ["benchmark", "status"])
    return [
        Samples(
            benchmark=name,
            question_set=spec.benchmarks[name].question_set,
            n_questions=spec.n_questions(name),
            planned=spec.n_planned(name),
            made=answers.filter(benchmark=name, status="ok").height,
        )
        for name in benchmarks
    ]


def samples_result(samples: Sequence[Samples]) -> Result:
    """Say how many samples there are, a line for each benchmark."""
    rows = [asdict(part) | {"failed": part.failed} for part in samples]
    return Result([Sentences([_line(part) for part in samples])], rows)


def _line(part: Samples) -> str:
    there = f"{part.made} of {part.planned} samples of {part.n_questions} questions"
    return f"{part.benchmark} ({part.question_set}): {there}" + (f", {part.failed} failed" if part.failed else "")
