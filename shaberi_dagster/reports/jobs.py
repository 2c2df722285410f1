"""The findings of several `quick-eval` jobs, read from the documents that they wrote."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator

from shaberi_dagster.reports.ensemble import Count, Difference, QuickReport, Share

COMPLETE = "complete"


class _Part(BaseModel):
    """A part of a gate's document that tables need."""

    model_config = ConfigDict(frozen=True)


class JobTest(_Part):
    """A test of a gate, see `show.gate.TESTS`."""

    strategy: str
    benchmark: str | None
    n_baseline: Count
    n_current: Count
    baseline_accuracy: Share | None
    current_accuracy: Share | None
    baseline_scored_accuracy: Share | None = None
    current_scored_accuracy: Share | None = None
    delta: Difference | None
    losses: Count | None = None
    gains: Count | None = None
    p_value: Share
    adjusted_p_value: Share | None
    minimum_detectable_effect: Share | None
    regressed: bool


class JobGate(_Part):
    """The result of a job's gate."""

    gate: str
    significance: Share
    passed: bool
    result: Literal["passed", "failed", "inconclusive"] = "passed"
    doubts: tuple[str, ...] = ()
    baseline: str
    tests: tuple[JobTest, ...]
    warnings: tuple[str, ...]

    @model_validator(mode="before")
    @classmethod
    def _of_before(cls, values: Any) -> Any:
        """Documents of before have `passed` alone."""
        if isinstance(values, dict) and "result" not in values and values.get("passed") is False:
            return values | {"result": "failed"}
        return values


@dataclass(frozen=True, kw_only=True)
class JobDocument(QuickReport):
    """The document of one job, as `quick-eval --json` wrote it.

    Attributes:
        gate: The result of its gate; None without a baseline.
    """

    gate: JobGate | None

    def __post_init__(self) -> None:
        """Refuse a document of nothing."""
        if not self.benchmarks and not self.judged:
            raise ValueError("it has no benchmark")


_DOCUMENT = TypeAdapter(JobDocument)


@dataclass(frozen=True)
class Job:
    """A document and the name of its file."""

    name: str
    document: JobDocument


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
    """Several jobs.

    Attributes:
        jobs: The readable documents.
        problems: The other files.
    """

    jobs: tuple[Job, ...]
    problems: tuple[Problem, ...]

    def gates(self, result: str) -> list[Job]:
        """Return the jobs whose gate has this result."""
        return [job for job in self.jobs if job.document.gate and job.document.gate.result == result]

    @property
    def incomplete(self) -> list[Job]:
        """Jobs with failed parts."""
        return [job for job in self.jobs if job.document.status != COMPLETE]


def read_jobs(paths: Sequence[Path]) -> JobsReport:
    """Read the documents in files, in the order of the files.

    Args:
        paths: Where they should be; it is no error when they are not.
    """
    stems = [path.stem for path in paths]
    jobs, problems = [], []
    for path in paths:
        name = path.stem if stems.count(path.stem) == 1 else str(path)
        try:
            jobs.append(Job(name, _DOCUMENT.validate_json(path.read_bytes())))
        except FileNotFoundError:
            problems.append(Problem(name, "gave no result"))
        except OSError as error:
            problems.append(Problem(name, "cannot be read", str(error.strerror)))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            detail = f"{place}: {first['msg']}" if place else first["msg"]
            problems.append(Problem(name, "is no document of quick-eval", detail))
    return JobsReport(tuple(jobs), tuple(problems))
