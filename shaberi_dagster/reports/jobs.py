"""The findings of several `quick-eval` jobs, read from the documents that they wrote."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, TypeAdapter, ValidationError, model_validator

from shaberi_dagster.reports.ensemble import Count, Difference, QuickReport, Share
from shaberi_dagster.reports.report import Row

COMPLETE = "complete"


class JobTest(BaseModel, frozen=True):
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


class JobGate(BaseModel, frozen=True):
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
        name: Of its file.
    """

    gate: JobGate | None
    name: str = ""

    def __post_init__(self) -> None:
        """Refuse a document of nothing."""
        if not self.benchmarks and not self.judged:
            raise ValueError("it has no benchmark")


_DOCUMENT = TypeAdapter(JobDocument)


@dataclass(frozen=True)
class JobsReport:
    """Several jobs.

    Attributes:
        jobs: The readable documents.
        problems: The other files, which are not there or cannot be read: rows with the name of the file, what is wrong
            with it, and the detail that the system or the reader says, which can be empty.
    """

    jobs: Sequence[JobDocument]
    problems: Sequence[Row]

    def gates(self, result: str) -> list[JobDocument]:
        """Return the jobs whose gate has this result."""
        return [job for job in self.jobs if job.gate and job.gate.result == result]

    @property
    def incomplete(self) -> list[JobDocument]:
        """Jobs with failed parts."""
        return [job for job in self.jobs if job.status != COMPLETE]


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
            jobs.append(replace(_DOCUMENT.validate_json(path.read_bytes()), name=name))
        except FileNotFoundError:
            problems.append({"name": name, "what": "gave no result", "detail": ""})
        except OSError as error:
            problems.append({"name": name, "what": "cannot be read", "detail": str(error.strerror)})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            detail = f"{place}: {first['msg']}" if place else first["msg"]
            problems.append({"name": name, "what": "is no document of quick-eval", "detail": detail})
    return JobsReport(jobs, problems)
