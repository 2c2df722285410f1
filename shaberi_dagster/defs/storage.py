"""Dagster's SQLite files as commands use them.

Dagster opens a file anew for each event, and who closes a file last writes all of it to the disk: some hundred times in
a small run.

Dagster also makes a file in its place, table by table. Here it is a copy of a blank one that appears whole, so that a
process that is killed meanwhile leaves nothing half made.
"""

import os
import shutil
import sqlite3
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import dagster as dg
import sqlalchemy
from dagster._core.instance.ref import InstanceRef
from dagster._core.storage import event_log, runs
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME
from dagster._core.storage.schedules import SqliteScheduleStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS, create_db_conn_string
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from sqlalchemy.pool import QueuePool

from shaberi_dagster.util.permissions import let_group_write

_EVENTS = "history/runs/index.db"
_DATABASES = ("history/runs.db", _EVENTS, "schedules/schedules.db")
_SCRATCH = ".new-databases-"
_STAMP = "alembic_version"
_BOOKKEEPING = {_STAMP, "secondary_indexes"}
"""Tables that have rows as soon as a database is made."""


def kept_open(instance: InstanceRef) -> InstanceRef:
    """The same instance with its SQLite files kept open, if it is in such files."""
    storage = instance.storage_data
    if storage is None or storage.class_name != DagsterSqliteStorage.__name__:
        return instance
    return instance._replace(storage_data=storage._replace(module_name=__name__, class_name=OpenSqliteStorage.__name__))


class OpenSqliteStorage(DagsterSqliteStorage):
    """The same files, each of which stays open until the storage is disposed of.

    What is committed outlives a killed process; a machine that fails may lose the last seconds of the log, as of no
    table of the lake.
    """

    def __init__(self, base_dir: str, inst_data: Any = None) -> None:
        repairs = complete_databases(Path(base_dir))
        self.base_dir, self._inst_data = base_dir, inst_data
        history = Path(base_dir, "history")
        self._run_storage = SqliteRunStorage(create_db_conn_string(str(history), "runs"), repairs)
        self._event_log_storage = SqliteEventLogStorage(str(history / "runs"))
        schedules = Path(base_dir, "schedules")
        self._schedule_storage = SqliteScheduleStorage(create_db_conn_string(str(schedules), "schedules"))
        super(DagsterSqliteStorage, self).__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> "OpenSqliteStorage":
        """Open the storage as Dagster makes it."""
        return cls.from_local(inst_data=inst_data, **config_value)


class SqliteRunStorage(runs.SqliteRunStorage):
    """The file of all runs.

    Attributes:
        repairs: What was half made when the storage was opened, a sentence for each file.
    """

    def __init__(self, url: str, repairs: list[str]) -> None:
        super().__init__(url)
        self.repairs = repairs
        self._engine = _opened(url)

    @contextmanager
    def connect(self) -> Iterator[sqlalchemy.Connection]:
        """Open a transaction."""
        with self._engine.begin() as connection:
            yield connection

    def dispose(self) -> None:
        """Close the file."""
        self._engine.dispose()


class SqliteEventLogStorage(event_log.SqliteEventLogStorage):
    """The files of events, one for each run and one for all."""

    def __init__(self, folder: str) -> None:
        self._engines: dict[str, sqlalchemy.Engine] = {}
        self._known_partitions: set[tuple[str, str]] = set()
        self._known_tables: set[str] = set()
        self._last_found: tuple[str, dg.EventRecordsResult] | None = None
        super().__init__(folder)

    def has_table(self, table_name: str) -> bool:
        """Return whether there is a table; Dagster looks for it at each event, here one that is there is known."""
        if table_name not in self._known_tables and super().has_table(table_name):
            self._known_tables.add(table_name)
        return table_name in self._known_tables

    def has_dynamic_partition(self, partitions_def_name: str, partition_key: str) -> bool:
        """Return whether a partition was added; one that was is not asked for again, as Dagster does for each event."""
        asked = (partitions_def_name, partition_key)
        if asked not in self._known_partitions and super().has_dynamic_partition(*asked):
            self._known_partitions.add(asked)
        return asked in self._known_partitions

    def fetch_materializations(
        self,
        records_filter: dg.AssetKey | dg.AssetRecordsFilter,
        limit: int,
        cursor: str | None = None,
        ascending: bool = False,
    ) -> dg.EventRecordsResult:
        """Find materializations; checks of an asset ask for the same, so the last is known until another is stored."""
        asked, last = repr((records_filter, limit, cursor, ascending)), self._last_found
        if last is None or last[0] != asked:
            self._last_found = last = asked, super().fetch_materializations(records_filter, limit, cursor, ascending)
        return last[1]

    @contextmanager
    def index_transaction(self) -> Iterator[sqlalchemy.Connection]:
        """Open a transaction that stores or deletes materializations."""
        try:
            with super().index_transaction() as connection:
                yield connection
        finally:
            self._last_found = None

    @contextmanager
    def _connect(self, shard: str) -> Iterator[sqlalchemy.Connection]:
        with self._db_lock:
            engine = self._engines.get(shard)
            if engine is None:
                whole = shard == INDEX_SHARD_NAME or self._make_whole(Path(self.path_for_shard(shard)))
                engine = _opened(self.conn_string_for_shard(shard))
                try:
                    if not whole:
                        self._initdb(engine)
                except BaseException as error:
                    # Connections of an interrupted statement hold the file's lock, and stand in the traceback.
                    traceback.clear_frames(error.__traceback__)
                    engine.dispose()
                    raise
                self._engines[shard] = engine
            with engine.begin() as connection:
                yield connection

    def _make_whole(self, path: Path) -> bool:
        """Make the file of a run, unless another process has begun it; return whether it is made."""
        storage = Path(self._base_dir).parent.parent
        # A link fails where there is a file already, and on disks that know no links.
        with suppress(OSError), _made_aside(storage, _EVENTS) as made:
            os.link(made, path)
            return True
        return False

    def dispose(self) -> None:
        """Close the files."""
        super().dispose()
        for engine in self._engines.values():
            engine.dispose()


