"""What was done to a lake as a whole: compaction, a copy."""

from collections.abc import Mapping
from dataclasses import asdict

from shaberi_dagster.lake.copying import Copied
from shaberi_dagster.reports.figures import megabytes
from shaberi_dagster.reports.report import Result, Sentences


def compaction_result(counts: Mapping[str, Mapping[str, int]]) -> Result:
    """Say how many files compaction has left, a line for each table.

    Args:
        counts: For each table, as `Lake.compact` counts them.
    """
    lines = [
        f"{table}: {files['files_before']} files -> {files['files_after']}, {files['files_deleted']} deleted"
        for table, files in counts.items()
    ]
    return Result([Sentences(lines)], document=counts)


def copy_result(copied: Copied, target: str) -> Result:
    """Say what a copy of a lake has, and where it is."""
    rows = f"{sum(copied.rows.values()):,} rows of {len(copied.rows)} tables"
    files = f"{copied.files:,} files ({megabytes(copied.size)})"
    line = f"{rows}, {files}, are the same in {target}"
    return Result([Sentences([line])], document=asdict(copied) | {"target": target})
