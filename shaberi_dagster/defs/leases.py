"""Which Dagster runs are at work, on whatever host: each holds a lock in the database, which ends with its process.

Host names and process numbers tell nothing of containers, which share the former and have the latter anew.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from shaberi_dagster.database import connect, lock_key, query, try_lock

LEASE_TAG = "shaberi/lease"
"""Of runs that a command makes, its process: the run is at work as long as that has the lease."""
_LOCK = "dagster run"
# PostgreSQL shows a lock's number in two halves.
_HELD = """
select count(*) from pg_locks
where locktype = 'advisory' and objsubid = 1 and (classid::bigint << 32) | objid::bigint = %s
  and database = (select oid from pg_database where datname = current_database())
"""


@contextmanager
def leased(dagster_run_id: str, url: str) -> Iterator[bool]:
    """Within this context every host knows that the run is at work.

    Args:
        dagster_run_id: The run.
        url: The database.

    Yields:
        Whether it is ours; False when another process is at work on it.

    Raises:
        ConfigurationError: The database cannot be reached.
    """
    with closing(connect(url)) as connection:
        yield try_lock(connection, _LOCK, dagster_run_id)


def is_leased(dagster_run_id: str, url: str) -> bool:
    """Whether a living process is at work on a run.

    Args:
        dagster_run_id: The run.
        url: The database.

    Raises:
        ConfigurationError: The database cannot be reached.
    """
    with closing(connect(url)) as connection:
        ((held,),) = query(connection, _HELD, lock_key(_LOCK, dagster_run_id))
    return bool(held)
