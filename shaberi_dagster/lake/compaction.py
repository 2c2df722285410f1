"""Files as readers and writers want them: few, of about 16 MB, each with its rows in the order of models.

Whoever replaces a run writes the rest of its files anew, so they are not larger. Whoever reads a model finds its rows
together.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from urllib.parse import unquote

import duckdb
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import RemoveAction

from shaberi_dagster.lake.connections import connected
from shaberi_dagster.lake.schemas import TABLES, Table
from shaberi_dagster.lake.store import FILE_BYTES, Lake, arrow_schema
from shaberi_dagster.lake.writer import NewFile, new_part

_MEMORY = "1GB"  # for bringing rows into order; what is more goes to the disk
_GROUP_BYTES, _GROUP_ROWS = 8 << 20, 16_384  # of a row group in memory: readers unpack much of it for one row
_BATCH_ROWS = 1_024
_COMMIT_BYTES = 64 << 20  # of small files: others may replace a run meanwhile, and then it is done again
# The name of a run begins with that of its model.
_ORDER = ("run_id", "model", "question_id", "sample_index")


def put_together(lake: Lake, table: str) -> None:
    """Make files of about `FILE_BYTES` of the small and the too large ones of each partition.

    Args:
        lake: Its format is that of today.
        table: One of its tables.

    Raises:
        CommitFailedError: Somebody else has replaced rows of these files meanwhile. What was committed stays.
    """
    for folders in _portions(_misfits(lake.delta(table))):
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
        str(folder): own
        for (folder,), own in misfits.partition_by("folder", as_dict=True).items()
        if own.height > 1 or own["size_bytes"].sum() > FILE_BYTES
    }


def _portions(misfits: Mapping[str, pl.DataFrame]) -> Iterator[list[str]]:
    """Their folders, as many at a time as one commit is for."""
    portion, size = list[str](), 0
    for folder, files in misfits.items():
        portion.append(folder)
        size += int(files["size_bytes"].sum())
        if size >= _COMMIT_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def _replace(lake: Lake, delta: DeltaTable, table: Table, groups: Sequence[pl.DataFrame]) -> None:
    """Let other files with the same rows stand in the place of files of some partitions, in one commit."""
    folder = lake.path(table.name)
    parts: list[NewFile] = []
    removed: list[RemoveAction] = []
    now = time.time_ns() // 1_000_000
    try:
        with _sorter(table, folder.parent / "_spill") as connection:
            for files in groups:
                values = dict(files["partition"][0]) if table.partition_by else {}
                own: list[NewFile] = []
                for rows in _row_groups(connection, table, [str(folder / unquote(path)) for path in files["path"]]):
                    if not own or (folder / own[-1].name).stat().st_size >= FILE_BYTES:
                        own.append(new_part(folder, table, values))
                        parts.append(own[-1])
                    own[-1].add(rows)
                for part in own:
                    part.writer.close()
                removed += [
                    RemoveAction(
                        unquote(path), data_change=False, deletion_timestamp=now, size=size, partition_values=values
                    )
                    for path, size in files.select("path", "size_bytes").iter_rows()
                ]
        lake.push(table.name, [part.name for part in parts])
        delta.create_write_transaction(
            [*removed, *(part.added(folder, data_change=False) for part in parts)],
            "append",
            arrow_schema(table),
            list(table.partition_by),
        )
    except BaseException:
        for part in parts:
            part.discard(folder)
        raise


def _sorter(table: Table, spill: Path) -> duckdb.DuckDBPyConnection:
    """A connection that has an empty frame of the table's columns."""
    connection = connected(config={"memory_limit": _MEMORY, "temp_directory": str(spill)})
    connection.execute("set TimeZone = 'UTC'")
    connection.register("no_rows", table.schema.to_frame())
    return connection


def _row_groups(connection: duckdb.DuckDBPyConnection, table: Table, files: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of some files in order, with all columns of the table; those of the partition are null."""
    connection.register("stored", connection.read_parquet(list(files), union_by_name=True, hive_partitioning=False))
    order = [name for name in _ORDER if name in table.schema]
    rows = connection.sql(
        "from no_rows union all by name from stored" + (f" order by {', '.join(order)}" if order else "")
    )
    waiting: list[pa.RecordBatch] = []
    for batch in rows.to_arrow_reader(_BATCH_ROWS):
        waiting.append(batch)
        n_rows, n_bytes = sum(each.num_rows for each in waiting), sum(each.nbytes for each in waiting)
        if n_rows >= _GROUP_ROWS or n_bytes >= _GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)
