"""A run with everything that its spec names, each thing resolved once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from shaberi_dagster.runs.questions import load_questions
from shaberi_dagster.runs.spec import BenchmarkSpec, RunSpec
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.tasks.benchmarks.questions import Question
from shaberi_dagster.tasks.benchmarks.registry import Benchmark, get_benchmark


@dataclass(frozen=True)
class BenchmarkPlan:
    """A benchmark of a run, resolved: its entry, settings and questions.

    Attributes:
        benchmark: Its entry.
        settings: What the run's spec says of it.
        questions: All questions of its set, by id, in their order.
        asked: Those that the run asks.
    """

    benchmark: Benchmark
    settings: BenchmarkSpec
    questions: Mapping[str, Question]
    asked: Sequence[Question]

    @property
    def name(self) -> str:
        """The benchmark's name."""
        return self.benchmark.name


class RunPlan:
    """A run at work: its spec, and what that names.

    Args:
        spec: The run.
        benchmarks: Those of its benchmarks that are worked on.
        workspace: Where to read and write.
        judges: Only these of its judges are asked; none named means all.
    """

    def __init__(
        self, spec: RunSpec, benchmarks: Sequence[str], workspace: Workspace, judges: Sequence[str] = ()
    ) -> None:
        self.spec, self.workspace, self.names, self.judges = spec, workspace, list(benchmarks), list(judges)

    @cached_property
    def benchmarks(self) -> dict[str, BenchmarkPlan]:
        """The benchmarks by name.

        Raises:
            ConfigurationError: A question set is in the lake no more, nor where it came from.
        """
        return {name: self._benchmark(name) for name in self.names}

    def _benchmark(self, name: str) -> BenchmarkPlan:
        questions = load_questions(self.spec, name, self.workspace).questions
        by_id = {question.question_id: question for question in questions}
        settings = self.spec.benchmarks[name]
        asked = questions[: settings.limit]
        if settings.asked is not None:
            chosen = frozenset(settings.asked)
            asked = tuple(question for question in asked if question.question_id in chosen)
        return BenchmarkPlan(get_benchmark(name), settings, by_id, asked)
