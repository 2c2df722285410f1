"""What a stage has to say about one benchmark when it is done."""

from dataclasses import dataclass, field
from typing import Any

import polars as pl

from shaberi_dagster.benchmarks.registry import Benchmark


@dataclass(frozen=True)
class Check:
    """One thing that must be true of what a stage made.

    Attributes:
        name: Its name; each stage has a fixed set of them (`CHECKS`).
        passed: Whether it is.
        description: One sentence with the numbers behind it.
        severe: False for a warning.
    """

    name: str
    passed: bool
    description: str
    severe: bool = True


@dataclass(frozen=True)
class StageResult:
    """What one stage made of one benchmark of one run.

    Attributes:
        run_id: The run.
        stage: One of `STAGES`.
        benchmark: The benchmark.
        facts: Plain numbers and texts, by name.
        preview: A few rows of text for readers.
        scores: The scores to plot, by judge.
        checks: One for each name in `CHECKS[stage]`.
    """

    run_id: str
    stage: str
    benchmark: str
    facts: dict[str, Any]
    preview: pl.DataFrame
    scores: dict[str, list[float]] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()


STAGES = ("answers", "consensus", "judgements", "pass_outputs", "scores", "metrics")
"""In order; what a run has no strategies or passes for, makes no rows."""
CHECKS: dict[str, dict[str, str]] = {
    "answers": {
        "complete": "There is a row for each planned sample of the question set.",
        "few_failures": "At most 5 % of the samples failed.",
    },
    "consensus": {
        "complete": "Each strategy has a row for each question.",
        "few_failures": "At most 5 % of them failed.",
    },
    "judgements": {
        "complete": "Each judge has a row for each planned sample.",
        "few_failures": "At most 5 % of the judgements failed.",
        "within_scale": "All scores are within the benchmark's scale.",
        "fresh": "No judgement is stale (of another answer text) or orphaned (of no answer).",
    },
    "pass_outputs": {
        "complete": "Each pass has a row for each answer that did not fail.",
        "few_failures": "At most 5 % of the answers could not be examined.",
    },
    "scores": {"complete": "Each judge has a score row for each planned sample, under each pass pipeline."},
    "metrics": {"all_scored": "Every planned sample has a score or is excluded for a reason."},
}
GRADED_CHECKS = {
    "metrics": {"no_regression": "The run is not worse than the baseline that was named, as far as a gate could tell."}
}
"""Further ones where rules grade answers as right or wrong, made on request alone."""
MOST_FAILURES = 0.05


def checks_of(stage: str, benchmark: Benchmark) -> dict[str, str]:
    """The checks of a stage of a benchmark: name to what it checks."""
    return CHECKS[stage] | (GRADED_CHECKS.get(stage, {}) if benchmark.has_rule else {})


def failures_check(failed: int, total: int) -> Check:
    """`few_failures`, which only warns: what failed is tried again by the next materialisation."""
    passed = failed <= MOST_FAILURES * total
    return Check("few_failures", passed, f"{failed} of {total} failed", severe=False)


def complete_check(rows: int, planned: int) -> Check:
    """`complete`."""
    return Check("complete", rows == planned, f"{rows} of {planned} planned rows")


def by_class(frame: pl.DataFrame) -> dict[str, int]:
    """How many rows there are of each failure or exclusion class."""
    counts = frame.filter(pl.col("status") != "ok").group_by("error_class").len().sort("len", descending=True)
    return {str(name): count for name, count in counts.iter_rows()}


def total(frame: pl.DataFrame, column: str) -> int | None:
    """The sum of a token column, None when nothing is known."""
    known = frame[column].drop_nulls()
    return int(known.sum()) if len(known) else None
