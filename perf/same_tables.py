"""Whether two lakes say the same, cell by cell, apart from what must differ when the same is made twice."""

from collections import Counter
from collections.abc import Iterator, Mapping

import polars as pl

from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.lake.store import Lake

MAY_DIFFER = {
    "created_at": "when the row was made",
    "judged_at": "when the judgement that a score rests on was made",
    "updated_at": "when a stage last changed the run",
    "finished_at": "when the run became complete",
    "latency_seconds": "how long the endpoint took this time",
    "attempts": "how often a call was tried, while the endpoint or the host was busy",
}
"""Columns that tell of one time that something was made, and why."""
WITHOUT = {"limit_changes": "how the limiter found its limit, which hangs on latencies"}
"""Tables of which nothing else is left."""


def tables_of(lake: Lake) -> dict[str, pl.DataFrame]:
    """All rows of a lake without what may differ, by table; tables without rows are left out."""
    lake.refresh()
    read = {name: lake.read(name).drop(MAY_DIFFER, strict=False) for name in TABLES if name not in WITHOUT}
    return {name: rows for name, rows in read.items() if rows.height}


def differences(found: Mapping[str, pl.DataFrame], expected: Mapping[str, pl.DataFrame]) -> Iterator[str]:
    """What is in the one and not in the other, a sentence for each table and side.

    Args:
        found: What `tables_of` gave.
        expected: Likewise.
    """
    for name in sorted(found.keys() | expected.keys()):
        counts = [_counted(tables.get(name)) for tables in (found, expected)]
        for side, rows in (("too much", counts[0] - counts[1]), ("missing", counts[1] - counts[0])):
            if rows:
                yield f"{name}: {rows.total()} rows {side}, such as {next(iter(rows))[:1000]}"


def _counted(rows: pl.DataFrame | None) -> Counter[str]:
    if rows is None:
        return Counter()
    return Counter(rows.select(pl.struct(pl.col(sorted(rows.columns))).struct.json_encode()).to_series())
