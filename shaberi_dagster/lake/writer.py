"""Rows of a table that are written while they are made, and all appear at once."""

import json
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from time import time_ns
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import parquet as pq

from shaberi_dagster.lake.schemas import TABLES, LakeTable
from shaberi_dagster.lake.store import (
    Lake,
    arrow_schema,
    blocks_of,
    conform,
    predicate_of,
    retry_conflicts,
    says_disk_trouble,
    transaction_properties,
    write_rows,
)

_BUFFERED = 1 << 20  # characters of text that wait in memory for their row group
_MOST_ROWS = 20_000  # that wait, however short they are
_LONGEST_LIST = 300  # values that a predicate names; further ones would make it slower than what it saves
_NARROWING = ("run_id", "benchmark", "judge", "question_id")


@dataclass(frozen=True)
class NewFile:
    """A new file of one partition, which no version names yet.

    Attributes:
        values: Of the partition's columns.
        name: Its path in the table's folder.
        writer: Writes it.
        run_ids: The runs that it has rows of.
    """

    values: dict[str, str]
    name: str
    writer: "pq.ParquetWriter"
    run_ids: set[str]

    def add(self, rows: "pa.Table") -> None:
        """Write one row group; columns of the partition are not in the file."""
        own = rows.select(self.writer.schema.names)
        # A cast loads PyArrow's functions of computing, in 35 ms.
        self.writer.write_table(own if own.schema.equals(self.writer.schema) else own.cast(self.writer.schema))
        if "run_id" in own.column_names:
            self.run_ids.update(own["run_id"].to_pylist())

    def discard(self, folder: Path) -> None:
        """Delete the file from that folder."""
        with suppress(OSError):  # what it says has been said
            self.writer.close()
        (folder / self.name).unlink(missing_ok=True)


_Parts = dict[tuple[Any, ...], NewFile]


class RowWriter:
    """New rows of a table, in files that no one sees before `commit`.

    Whatever their number and size, only the last few of them are in memory. A process that is killed leaves files
    behind that no version names; compaction deletes them.

    Args:
        lake: Where the table is.
        table: Its name.
    """

    def __init__(self, lake: Lake, table: str) -> None:
        self._lake, self._table, self._parts = lake, TABLES[table], _Parts()
        self._waiting: list[Mapping[str, Any]] = []
        self._characters = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._discard()

    def add(self, row: Mapping[str, Any]) -> None:
        """Write one row; columns that are missing become null.

        Raises:
            ShaberiError: The disk is full or broken.
        """
        self._waiting.append(row)
        self._characters += sum(len(value) for value in row.values() if type(value) is str)
        if self._characters >= _BUFFERED or len(self._waiting) >= _MOST_ROWS:
            self._flush()

    def commit(
        self,
        replaced: pl.DataFrame | None = None,
        supersede: Callable[[pl.DataFrame], pl.DataFrame] | None = None,
        transaction: str | None = None,
    ) -> None:
        """Let the rows appear, in one atomic commit, and put those that they replace away.

        Args:
            replaced: The rows that are replaced, by key columns with `run_id` and `benchmark` among them; none or
                empty: the rows are added. Rows that are superseded already are never replaced.
            supersede: What becomes of the replaced rows; by default they go.
            transaction: An id that is committed with added rows; `Lake.committed` tells whether that happened.

        Raises:
            ShaberiError: The disk is full or broken.
        """
        self._flush()
        _close(self._lake, self._table.name, self._parts)
        if replaced is None or replaced.is_empty():
            parts = list(self._parts.values())
            self._parts.clear()  # the files are the table's, even if we are interrupted before we know
            if parts:
                append_files(self._lake, self._table.name, parts, transaction)
        else:
            replace_rows(self._lake, self._table.name, self._written, replaced, supersede or pl.DataFrame.clear)

    def _flush(self) -> None:
        if not self._waiting:
            return
        frame = conform(self._table, pl.DataFrame(self._waiting, schema=self._table.schema))
        self._waiting, self._characters = [], 0
        write_parts(self._lake, self._table.name, frame, self._parts)

    def _written(self) -> Iterator[pl.DataFrame]:
        """Read the new rows again, a row group at a time."""
        for part in self._parts.values():
            with pq.ParquetFile(self._lake.path(self._table.name) / part.name) as file:
                for group in range(file.num_row_groups):
                    frame = pl.DataFrame(file.read_row_group(group))
                    yield conform(self._table, frame.with_columns(pl.lit(v).alias(k) for k, v in part.values.items()))

    def _discard(self) -> None:
        for part in self._parts.values():
            part.discard(self._lake.path(self._table.name))
        self._parts.clear()


@says_disk_trouble
def _close(lake: Lake, table: str, parts: _Parts) -> None:  # noqa: ARG001 - they are named where it fails
    for part in parts.values():
        part.writer.close()


@says_disk_trouble
def write_parts(lake: Lake, table: str, frame: pl.DataFrame, parts: _Parts) -> None:
    """Add one row group to the file of each partition that the rows are of."""
    schema = TABLES[table]
    lake.delta(table)  # creates the table's folder
    by = list(schema.partition_by)
    groups = frame.partition_by(by, as_dict=True, maintain_order=True) if by else {(): frame}
    for values, rows in groups.items():
        if values not in parts:
            parts[values] = new_part(lake.path(table), schema, dict(zip(by, values, strict=True)))
        parts[values].add(rows.to_arrow(compat_level=pl.CompatLevel.oldest()))


