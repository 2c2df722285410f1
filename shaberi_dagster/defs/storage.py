"""Dagster's SQLite files as commands use them.

Dagster opens a file anew for each event, and who closes a file last writes all of it to the disk: some hundred times in
a small run.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy
from dagster._core.instance.ref import InstanceRef
from dagster._core.storage import event_log, runs
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from sqlalchemy.pool import QueuePool

from shaberi_dagster.permissions import let_group_write


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
        super().__init__(base_dir, inst_data)
        self._run_storage = SqliteRunStorage(self._run_storage._conn_string)  # noqa: SLF001
        self._event_log_storage = SqliteEventLogStorage(self._event_log_storage._base_dir)  # noqa: SLF001

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> "OpenSqliteStorage":
        """As Dagster makes it."""
        return cls.from_local(inst_data=inst_data, **config_value)


class SqliteRunStorage(runs.SqliteRunStorage):
    """The file of all runs."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._engine = _opened(url)

    @contextmanager
    def connect(self) -> Iterator[sqlalchemy.Connection]:
        """One transaction."""
        with self._engine.begin() as connection:
            yield connection

    def dispose(self) -> None:
        """Close the file."""
        self._engine.dispose()


class SqliteEventLogStorage(event_log.SqliteEventLogStorage):
    """The files of events, one for each run and one for all."""

    def __init__(self, folder: str) -> None:
        self._engines: dict[str, sqlalchemy.Engine] = {}
        super().__init__(folder)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[sqlalchemy.Connection]:
        with self._db_lock:
            engine = self._engines.get(shard)
            if engine is None:
                engine = _opened(self.conn_string_for_shard(shard))
                self._initdb(engine)
                self._engines[shard] = engine
            with engine.begin() as connection:
                yield connection

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
