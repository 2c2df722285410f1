"""Files as readers and writers want them: few, of about 16 MB, each with its rows in the order of models.

Whoever replaces a run writes the rest of its files anew, so they are not larger. Whoever reads a model finds its rows
together.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

import duckdb
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import RemoveAction

from shaberi_dagster.lake.schemas import TABLES, Table
from shaberi_dagster.lake.store import FILE_BYTES, Lake, arrow_schema
from shaberi_dagster.lake.writer import Part, new_part

_MEMORY = "1GB"  # for bringing rows into order; what is more goes to the disk
_GROUP_BYTES, _GROUP_ROWS = 8 << 20, 16_384  # of a row group in memory: readers unpack much of it for one row
_BATCH_ROWS = 1_024
# The name of a run begins with that of its model.
_ORDER = ("run_id", "model", "question_id", "sample_index")


def put_together(lake: Lake, table: str) -> None:
    """Make files of about `FILE_BYTES` of the small and the too large ones of each partition, a commit for each.

    Args:
        lake: Its format is that of today.
        table: One of its tables.

    Raises:
        CommitFailedError: Somebody else has replaced rows of these files meanwhile. What was committed stays.
    """
    for partition in _files(lake.to_write(table))["partition_folder"].unique():
        # Files are listed, read and removed at the same version: the commit fails if one of them is gone by then.
        delta = lake.delta(table)
        files = _files(delta).filter(partition_folder=partition)
        misfits = files.filter(~pl.col("size_bytes").is_between(FILE_BYTES / 2, FILE_BYTES * 1.5))
        # One small file alone stays.
        if misfits.height > 1 or misfits["size_bytes"].sum() > FILE_BYTES:
            _replace(delta, lake.path(table), TABLES[table], misfits)


def _files(delta: DeltaTable) -> pl.DataFrame:
    """The active files: path (percent-encoded), partition_folder, size_bytes, partition (its columns' values)."""
    return pl.DataFrame(delta.get_add_actions()).with_columns(partition_folder=pl.col("path").str.replace("[^/]*$", ""))


def _replace(delta: DeltaTable, folder: Path, table: Table, files: pl.DataFrame) -> None:
    """Let files with the rows of some files of a partition stand in their place."""
    values = dict(files["partition"][0]) if table.partition_by else {}
    parts: list[Part] = []
    try:
        for rows in _row_groups([folder / unquote(path) for path in files["path"]], table, folder.parent / "_spill"):
            if not parts or (folder / parts[-1].name).stat().st_size >= FILE_BYTES:
                parts.append(new_part(folder, table, values))
            parts[-1].add(rows)
        for part in parts:
            part.writer.close()
        now = time.time_ns() // 1_000_000
        removed = [
            RemoveAction(unquote(path), data_change=False, deletion_timestamp=now, size=size, partition_values=values)
            for path, size in files.select("path", "size_bytes").iter_rows()
        ]
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


def _row_groups(files: Sequence[Path], table: Table, spill: Path) -> Iterator[pa.Table]:
    """The rows of some files in order, with all columns of the table but those of the partition."""
    order = [name for name in _ORDER if name in table.schema]
    with duckdb.connect(config={"memory_limit": _MEMORY, "temp_directory": str(spill)}) as connection:
        connection.execute("set TimeZone = 'UTC'")
        connection.register("no_rows", table.schema.to_frame())
        stored = connection.read_parquet([str(file) for file in files], union_by_name=True, hive_partitioning=False)
        connection.register("stored", stored)
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
