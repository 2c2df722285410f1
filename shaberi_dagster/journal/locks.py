"""Locks: one process at a time, of this machine or, where they share a database, of all hosts."""

import fcntl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from shaberi_dagster.errors import PartitionBusyError
from shaberi_dagster.journal import postgres as database
from shaberi_dagster.settings import database_url
from shaberi_dagster.util.permissions import make_folder

LOCKS_FOLDER = "_locks"


@contextmanager
def alone(folder: Path, name: str, busy: str | None = None, shared: str | None = None) -> Iterator[None]:
    """Within this context no other process is in the context of this name.

    Args:
        folder: Of the lake, or of Dagster's instance: where the lock of this machine is.
        name: What is done alone.
        busy: What is said when another process is; None waits for it.
        shared: What the folder stands for in the database; None: its lake.

    Raises:
        PartitionBusyError: Another process is.
        ShaberiError: The database cannot be reached, or was lost, so that another host may have been at it too.
    """
    make_folder(folder)
    path = folder / LOCKS_FOLDER / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy is not None else 0))
        except BlockingIOError:
            raise PartitionBusyError(str(busy)) from None
        with alone_among_hosts(shared or database.lake_name(folder), name, busy=busy):
            yield


@contextmanager
def alone_among_hosts(*names: str, busy: str | None = None) -> Iterator[None]:
    """Within this context nobody else who shares the database is in the context of this name.

    Does nothing where there is no database. The arguments and errors are those of `alone`.
    """
    url = database_url()
    if url is None:
        yield
        return
    with closing(database.connect(url)) as connection, database.locked(connection, "alone", *names, busy=busy):
        yield
