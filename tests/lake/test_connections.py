"""Connections to DuckDB: who is stopped, what is locked, and what is not written."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Timer

import duckdb
import pytest

from shaberi_dagster.lake.connections import connected, interrupt_statements, within

_ENDLESS = "select count(*) from range(10000000) a, range(100000) b where a.range * b.range % 7 = 3"


def _interrupt(connection: duckdb.DuckDBPyConnection) -> None:
    Timer(0.2, connection.interrupt).start()
    connection.execute(_ENDLESS).fetchall()


def _limit(connection: duckdb.DuckDBPyConnection) -> None:
    with within(0.2, connection):
        connection.execute(_ENDLESS).fetchall()


@pytest.mark.parametrize("stop", [_interrupt, _limit])
def test_who_is_stopped_stops_alone(stop: Callable[[duckdb.DuckDBPyConnection], None]) -> None:
    is_stopped, has_begun = Event(), Event()

    def go_on() -> int:
        rows = 0
        with connected() as connection:
            for _ in range(1000):
                rows += len(connection.execute("from range(10000)").fetchall())
                has_begun.set()
                if is_stopped.is_set():
                    break
        return rows

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(go_on)
        assert has_begun.wait(10)
        with pytest.raises(Exception, match=r"(?i)interrupt|longer"), connected() as connection:
            stop(connection)
        is_stopped.set()
        assert other.result(10) % 10000 == 0


def test_an_interrupt_reaches_each_statement() -> None:
    def count() -> None:
        with connected() as connection:
            connection.execute(_ENDLESS).fetchall()

    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(count) for _ in range(2)]
        timer = Timer(0.5, interrupt_statements)
        timer.start()
        assert all(isinstance(one.exception(20), duckdb.InterruptException) for one in both)


def test_long_statements_write_nothing_between_results() -> None:
    with connected() as connection:
        assert connection.execute("select current_setting('enable_progress_bar')").fetchone() == (False,)


def test_an_instance_is_locked_by_itself() -> None:
    with connected() as own, connected() as other:
        own.execute("set enable_external_access = false; set lock_configuration = true")
        assert other.execute("select size > 0 from read_text($1)", [__file__]).fetchone() == (True,)
        with pytest.raises(duckdb.PermissionException):
            own.execute("select size from read_text($1)", [__file__])
