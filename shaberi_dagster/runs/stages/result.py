"""Results of a stage: facts, checks and a preview for one benchmark."""

from dataclasses import dataclass, field
from typing import Any

import polars as pl

from shaberi_dagster.util.checks import Check


@dataclass(frozen=True)
class StageResult:
    """Result of a stage for one benchmark of one run.

    Attributes:
        run_id: The run.
        stage: The stage's name.
        benchmark: The benchmark.
        facts: Plain numbers and texts, by name.
        preview: A few rows of text for readers.
        scores: The scores to plot, by judge.
        checks: One for each of the stage's.
    """

    run_id: str
    stage: str
    benchmark: str
    facts: dict[str, Any]
    preview: pl.DataFrame
    scores: dict[str, list[float]] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()


MOST_FAILURES = 0.05


def failures_check(failed: int, total: int) -> Check:
    """`few_failures`, which only warns: what failed is tried again by the next materialisation."""
    passed = failed <= MOST_FAILURES * total
    return Check("few_failures", passed, f"{failed} of {total} failed", severe=False)


def complete_check(rows: int, planned: int) -> Check:
    """`complete`."""
    return Check("complete", rows == planned, f"{rows} of {planned} planned rows")


def by_class(frame: pl.DataFrame) -> dict[str, int]:
    """Count the rows of each failure or exclusion class."""
    counts = frame.filter(pl.col("status") != "ok").group_by("error_class").len().sort("len", descending=True)
    return {str(name): count for name, count in counts.iter_rows()}


def total(frame: pl.DataFrame, column: str) -> int | None:
    """The sum of a token column, None when nothing is known."""
    known = frame[column].drop_nulls()
    return int(known.sum()) if len(known) else None