@sqlalchemy.event.listens_for(sqlalchemy.Engine, "connect")
def _share(opened: Any, _: object) -> None:
    """Let the shared group write into an SQLite file, which SQLite itself never does."""
    if isinstance(opened, sqlite3.Connection):
        for (path,) in opened.execute("select file from pragma_database_list where file <> ''"):
            let_group_write(Path(path))


def _opened(url: str) -> sqlalchemy.Engine:
    options = {"timeout": SQLITE_BUSY_TIMEOUT_SECONDS, "check_same_thread": False}
    engine = sqlalchemy.create_engine(url, poolclass=QueuePool, connect_args=options)
    sqlalchemy.event.listen(engine, "connect", lambda opened, _: opened.execute("pragma synchronous = normal"))
    return engine


def complete_databases(folder: Path) -> list[str]:
    """Make the databases that are missing or half made; a half-made one that holds rows is kept under another name.

    Only one process may do so at a time.

    Args:
        folder: That of the storage.

    Returns:
        A sentence for each that was half made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(f"{_SCRATCH}*"):
        shutil.rmtree(left)
    wanted = [name for name in _DATABASES if not _is_whole(folder / name)]
    if not wanted:
        return []
    repairs = []
    for name in wanted:
        path = folder / name
        if path.exists():
            repairs.append(_set_aside(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        # What is left of another one's transactions must not be taken for its own.
        for suffix in ("-wal", "-shm", "-journal"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        with _made_aside(folder, name) as made:
            made.replace(path)
    return repairs


@contextmanager
def _made_aside(folder: Path, name: str) -> Iterator[Path]:
    """A blank database in a folder of its own, to be moved into its place from there."""
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=folder) as scratch:
        made = Path(scratch, "whole")
        made.write_bytes(_blank_databases()[name])
        yield made


@cache
def _blank_databases() -> dict[str, bytes]:
    """Dagster's databases by name, as they are before the first run."""
    with tempfile.TemporaryDirectory() as scratch:
        DagsterSqliteStorage(scratch).dispose()
        return {name: _content(Path(scratch, name)) for name in _DATABASES}


def _is_whole(path: Path) -> bool:
    """Return whether Dagster finished making a database: it has its version, and marks or rows."""
    filled = _filled_tables(path) if path.exists() else None
    return filled is not None and _STAMP in filled and filled != {_STAMP}


def _filled_tables(path: Path) -> set[str] | None:
    """The tables of a database that hold rows; None when the file is none or damaged.

    Raises:
        sqlite3.OperationalError: It cannot be read now.
    """
    try:
        with closing(sqlite3.connect(path, timeout=SQLITE_BUSY_TIMEOUT_SECONDS)) as database:
            tables = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
            return {name for name in tables if database.execute(f'select 1 from "{name}" limit 1').fetchone()}
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        return None


def _set_aside(path: Path) -> str:
    """Copy a database that may hold rows, and say what becomes of it."""
    filled = _filled_tables(path)
    if filled is not None and filled <= _BOOKKEEPING:
        return f"{path} was half made by a process that was killed; it held nothing and is made again"
    places = (path.with_name(f"{path.name}.set-aside-{number}") for number in count(1))
    aside = next(place for place in places if not place.exists())
    for suffix in ("", "-wal", "-journal"):
        if (file := Path(f"{path}{suffix}")).exists():
            shutil.copy2(file, f"{aside}{suffix}")
    return f"{path} was half made or damaged; what it holds is kept as {aside}, and it is made again"


def _content(made: Path) -> bytes:
    """All that is committed to a database, in one file, whoever still has it open."""
    whole = made.with_name("whole")
    with closing(sqlite3.connect(made)) as source, closing(sqlite3.connect(whole)) as target:
        source.backup(target)
    return whole.read_bytes()
