"""Connections to DuckDB whose statements can be stopped: by Ctrl-C, which it may not notice, or by a limit."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Timer
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, ref

import duckdb

from shaberi_dagster.util.errors import SqlError, StatementStoppedError

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa


# Not a WeakSet, whose callback would take an interrupt that comes while a connection is freed, and lose it.
_connections: list[ReferenceType[duckdb.DuckDBPyConnection]] = []


def connected(config: dict[str, Any] | None = None) -> duckdb.DuckDBPyConnection:
    """A connection that `interrupt_statements` knows, to a new instance in memory, which takes 15 ms."""
    connection = duckdb.connect(config=config or {})
    connection.execute("set enable_progress_bar = false")  # it writes on stdout, where results go
    _connections[:] = [*(known for known in _connections if known() is not None), ref(connection)]
    return connection


def interrupt_statements() -> None:
    """Stop whatever the connections of this process are at; for another thread than theirs."""
    for known in _connections:
        if (connection := known()) is not None:
            with suppress(duckdb.Error):  # it is closed
                connection.interrupt()


@contextmanager
def errors_of_sql(source: str = "SQL") -> Iterator[None]:
    """Raise what DuckDB says of a statement within this context as our own error.

    Args:
        source: Where the statement is from.

    Raises:
        SqlError: The statement is wrong; an interrupt stays what it is.
    """
    try:
        yield
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:
        raise SqlError(error, source) from error


def read_frame(
    connection: duckdb.DuckDBPyConnection, sql: str | duckdb.Statement, parameters: Mapping[str, object] | None = None
) -> "pl.DataFrame":
    """Read the result of a statement of our own as a frame, without PyArrow, whose import takes 0.15 s."""
    import polars as pl

    # Not as a stream: while Polars reads one, an interrupt would be an error of Polars.
    return pl.DataFrame(connection.sql(sql, params=dict(parameters or {})).materialize())


def frame_of(result: duckdb.DuckDBPyConnection) -> "pl.DataFrame":
    """The result of a statement as a frame."""
    import polars as pl

    return pl.DataFrame(arrow_of(result))


@dataclass(frozen=True)
class Streamed:
    """Rows of a frame as an Arrow C stream, which DuckDB reads without PyArrow.

    Attributes:
        frame: The rows.
    """

    frame: "pl.DataFrame"

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows by Arrow's C interface."""
        return self.frame.__arrow_c_stream__(requested_schema)


def arrow_of(result: duckdb.DuckDBPyConnection) -> "pa.Table":
    """The result of a statement as an Arrow table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the rows are copied once more
        return result.to_arrow_table()


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
        timer.join()  # a late one would interrupt the next statements of the connection
