"""Files as readers and writers want them: few, of about 16 MB, each with its rows in the order of models.

Replacing a run writes the rest of its files again, so they are not larger. A reader of a model finds its rows
together.
"""

from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path
from urllib.parse import unquote

import duckdb
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import RemoveAction

from shaberi_dagster.lake.connections import connected
from shaberi_dagster.lake.schemas import TABLES, LakeTable
from shaberi_dagster.lake.store import FILE_BYTES, Lake, retry_conflicts, says_disk_trouble
from shaberi_dagster.lake.writer import NewFile, commit_files, new_part, new_parts, removed
from shaberi_dagster.util.portions import portions

_MEMORY = "1GB"  # for bringing rows into order; what is more goes to the disk
_GROUP_BYTES, _GROUP_ROWS = 8 << 20, 16_384  # of a row group in memory: readers unpack much of it for one row
_BATCH_ROWS = 1_024
_COMMIT_BYTES = 64 << 20  # of small files: others may replace a run meanwhile, and then it is done again
_WEEK_HOURS = 7 * 24
# The name of a run begins with that of its model.
_ORDER = ("run_id", "model", "question_id", "sample_index")


def compact_lake(lake: Lake, retention_hours: int = _WEEK_HOURS) -> dict[str, dict[str, int]]:
    """Bring all files to a good size and order, and delete those that no version younger than the retention needs.

    Args:
        lake: What is compacted.
        retention_hours: Older files may still be read by no one; 0 is only safe without readers.

    Returns:
        For each table `files_before`, `files_after` and `files_deleted`.
    """
    lake.make_ready()
    counts = {name: _compact(lake, name, retention_hours) for name in lake.versions()}
    lake.prune()
    return counts


@says_disk_trouble
@retry_conflicts
def _compact(lake: Lake, table: str, retention_hours: int) -> dict[str, int]:
    before = len(lake.files(table))
    put_together(lake, table)
    with lake.writing(table) as delta:
        deleted = delta.vacuum(
            retention_hours=retention_hours,
            dry_run=False,
            full=True,  # files of commits that did not happen too
            enforce_retention_duration=retention_hours >= _WEEK_HOURS,
        )
        delta.create_checkpoint()
    return {"files_before": before, "files_after": len(lake.files(table)), "files_deleted": len(deleted)}


def put_together(lake: Lake, table: str) -> None:
    """Make files of about `FILE_BYTES` of the small and the too large ones of each partition.

    Args:
        lake: Its format is that of today.
        table: One of its tables.

    Raises:
        CommitFailedError: Somebody else has replaced rows of these files meanwhile. What was committed stays.
    """
    found = _misfits(lake.delta(table))
    for folders in portions(found, lambda folder: int(found[folder]["size_bytes"].sum()), _COMMIT_BYTES):
        # Files are listed, read and removed at the same version: the commit fails if one of them is gone by then.
        with lake.writing(table) as delta:
            misfits = _misfits(delta)
            if groups := [misfits[folder] for folder in folders if folder in misfits]:
                _replace(lake, delta, TABLES[table], groups)


def surplus_files(lake: Lake) -> int:
    """About how many files fewer there would be after compaction."""
    groups = [files for table in lake.versions() for files in _misfits(lake.delta(table)).values()]
    return sum(max(files.height - ceil(files["size_bytes"].sum() / FILE_BYTES), 0) for files in groups)


def _misfits(delta: DeltaTable) -> dict[str, pl.DataFrame]:
    """The files to put together, by the folder of their partition: path (percent-encoded), size_bytes, partition."""
    files = pl.DataFrame(delta.get_add_actions()).with_columns(folder=pl.col("path").str.replace("[^/]*$", ""))
    misfits = files.filter(~pl.col("size_bytes").is_between(FILE_BYTES / 2, FILE_BYTES * 1.5))
    # One small file alone stays.
    return {
        str(folder): files
        for (folder,), files in misfits.partition_by("folder", as_dict=True).items()
        if files.height > 1 or files["size_bytes"].sum() > FILE_BYTES
    }


def _replace(lake: Lake, delta: DeltaTable, table: LakeTable, groups: Sequence[pl.DataFrame]) -> None:
    """Let other files with the same rows stand in the place of files of some partitions, in one commit."""
    folder = lake.path(table.name)
    gone: list[RemoveAction] = []
    with new_parts(folder) as parts:
        with _sorter(table, folder.parent / "_spill") as connection:
            for files in groups:
                values = dict(files["partition"][0]) if table.partition_by else {}
                part: NewFile | None = None
                for rows in _row_groups(connection, table, [str(folder / unquote(path)) for path in files["path"]]):
                    if part is None or (folder / part.name).stat().st_size >= FILE_BYTES:
                        part = new_part(folder, table, values)
                        parts.append(part)
                    part.add(rows)
                for part in parts:
                    part.writer.close()
                gone += [
                    removed(unquote(path), size, values, data_change=False)
                    for path, size in files.select("path", "size_bytes").iter_rows()
                ]
        commit_files(lake, delta, table.name, parts, gone, data_change=False)


def _sorter(table: LakeTable, spill: Path) -> duckdb.DuckDBPyConnection:
    """A connection that has an empty frame of the table's columns."""
    connection = connected(config={"memory_limit": _MEMORY, "temp_directory": str(spill)})
    connection.execute("set TimeZone = 'UTC'")
    connection.register("no_rows", table.schema.to_frame())
    return connection


def _row_groups(connection: duckdb.DuckDBPyConnection, table: LakeTable, files: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of some files in order, with all columns of the table; those of the partition are null."""
    connection.register("stored", connection.read_parquet(list(files), union_by_name=True, hive_partitioning=False))
    order = [name for name in _ORDER if name in table.schema]
    rows = connection.sql(
        "from no_rows union all by name from stored" + (f" order by {', '.join(order)}" if order else "")
    )
    waiting: list[pa.RecordBatch] = []
    for batch in rows.to_arrow_reader(_BATCH_ROWS):
        waiting.append(batch)
        n_rows, n_bytes = sum(batch.num_rows for batch in waiting), sum(batch.nbytes for batch in waiting)
        if n_rows >= _GROUP_ROWS or n_bytes >= _GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)