def new_part(folder: Path, table: LakeTable, values: dict[str, str]) -> NewFile:
    """Begin a file for rows of a table with these values in the columns of its partitions."""
    place = "".join(f"{name}={quote(value, safe='')}/" for name, value in values.items())
    name = f"{place}part-{uuid.uuid4()}.zstd.parquet"
    (folder / place).mkdir(parents=True, exist_ok=True)
    own = pa.schema(field for field in arrow_schema(table) if field.name not in values)
    # With checksums, so that `shaberi doctor --repair` sees a byte that has flipped on the disk.
    writer = pq.ParquetWriter(
        folder / name,
        own,
        compression="zstd",
        compression_level=3,
        write_page_checksum=True,
    )
    return NewFile(values, name, writer, set())


def added(
    folder: Path, name: str, values: Mapping[str, str], run_ids: Collection[str], *, data_change: bool = True
) -> AddAction:
    """Name a file as a part of a table, with what lets a reader who looks for another run pass over it.

    Args:
        folder: The table's folder.
        name: The file's path in it.
        values: Of the partition's columns.
        run_ids: The runs that it has rows of.
        data_change: Whether the table's rows become other ones by it.
    """
    status = (folder / name).stat()
    statistics: dict[str, Any] = {"numRecords": pq.read_metadata(folder / name).num_rows}
    if run_ids:
        statistics |= {"minValues": {"run_id": min(run_ids)}, "maxValues": {"run_id": max(run_ids)}}
    return AddAction(
        path=name,
        size=status.st_size,
        partition_values=dict(values),
        modification_time=status.st_mtime_ns // 1_000_000,
        data_change=data_change,
        stats=json.dumps(statistics),
    )


def removed(name: str, size: int, values: Mapping[str, str], *, data_change: bool = True) -> RemoveAction:
    """Take a file out of a table; the arguments are those of `added`."""
    return RemoveAction(
        name,
        data_change=data_change,
        deletion_timestamp=time_ns() // 1_000_000,
        size=size,
        partition_values=dict(values),
    )


@contextmanager
def new_parts(folder: Path) -> Iterator[list[NewFile]]:
    """A list of new files of a table's folder: should the context fail before they are committed, they are deleted."""
    parts: list[NewFile] = []
    try:
        yield parts
    except BaseException:
        for part in parts:
            part.discard(folder)
        raise


def commit_files(
    lake: Lake,
    delta: DeltaTable,
    table: str,
    parts: Iterable[NewFile],
    gone: Iterable[RemoveAction] = (),
    *,
    data_change: bool = True,
    transaction: str | None = None,
) -> None:
    """Make closed files a part of a table, in the place of others, in one commit.

    Args:
        lake: Where the table is.
        delta: The table, from `Lake.writing`.
        table: Its name.
        parts: The new files.
        gone: The files that go.
        data_change: Whether the table's rows become other ones by it.
        transaction: An id that is committed with the files.
    """
    folder = lake.path(table)
    new = [added(folder, part.name, part.values, part.run_ids, data_change=data_change) for part in parts]
    lake.push(table, [action.path for action in new])
    delta.create_write_transaction(
        [*gone, *new],
        "append",
        arrow_schema(TABLES[table]),
        list(TABLES[table].partition_by),
        commit_properties=transaction_properties(transaction),
    )


@says_disk_trouble
@retry_conflicts
def append_files(lake: Lake, table: str, parts: Sequence[NewFile], transaction: str | None) -> None:
    """Make files with new rows part of the table."""
    with lake.writing(table) as delta:
        commit_files(lake, delta, table, parts, transaction=transaction)


@says_disk_trouble
@retry_conflicts
def replace_rows(
    lake: Lake,
    table: str,
    fresh: Callable[[], Iterator[pl.DataFrame]],
    replaced: pl.DataFrame,
    supersede: Callable[[pl.DataFrame], pl.DataFrame],
) -> None:
    """Overwrite what the fewest keys cover, with what of it stays as it is, what is superseded, and the fresh rows."""
    by = replaced.columns
    keys = [*(frame.select(by).unique() for frame in fresh()), replaced]
    covered: dict[str, list[str]] = {}
    for name in (column for column in _NARROWING if column in by):
        values = pl.concat([frame[name] for frame in keys]).unique().sort().to_list()
        if len(values) <= _LONGEST_LIST or name == "run_id":
            covered[name] = values

    stored = lake.scan(table, covered)  # delta-rs cannot be asked anything while it writes

    def rows() -> Iterator[pl.DataFrame]:
        for block in blocks_of(stored):
            hit = block if "superseded" not in block.columns else block.filter(~pl.col("superseded"))
            gone = hit.join(replaced, on=by, how="semi", nulls_equal=True)
            rest = [block] if gone.is_empty() else _without(block, replaced, by)
            yield from rest
            if gone.height:
                yield conform(TABLES[table], supersede(gone))

    # Without the meanings of columns: delta-rs refuses rows of a table in which they are worded otherwise.
    schema = pa.schema(field.remove_metadata() for field in arrow_schema(TABLES[table]))
    batches = chain.from_iterable(
        frame.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(schema).to_batches()
        for frame in chain(rows(), fresh())
    )
    with lake.writing(table) as delta:
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        write_rows(delta, reader, mode="overwrite", predicate=predicate_of(covered))


def _without(block: pl.DataFrame, replaced: pl.DataFrame, by: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Yield the rows of the block that stay as they are."""
    yield block.join(replaced, on=by, how="anti", nulls_equal=True)
    if "superseded" in block.columns:
        yield block.filter("superseded").join(replaced, on=by, how="semi", nulls_equal=True)
