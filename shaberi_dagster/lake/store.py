"""Reading and writing the Delta tables."""

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import unquote

import duckdb
import polars as pl
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from shaberi_dagster.lake.damage import DamagedLakeError, keep_sums, log_damage, unreadable_log
from shaberi_dagster.lake.formats import check_format, write_format
from shaberi_dagster.lake.journal.locks import exclusive_lock
from shaberi_dagster.lake.log import entry_path, has_commits
from shaberi_dagster.lake.mirror import Mirror, store_unavailable
from shaberi_dagster.lake.schemas import TABLES, LakeTable
from shaberi_dagster.lake.statements import quoted
from shaberi_dagster.settings import check_writable
from shaberi_dagster.util.errors import ConfigurationError, ShaberiError
from shaberi_dagster.util.permissions import make_folder

WRITER = WriterProperties(compression="ZSTD", compression_level=3)
FILE_BYTES = 16 << 20
"""About the size of a file: replacing a run writes the rest of its files again."""
write_rows = partial(write_deltalake, target_file_size=FILE_BYTES, writer_properties=WRITER)
# Writers of other runs commit to the same tables; delta-rs says so when both touched the same files.
retry_conflicts = retry(
    retry=retry_if_exception_type(CommitFailedError),
    wait=wait_random_exponential(multiplier=0.05, max=2),
    stop=stop_after_attempt(20),
    reraise=True,
)

# Opening a table, or a commit to it, goes through its log from the last checkpoint on: 0.6 ms a version, each time.
_CONFIGURATION = {"delta.checkpointInterval": "10"}
_BLOCK_ROWS = 16
_FEW_FILES = 32  # of more, delta-rs is asked which of them have the rows; that takes 4 ms
_DISK_TROUBLE = re.compile(r"([A-Z][\w/ -]+) \(os error \d+\)")  # in what delta-rs says

_STORE_TROUBLE = re.compile(r"Generic S3 error.*|Error performing \w+ http.*")
_MESSAGE_LENGTH = 300
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM}

P = ParamSpec("P")
R = TypeVar("R")
_Write = Callable[Concatenate["Lake", str, P], R]
Keys = Mapping[str, str | Iterable[str]]
"""Fills what a lake gets with one format more. It may be killed at any moment and then is taken again, so it only adds
what is not there yet. The lake that it gets may be written although it is an older one."""
_NOT_IN_PATHS = frozenset("[]^|%\\=")  # delta-rs takes the path for a URL; `a=b` reads as a partition


