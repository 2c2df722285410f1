"""Locks: one process at a time, of this machine or, where they share a database, of all hosts."""

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from shaberi_dagster.lake.journal import postgres as database
from shaberi_dagster.settings import database_url
from shaberi_dagster.util.errors import PartitionBusyError
from shaberi_dagster.util.permissions import make_folder

LOCKS_FOLDER = "_locks"
_POLL_SECONDS = 1.0


@contextmanager
def exclusive_lock(folder: Path, name: str, busy: str | None = None, shared: str | None = None) -> Iterator[None]:
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
        with exclusive_lock_among_hosts(shared or database.lake_name(folder), name, busy=busy):
            yield


@contextmanager
def exclusive_lock_among_hosts(*names: str, busy: str | None = None) -> Iterator[None]:
    """Within this context no one else who shares the database is in the context of this name.

    Does nothing where there is no database. The arguments and errors are those of `exclusive_lock`.
    """
    url = database_url()
    if url is None:
        yield
        return
    with closing(database.connect(url)) as connection, database.locked(connection, "alone", *names, busy=busy):
        yield


@contextmanager
def slot(
    folder: Path, name: str, limit: int, waiting: Callable[[], object], shared: str | None = None
) -> Iterator[None]:
    """Within this context at most `limit` processes are in the context of this name; waits for a free slot.

    Args:
        folder: As for `exclusive_lock`.
        name: What is limited.
        limit: How many may be in it.
        waiting: Called once when all slots are taken.
        shared: As for `exclusive_lock`.
    """
    with ExitStack() as stack:
        if not _take_slot(stack, folder, name, limit, shared):
            waiting()
            while not _take_slot(stack, folder, name, limit, shared):
                time.sleep(_POLL_SECONDS)
        yield


def _take_slot(stack: ExitStack, folder: Path, name: str, limit: int, shared: str | None) -> bool:
    for number in range(limit):
        try:
            stack.enter_context(exclusive_lock(folder, f"{name}-{number}", busy="taken", shared=shared))
        except PartitionBusyError:
            continue
        return True
    return False
