"""Connections to DuckDB whose statements can be stopped: by Ctrl-C, which it may not notice, or by a limit."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Timer
from typing import Any
from weakref import ReferenceType, ref

import duckdb

from shaberi_dagster.errors import StatementStoppedError

# Not a WeakSet, whose callback would take an interrupt that comes while a connection is freed, and lose it.
_connections: list[ReferenceType[duckdb.DuckDBPyConnection]] = []


def connected(database: str = ":memory:", config: dict[str, Any] | None = None) -> duckdb.DuckDBPyConnection:
    """A connection that `interrupt_statements` knows."""
    connection = duckdb.connect(database, config=config or {})
    _connections[:] = [*(one for one in _connections if one() is not None), ref(connection)]
    return connection


def interrupt_statements() -> None:
    """Stop whatever the connections of this process are at; for another thread than theirs."""
    for one in _connections:
        if (connection := one()) is not None:
            with suppress(duckdb.Error):  # it is closed
                connection.interrupt()


@contextmanager
def within(seconds: float | None, connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Within this context statements of a connection, fetching included, may take so many seconds in all.

    Raises:
        StatementStoppedError: They took longer.
    """
    if seconds is None:
        yield
        return
    is_over = Event()

    def stop() -> None:
        is_over.set()
        connection.interrupt()

    timer = Timer(seconds, stop)
    timer.start()
    try:
        yield
    except duckdb.InterruptException:
        if not is_over.is_set():
            raise
        raise StatementStoppedError(seconds) from None
    finally:
        timer.cancel()