def says_disk_trouble(write: _Write[P, R]) -> _Write[P, R]:
    """Let a full or broken disk be an error that says what to do."""

    @wraps(write)
    def wrapped(lake: "Lake", table: str, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return write(lake, table, *args, **kwargs)
        except (DeltaError, OSError, duckdb.IOException) as error:
            if refusal := _STORE_TROUBLE.search(str(error)):
                raise store_unavailable(
                    f"table {lake.path(table)} cannot be written: {refusal[0][:_MESSAGE_LENGTH]}; "
                    "run the same command again, finished calls are kept"
                ) from error
            said = _DISK_TROUBLE.search(str(error))
            number = error.errno if isinstance(error, OSError) else None
            if said is None and number not in _DISK_ERRORS:
                raise
            trouble = said[1] if said else os.strerror(number or 0)
            raise ShaberiError(
                f"table {lake.path(table)} cannot be written: {trouble}; "
                "free space or repair the disk, and run the same command again: finished calls are kept"
            ) from error

    return wrapped


class _LocalTable(DeltaTable):
    """A Delta table whose files can be found: delta-rs percent-encodes the folder of a local table in `file_uris`."""

    def file_uris(self, *args: Any, **options: Any) -> list[str]:
        folder = self.table_uri.removeprefix("file://")
        return [unquote(folder) + uri.removeprefix(folder) for uri in super().file_uris(*args, **options)]


class Lake:
    """The Delta tables in one folder, which may be the mirror of a store: then commits go there.

    Args:
        folder: The warehouse; made when it is missing. A mirror is brought up to date.
        as_of: Read what was committed until then, as long as its files are kept; such a lake is not to be written.

    Raises:
        ConfigurationError: Its path has a character that Delta Lake cannot have there, or it has another format.
        ShaberiError: The store that it mirrors cannot be reached.

    A table whose log is damaged raises `DamagedLakeError` where it is opened.
    """

    def __init__(self, folder: Path, as_of: datetime | None = None) -> None:
        if wrong := sorted(_NOT_IN_PATHS & set(str(folder))):
            raise ConfigurationError(
                f"warehouse {folder} must not have {' '.join(wrong)} in its path: set SHABERI_WAREHOUSE"
            )
        self._mirror = Mirror.of(folder)
        if self._mirror:
            self._mirror.refresh()
        check_format(folder)
        self.folder, self._as_of = folder, as_of
        self._opened: dict[str, DeltaTable] = {}
        self._in_store: dict[str, DeltaTable] = {}
        self._complete: set[str] = set()  # tables of whose files none lacks a column, and so no later one will

    def path(self, table: str) -> Path:
        """The folder of a table."""
        return self.folder / TABLES[table].name

    def delta(self, table: str) -> DeltaTable:
        """The table as delta-rs sees it now; it is created when it is missing."""
        if table not in self._opened:
            self._opened[table] = self._open(table)
            if self._as_of:
                self._opened[table].load_as_version(self._as_of)
        elif not self._as_of and not self._is_newest(table):
            if self.has_version(table, self._opened[table].version()):
                # Reads what is new in the log; opening reads all of it, 20 ms after some hundred commits.
                self._opened[table].update_incremental()
            else:  # the log begins later by now, or another lake was put into the folder
                self._opened[table] = self._open(table)
        return self._opened[table]

    def _is_newest(self, table: str) -> bool:
        """Return whether nothing was committed since the table was opened, by two looks at the disk, without delta-rs.

        The log's old entries are deleted from its beginning on: while the own one is there, so is the next one.
        """
        version = self._opened[table].version()
        return self.has_version(table, version) and not self.has_version(table, version + 1)

    def _open(self, table: str) -> DeltaTable:
        path = self.path(table)
        self._complete.discard(table)
        if damage := log_damage(path):
            raise DamagedLakeError([damage])
        if self.exists(table):
            try:
                return _LocalTable(path)
            except DeltaError as error:
                raise DamagedLakeError([unreadable_log(path, error)]) from error
        self.make_ready()
        path.mkdir(parents=True, exist_ok=True)
        first = entry_path(path, 0)
        if first.exists() and not first.stat().st_size:
            first.unlink()  # or delta-rs would take the table for made
        # "ignore": another process may create it at the same moment.
        if self._mirror is None:
            created = create_table(path, TABLES[table], mode="ignore")
            self._complete.add(table)
            return created
        uri = f"{self._mirror.uri}/{TABLES[table].name}"
        create_table(uri, TABLES[table], mode="ignore", storage_options=self._mirror.options)
        self._mirror.pull(TABLES[table].name)
        return _LocalTable(path)

    def make_ready(self) -> None:
        """Give a new lake its format, and refuse one of another.

        Looked at before each write: a program that runs for days must not write what a newer one has made.
        """
        self.check_writable()
        make_folder(self.folder)
        if check_format(self.folder) is not None:
            return
        try:
            if self._mirror:
                self._mirror.check_conditions()
            write_format(self.folder)
        except OSError as error:
            raise ShaberiError(f"the lake in {self.folder} cannot be written: {error.strerror or error}") from error

    def refresh(self) -> None:
        """See what other hosts have committed until now; a lake in a folder always does.

        Raises:
            ShaberiError: The store cannot be reached.
        """
        if self._mirror:
            self._mirror.pull()

    def check_writable(self) -> None:
        """Refuse a lake that can only be read.

        Raises:
            ConfigurationError: So it is.
        """
        check_writable(self.folder, "this command writes into the lake; SHABERI_WAREHOUSE names another one")

    @contextmanager
    def exclusive_lock(self, name: str) -> Iterator[None]:
        """A context in which no other process is at the same time, and in which is seen what others did in it."""
        with exclusive_lock(self.folder, name):
            self.refresh()
            yield

    @says_disk_trouble
    def widen(self, table: str) -> None:
        """Let a table have all columns of today; a table that is missing is made."""
        with self.writing(table):
            pass

    @contextmanager
    def writing(self, table: str) -> Iterator[DeltaTable]:
        """The table to commit to, with all columns of today; what was written without one of them is null there."""
        self.make_ready()
        delta = self._committed_to(table)
        version = delta.version()
        there = {column.name for column in delta.schema().fields}
        if new := [column for column in _delta_schema(TABLES[table]).fields if column.name not in there]:
            delta.alter.add_columns(new)
        if not _CONFIGURATION.items() <= delta.metadata().configuration.items():  # an older program made the table
            delta.alter.set_table_properties(_CONFIGURATION)
        yield delta
        if self._mirror:
            self._mirror.pull(TABLES[table].name)
        keep_sums(self.path(table), version)

    def _committed_to(self, table: str) -> DeltaTable:
        """The table where commits go: here, or in the store."""
        own = self.delta(table)
        if self._mirror is None:
            return own
        if table not in self._in_store:
            uri = f"{self._mirror.uri}/{TABLES[table].name}"
            self._in_store[table] = DeltaTable(uri, storage_options=self._mirror.options)
        else:
            self._in_store[table].update_incremental()
        return self._in_store[table]

    def prune(self) -> None:
        """Delete files of a mirror that no table names any more; a lake in a folder has none."""
        if self._mirror:
            self._mirror.prune([file for name in self.versions() for file in self.files(name)])

    def push(self, table: str, names: Iterable[str]) -> None:
        """Let the store have new files of a table, before a commit names them; nothing where the folder is the lake."""
        if self._mirror:
            self._mirror.push(f"{TABLES[table].name}/{name}" for name in names)

    def lacks_columns(self, table: str) -> bool:
        """Return whether some file of the table is older than one of its columns; files only ever get more columns."""
        delta = self.delta(table)
        files = pl.DataFrame() if table in self._complete else pl.DataFrame(delta.get_add_actions())
        if files.is_empty():
            return False
        try:
            oldest = pl.read_parquet_schema(self.path(table) / unquote(files.sort("modification_time")["path"][0]))
        except (OSError, pl.exceptions.PolarsError):
            return False  # reading its rows says what is wrong with it
        if set(TABLES[table].schema) - set(TABLES[table].partition_by) <= set(oldest):
            self._complete.add(table)
        return table not in self._complete

    def files(self, table: str) -> list[str]:
        """The paths of a table's active files, below the lake's folder."""
        delta = self.delta(table)
        own = unquote(delta.table_uri.removeprefix("file://"))
        return [f"{TABLES[table].name}/{uri.removeprefix(own).removeprefix('/')}" for uri in delta.file_uris()]

    def versions(self) -> dict[str, int]:
        """The committed version of each table that exists."""
        return {name: self.delta(name).version() for name in TABLES if self.exists(name)}

    def has_version(self, table: str, number: int) -> bool:
        """Return whether a version of the table is committed, by one look at the disk."""
        return entry_path(self.path(table), number).exists()

    def read(self, table: str, keys: Keys | None = None, columns: list[str] | None = None) -> pl.DataFrame:
        """Rows of a table.

        Args:
            table: Its name.
            keys: Column to value or values; rows must match all.
            columns: Only these columns.

        Returns:
            A frame with the table's schema; empty when the table does not exist yet.
        """
        return self.scan(table, keys, columns).collect()

    def scan(self, table: str, keys: Keys | None = None, columns: Sequence[str] | None = None) -> pl.LazyFrame:
        """Return the rows of a table as a frame that is not read yet; the arguments are those of `read`."""
        schema, partitions = TABLES[table].schema, TABLES[table].partition_by
        files = self.delta(table).file_uris() if self.exists(table) else []
        if not files:
            frame = TABLES[table].empty
        elif len(files) <= _FEW_FILES:
            frame = pl.scan_parquet(
                files,
                glob=False,
                schema=schema,
                hive_partitioning=bool(partitions),
                hive_schema={column: schema[column] for column in partitions} or None,
                missing_columns="insert",
            )
        else:
            stored = pl.scan_delta(self.delta(table))
            frame = stored.match_to_schema(schema, missing_columns="insert", extra_columns="ignore")
        matches = [
            pl.col(column) == value if isinstance(value, str) else pl.col(column).is_in(list(value))
            for column, value in (keys or {}).items()
        ]
        return frame.filter(*matches).select(columns or list(schema))

    def blocks(
        self, table: str, keys: Keys | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[pl.DataFrame]:
        """Read some hundred rows at a time: for texts, which need not all be in memory."""
        return blocks_of(self.scan(table, keys, columns))

    def exists(self, table: str) -> bool:
        """Return whether the table was ever made.

        One that was only begun has no commit, as after a kill, or an empty one, as after a host that failed. With rows
        and without a log it is damaged, not empty.
        """
        path = self.path(table)
        return has_commits(path) or next(path.rglob("*.parquet"), None) is not None

    @says_disk_trouble
    @retry_conflicts
    def replace(self, table: str, frame: pl.DataFrame, keys: Keys) -> None:
        """Put `frame` in the place of all rows that match `keys`, in one atomic commit.

        Args:
            table: Its name.
            frame: Rows; columns that are missing become null.
            keys: Column to value or values that name the replaced rows; every row of `frame` must match.
        """
        with self.writing(table) as delta:
            rows = conform(TABLES[table], frame).to_arrow()
            write_rows(delta, rows, mode="overwrite", predicate=predicate_of(keys))

    def update(self, table: str, frame: pl.DataFrame, keys: Keys) -> bool:
        """`replace`, unless only `created_at` differs from the rows that are there: a new version costs every reader.

        Returns:
            Whether the rows were replaced.
        """
        if _content(self.read(table, keys)).equals(_content(conform(TABLES[table], frame))):
            return False
        self.replace(table, frame, keys)
        return True

    @says_disk_trouble
    @retry_conflicts
    def append(self, table: str, frame: pl.DataFrame, transaction: str | None = None) -> None:
        """Add rows.

        Args:
            table: Its name.
            frame: Rows; columns that are missing become null.
            transaction: An id that is committed with the rows; `committed` tells whether that happened.
        """
        with self.writing(table) as delta:
            rows = conform(TABLES[table], frame).to_arrow()
            write_rows(delta, rows, mode="append", commit_properties=transaction_properties(transaction))

    def committed(self, table: str, transaction: str) -> bool:
        """Return whether an `append` with this transaction id took place."""
        return self.exists(table) and self.delta(table).transaction_version(transaction) is not None


def transaction_properties(transaction: str | None) -> CommitProperties | None:
    """Let a commit carry the id of a transaction, for `Lake.committed`; None needs nothing."""
    return CommitProperties(app_transactions=[Transaction(transaction, 1)]) if transaction else None


def blocks_of(frame: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """Collect a frame some hundred rows at a time."""
    yield from frame.collect_batches(chunk_size=_BLOCK_ROWS, maintain_order=True)


def conform(table: LakeTable, frame: pl.DataFrame) -> pl.DataFrame:
    """Give a frame exactly the table's columns and types.

    Raises:
        ValueError: It has a column that the table has not, or null in a required one.
    """
    unknown = set(frame.columns) - set(table.schema)
    if unknown:
        raise ValueError(f"table {table.name} has no columns {sorted(unknown)}")
    conformed = frame.select(
        (pl.col(column.name) if column.name in frame.columns else pl.lit(None).alias(column.name)).cast(column.type)
        for column in table.columns
    )
    empty = [column.name for column in table.columns if column.required and conformed[column.name].has_nulls()]
    if empty:
        raise ValueError(f"table {table.name} needs values in {empty}")
    return conformed


def _content(frame: pl.DataFrame) -> pl.Series:
    """Hash the rows, in whatever order, without when they were made."""
    return frame.drop("created_at", strict=False).hash_rows().sort()


@cache
def arrow_schema(table: LakeTable) -> "pa.Schema":
    """The table's columns as Arrow and Delta know them."""
    arrow = table.empty.collect().to_arrow(compat_level=pl.CompatLevel.oldest()).schema
    return pa.schema(
        arrow.field(column.name).with_metadata({"comment": column.description}) for column in table.columns
    )


def create_table(place: Path | str, table: LakeTable, **options: Any) -> DeltaTable:
    """Create a Delta table without rows; the options are those of delta-rs."""
    return _LocalTable.create(
        place,
        arrow_schema(table),
        partition_by=list(table.partition_by) or None,
        name=table.name,
        description=table.meaning,
        configuration=_CONFIGURATION,
        **options,
    )


@cache
def _delta_schema(table: LakeTable) -> Schema:
    return Schema.from_arrow(arrow_schema(table))


def predicate_of(keys: Keys) -> str:
    """Write SQL that is true of the rows that match all keys."""
    named = {column: [values] if isinstance(values, str) else values for column, values in keys.items()}
    return " and ".join(f"{column} in ({', '.join(map(quoted, values))})" for column, values in named.items())
