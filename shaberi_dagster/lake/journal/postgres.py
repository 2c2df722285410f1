"""The PostgreSQL database that several hosts share: connections, our tables, and locks that end with a connection.

psycopg2 is in the extra `cluster`, and imported only where the setting names a database.
"""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shaberi_dagster.lake.journal.base import pauses
from shaberi_dagster.settings import MIRROR_MARK, database_label
from shaberi_dagster.util.errors import ConfigurationError, PartitionBusyError, ShaberiError

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection  # noqa: N812

_CONNECT_SECONDS = 10
# A host that is gone without a word is noticed after half a minute, by us and by the server, which frees its locks.
_IDLE_SECONDS, _INTERVAL_SECONDS, _PROBES = 15, 5, 3


def connect(url: str) -> "Connection":
    """A new connection on which each statement is a transaction; `connection.close()` ends it and frees its locks.

    Args:
        url: The database, `postgresql://user:password@host:port/name`.

    Raises:
        ConfigurationError: The URL is wrong, the database cannot be reached or refuses us, or the driver is missing.
            The message has no password.
    """
    import psycopg2

    label = database_label(url)
    try:
        connection = psycopg2.connect(
            url,
            connect_timeout=_CONNECT_SECONDS,
            application_name="shaberi",
            keepalives_idle=_IDLE_SECONDS,
            keepalives_interval=_INTERVAL_SECONDS,
            keepalives_count=_PROBES,
            tcp_user_timeout=1000 * (_IDLE_SECONDS + _INTERVAL_SECONDS * _PROBES),
            options=f"-c tcp_keepalives_idle={_IDLE_SECONDS} -c tcp_keepalives_interval={_INTERVAL_SECONDS} "
            f"-c tcp_keepalives_count={_PROBES}",
        )
    except ImportError:
        raise ConfigurationError(
            "SHABERI_DATABASE_URL needs the extra 'cluster': install shaberi-dagster[cluster]"
        ) from None
    except psycopg2.OperationalError as error:
        raise ConfigurationError(f"database {label} cannot be reached: {_in_one_line(error)}") from None
    except psycopg2.Error:  # its words have the URL in them
        raise ConfigurationError(
            f"SHABERI_DATABASE_URL ({label}) must be like postgresql://user:password@host:port/name"
        ) from None
    connection.autocommit = True
    return connection


def query(connection: "Connection", statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Run a statement, and give what it returns.

    Raises:
        ShaberiError: The connection is lost, or the database refuses the statement.
    """
    import psycopg2

    try:
        with connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []
    except psycopg2.Error as error:
        what = "connection to the database lost" if connection.closed else "database"
        raise ShaberiError(f"{what}: {_in_one_line(error)}") from error


def create_tables(connection: "Connection", statements: str) -> None:
    """Run `create … if not exists` statements; of several processes one at a time does, or they would collide."""
    with locked(connection, "tables"):
        query(connection, statements)


def try_lock(connection: "Connection", *names: str) -> bool:
    """Take the lock of this name, if no other connection has it, until `unlock` or the end of the connection.

    A connection that has it gets it once more.
    """
    ((taken,),) = query(connection, "select pg_try_advisory_lock(%s)", lock_key(*names))
    return bool(taken)


def unlock(connection: "Connection", *names: str) -> None:
    """Free a lock of this connection."""
    query(connection, "select pg_advisory_unlock(%s)", lock_key(*names))


@contextmanager
def locked(connection: "Connection", *names: str, busy: str | None = None) -> Iterator[None]:
    """Within this context no other connection has the lock of this name; waits, and can be interrupted meanwhile.

    Args:
        connection: Whose lock it is.
        names: Its name.
        busy: What is said when another connection has it; None waits for it.

    Raises:
        PartitionBusyError: Another one has it.
        ShaberiError: The connection was lost, so that another one may have had the lock too.
    """
    for pause in pauses():
        if try_lock(connection, *names):
            break
        if busy is not None:
            raise PartitionBusyError(busy)
        time.sleep(pause)
    try:
        yield
    except BaseException:
        with suppress(ShaberiError):  # a lost connection has no locks
            unlock(connection, *names)
        raise
    unlock(connection, *names)


def lake_name(warehouse: Path) -> str:
    """Name the lake in a folder as the database knows it: its store, or its folder, on each host the same one."""
    mark = warehouse / MIRROR_MARK
    return mark.read_text(encoding="utf-8").strip() if mark.is_file() else str(warehouse)


def lock_key(*names: str) -> int:
    """The number of the lock of this name, among those of PostgreSQL: 64 bits, signed."""
    return int.from_bytes(hashlib.sha256("\0".join(("shaberi", *names)).encode()).digest()[:8], "big", signed=True)


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())
