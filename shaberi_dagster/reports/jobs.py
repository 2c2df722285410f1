"""What several `quick-eval` jobs found, from the documents that they wrote."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from shaberi_dagster.runs.spec import SINGLE

SAMPLES = "samples"
"""What stands for the shared samples among the results."""
COMPLETE = "complete"

_Count = Annotated[int, Field(ge=0, le=10**12)]
_Amount = Annotated[float, Field(ge=0, le=1e12)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Difference = Annotated[float, Field(ge=-1, le=1)]
_Score = Annotated[float, Field(ge=-1e6, le=1e6)]


class _Part(BaseModel):
    """What is needed of docs/schemas/quick-eval.schema.json, and no number that a table has no room for."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, extra="ignore")


class _Interval(_Part):
    lower: _Difference
    upper: _Difference


class Mean(_Part):
    """A strategy over several benchmarks, and its gain over the single answer."""

    strategy: str
    accuracy: _Share
    delta: _Difference | None
    delta_interval: _Interval | None


class JobResult(Mean):
    """A strategy on one benchmark or over all questions, and what it took; times are in seconds."""

    n_planned: Annotated[_Count, Field(ge=1)]
    n_failed: _Count
    n_excluded: _Count
    n_correct: _Count
    calls: _Count
    prompt_tokens: _Count | None
    completion_tokens: _Count | None
    cost_usd: _Amount | None
    calls_without_cost: _Count
    seconds: _Amount | None

    @property
    def tokens(self) -> float | None:
        """Sent and received."""
        return _sum([self.prompt_tokens, self.completion_tokens])


class _Sample(_Part):
    of: str
    size: _Count
    order: str


class _Benchmark(_Part):
    benchmark: str
    question_set: str
    question_set_sha256: str
    n_questions: _Count
    sample: _Sample | None
    temperature: float | None = Field(ge=0, le=10)
    max_tokens: _Count | None
    prompt_hash: str
    judge: str | None
    results: tuple[JobResult, ...]


class _Against(_Part):
    strategy: str
    reference: str
    n_only_strategy: _Count
    n_only_reference: _Count
    difference: _Difference | None
    interval: _Interval | None
    adjusted_p_value: _Share | None
    n_more: _Count | None
    why_withheld: str = ""


class ScoreInterval(_Part):
    """Interval of a score or of a difference of two, on the reported scale."""

    lower: _Score
    upper: _Score


class _AgainstSamples(_Part):
    n_questions: _Count
    n_only_strategy: _Count
    n_only_reference: _Count
    difference: _Score | None
    interval: ScoreInterval | None
    why_withheld: str = ""


class JudgedResult(_Part):
    """A strategy on one benchmark that an LLM judges, and its gain over the samples."""

    benchmark: str
    question_set: str
    judge: str
    strategy: str
    score: _Score | None
    n_planned: _Count
    n_scored: _Count
    interval: ScoreInterval | None = None
    against: _AgainstSamples | None = None
    calls: _Count | None = None


class _Pooled(_Part):
    results: tuple[JobResult, ...]
    against: tuple[_Against, ...] = ()


class _Overall(_Part):
    pooled: _Pooled
    mean_of_benchmarks: tuple[Mean, ...]


class _Settings(_Part):
    ensemble: _Count
    members: tuple[str, ...]
    single: str
    consensus_model: str
    judge_model: str | None
    base_url: str


class _Test(_Part):
    strategy: str
    benchmark: str | None
    n_baseline: _Count
    n_current: _Count
    baseline_accuracy: _Share | None
    current_accuracy: _Share | None
    delta: _Difference | None
    p_value: _Share
    adjusted_p_value: _Share | None
    minimum_detectable_effect: _Share | None
    regressed: bool


class _Gate(_Part):
    gate: str
    significance: _Share
    passed: bool
    result: Literal["passed", "failed", "inconclusive"] = "passed"
    doubts: tuple[str, ...] = ()
    baseline: str
    tests: tuple[_Test, ...]
    warnings: tuple[str, ...]

    @model_validator(mode="before")
    @classmethod
    def _of_before(cls, values: Any) -> Any:
        """Documents of before have `passed` alone."""
        if isinstance(values, dict) and "result" not in values and values.get("passed") is False:
            return values | {"result": "failed"}
        return values


class JobDocument(_Part):
    """What one job wrote with `quick-eval --json`."""

    format: Literal["shaberi-quick-eval/1"]
    model: str
    run_tag: str
    status: str
    policy: str
    settings: _Settings
    benchmarks: tuple[_Benchmark, ...]
    overall: _Overall
    judged: tuple[JudgedResult, ...] = ()
    gate: _Gate | None

    @model_validator(mode="after")
    def _has_benchmarks(self) -> Self:
        if not self.benchmarks and not self.judged:
            raise ValueError("it has no benchmark")
        return self


@dataclass(frozen=True)
class Job:
    """A document and the name of its file."""

    name: str
    document: JobDocument

    @property
    def strategies(self) -> list[str]:
        """Those beyond the single answer."""
        return [one.strategy for one in self.document.overall.pooled.results if one.strategy not in {SINGLE, SAMPLES}]


@dataclass(frozen=True)
class Problem:
    """A file that is not there, or cannot be read.

    Attributes:
        name: Of the file.
        what: What is wrong with it.
        detail: What the system or the reader says; "" is nothing.
    """

    name: str
    what: str
    detail: str = ""


@dataclass(frozen=True)
class JobsReport:
    """What was read.

    Attributes:
        jobs: The readable documents.
        problems: The other files.
    """

    jobs: tuple[Job, ...]
    problems: tuple[Problem, ...]

    def gates(self, result: str) -> list[Job]:
        """Jobs whose gate has this result."""
        return [job for job in self.jobs if job.document.gate and job.document.gate.result == result]

    @property
    def incomplete(self) -> list[Job]:
        """Jobs with failed parts."""
        return [job for job in self.jobs if job.document.status != COMPLETE]


def read_jobs(paths: Sequence[Path]) -> JobsReport:
    """The documents in the files, in the order of the files.

    Args:
        paths: Where they should be; it is no error when they are not.
    """
    stems = [path.stem for path in paths]
    jobs, problems = [], []
    for path in paths:
        name = path.stem if stems.count(path.stem) == 1 else str(path)
        try:
            jobs.append(Job(name, JobDocument.model_validate_json(path.read_bytes())))
        except FileNotFoundError:
            problems.append(Problem(name, "gave no result"))
        except OSError as error:
            problems.append(Problem(name, "cannot be read", str(error.strerror)))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            said = f"{place}: {first['msg']}" if place else first["msg"]
            problems.append(Problem(name, "is no document of quick-eval", said))
    return JobsReport(tuple(jobs), tuple(problems))


def _sum(values: Iterable[float | None]) -> float | None:
    """None if nothing is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
