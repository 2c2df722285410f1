"""Databases in the instance that a process has for all of them: nobody sees, stops or waits for another one."""

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event, Timer

import duckdb
import polars as pl
import pytest

from shaberi_dagster.lake.connections import attached, connected, interrupt_statements, within

_ENDLESS = "select count(*) from range(10000000) a, range(100000) b where a.range * b.range % 7 = 3"


def _databases() -> set[str]:
    with attached() as connection:
        rows = connection.execute("select database_name from duckdb_databases() where not internal").fetchall()
        own = connection.execute("select current_database()").fetchone() or ("",)
    return {name for (name,) in rows} - {"memory", own[0]}


def test_what_one_defines_and_sets_no_other_one_sees() -> None:
    with attached() as one, attached() as other:
        for connection, number in ((one, 1), (other, 2)):
            connection.execute(f"create schema lake; create macro lake.number() as {number}")
            connection.execute("create view lake.numbers as select lake.number() as number")
            connection.register("frame", pl.DataFrame({"number": [number]}))
        one.execute("set TimeZone = 'Asia/Tokyo'")
        for connection, number in ((one, 1), (other, 2)):
            assert connection.execute("from lake.numbers, frame").fetchall() == [(number, number)]
        assert other.execute("select current_setting('TimeZone')").fetchone() != ("Asia/Tokyo",)
    with attached() as third, pytest.raises(duckdb.CatalogException):
        third.execute("from lake.numbers")


def test_threads_work_side_by_side() -> None:
    together = Barrier(8)

    def sums(number: int) -> int:
        together.wait()
        for _ in range(20):
            with attached() as connection:
                connection.execute("create table numbers as from range($1)", [number])
                (found,) = connection.execute("select count(*) from numbers").fetchone() or (0,)
                assert found == number
        return number

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(sums, range(8))) == list(range(8))
    assert _databases() == set()


def test_a_file_is_closed_and_complete_in_the_end(tmp_path: Path) -> None:
    file = tmp_path / "it's.duckdb"
    with attached(str(file), "v1.4.0") as connection:
        connection.execute("create table numbers as from range(3)")
    assert list(tmp_path.iterdir()) == [file]
    with duckdb.connect(str(file)) as other:
        assert other.execute("select count(*) from numbers").fetchone() == (3,)
        assert "v1.4.0" in str(other.execute("select tags from duckdb_databases()").fetchall())


def _begin_and_fail(connection: duckdb.DuckDBPyConnection) -> None:
    connection.begin()
    connection.execute("create table numbers as from range(3)")
    connection.execute("from nothing")


def test_nothing_is_left_of_what_fails() -> None:
    with pytest.raises(duckdb.CatalogException), attached() as connection:
        _begin_and_fail(connection)
    with pytest.raises(duckdb.IOException), attached("/nowhere/at/all"):
        pass
    assert _databases() == set()


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
        with attached() as connection:
            for _ in range(1000):
                rows += len(connection.execute("from range(10000)").fetchall())
                has_begun.set()
                if is_stopped.is_set():
                    break
        return rows

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(go_on)
        assert has_begun.wait(10)
        with pytest.raises(Exception, match=r"(?i)interrupt|longer"), attached() as connection:
            stop(connection)
        is_stopped.set()
        assert other.result(10) % 10000 == 0
    assert _databases() == set()


def test_an_interrupt_reaches_each_statement() -> None:
    def count() -> None:
        with attached() as connection:
            connection.execute(_ENDLESS).fetchall()

    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(count) for _ in range(2)]
        timer = Timer(0.5, interrupt_statements)
        timer.start()
        assert all(isinstance(one.exception(20), duckdb.InterruptException) for one in both)
    assert _databases() == set()


_FORKING = """
import os, sys
from shaberi_dagster.lake.connections import attached

def add_up():
    with attached() as connection:
        connection.execute("create table numbers as from range(1000000)")
        assert connection.execute("select sum(range) from numbers").fetchone() == (499999500000,)

add_up()
if (pid := os.fork()) == 0:
    add_up()
    if (pid := os.fork()) == 0:
        sys.exit()
_, status = os.waitpid(pid, 0)
add_up()
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_a_fork_has_an_instance_of_its_own_and_ends_as_usual() -> None:
    finished = subprocess.run([sys.executable, "-c", _FORKING], capture_output=True, timeout=50, check=False)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, b"", b"")


_HOLDING = """
import resource
from pathlib import Path
from shaberi_dagster.util.memory import keep_little
keep_little()
from shaberi_dagster.lake.connections import attached

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20

def hold():
    with attached() as connection:
        connection.execute("create table texts as select hash(range)::varchar || repeat('x', 200) as t from range(500000)")
        return resident()

hold()
before = resident()
print(hold() - before, resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted by Linux")
def test_memory_of_commands_goes_back_in_the_end() -> None:
    finished = subprocess.run([sys.executable, "-c", _HOLDING], capture_output=True, text=True, timeout=50, check=True)
    held, kept = map(int, finished.stdout.split())
    assert held > 80
    assert kept < 20


def test_long_statements_write_nothing_between_results() -> None:
    setting = "select current_setting('enable_progress_bar')"
    with connected() as own, attached() as other:
        assert [connection.execute(setting).fetchone() for connection in (own, other)] == [(False,), (False,)]


def test_an_instance_of_its_own_is_locked_by_itself() -> None:
    with connected() as own, attached() as other:
        own.execute("set enable_external_access = false; set lock_configuration = true")
        assert other.execute("select size > 0 from read_text($1)", [__file__]).fetchone() == (True,)
        with pytest.raises(duckdb.PermissionException):
            own.execute("select size from read_text($1)", [__file__])
