"""Leases of Dagster runs at work on any host: locks in the database that end with their process.

Host names and process numbers tell nothing of containers, which share the former and count the latter from 1.
"""

import logging
import os
import select
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NoReturn

from tenacity import before_sleep_log, retry, retry_if_exception_type, wait_exponential

from shaberi_dagster.lake.journal.postgres import connect, lock_key, query, try_lock
from shaberi_dagster.util.errors import ShaberiError

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection  # noqa: N812

LOCK = "dagster run"
_LOOK_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 5.0
_logger = logging.getLogger(__name__)
# PostgreSQL shows a lock's number in two halves.
_HELD = """
select count(*) from pg_locks
where locktype = 'advisory' and objsubid = 1 and (classid::bigint << 32) | objid::bigint = %s
  and database = (select oid from pg_database where datname = current_database())
"""


@contextmanager
def leased_for_life(dagster_run_id: str, url: str) -> Iterator[bool]:
    """Hold the lease of a run in a worker; waits for the database, and ends this process when the lease is lost.

    Nothing that a run does without its lease could be told from what its next worker does. So it ends like one that is
    killed, before it calls the database's absence a failure, and continues with another process.

    Args:
        dagster_run_id: The run.
        url: The database.

    Yields:
        Whether it is ours; False when another process is at work on it.
    """
    connection, is_ours = _take(dagster_run_id, url)
    over = threading.Event()
    watch = threading.Thread(target=_end_with, args=(connection, over), name="lease", daemon=True)
    watch.start()
    with closing(connection):
        try:
            yield is_ours
        finally:
            over.set()
            watch.join()


@retry(
    retry=retry_if_exception_type(ShaberiError),
    wait=wait_exponential(max=_LONGEST_PAUSE_SECONDS),
    before_sleep=before_sleep_log(_logger, logging.WARNING),
)
def _take(dagster_run_id: str, url: str) -> tuple["Connection", bool]:
    """Take the lease, unless another process has it, on a connection of its own."""
    connection = connect(url)
    return connection, try_lock(connection, LOCK, dagster_run_id)


def _end_with(connection: "Connection", over: threading.Event) -> None:
    """End this process when the connection is lost before its work is over."""
    while not over.is_set():
        if select.select([connection], [], [], _LOOK_SECONDS)[0]:  # no answer is awaited: these are last words
            try:
                query(connection, "select 1")
            except ShaberiError as error:
                end_process(str(error))


def end_process(reason: str) -> NoReturn:
    """End this process of a worker as if it were killed, so that its run continues with another one."""
    _logger.warning("this process ends, and another one continues its run: %s", reason)
    os._exit(1)


def is_leased(dagster_run_id: str, url: str) -> bool:
    """Return whether a living process is at work on a run.

    Args:
        dagster_run_id: The run.
        url: The database.

    Raises:
        ConfigurationError: The database cannot be reached.
    """
    with closing(connect(url)) as connection:
        ((held,),) = query(connection, _HELD, lock_key(LOCK, dagster_run_id))
    return bool(held)
