import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Annotated

import duckdb
import pytest
from deltalake.exceptions import DeltaError
from pydantic import Field

from shaberi_dagster.cli.command import exit_code, run_command
from shaberi_dagster.cli.options import application
from shaberi_dagster.lake.connections import connected
from shaberi_dagster.util.errors import (
    ConfigurationError,
    EndpointError,
    PartitionBusyError,
    QuestionFileError,
    ShaberiError,
)
from tests.commands import run_anew

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def own_signal_handler() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def ended(monkeypatch, capsys) -> Callable[..., tuple[int, str]]:
    """Runs a command and gives its exit code and what it wrote to stderr."""

    def end(body, *arguments):
        def command(*, number: Annotated[int, Field(ge=1)] = 1) -> int:
            return body(number)

        app = application(command)

        monkeypatch.setattr(sys, "argv", ["command", *arguments])
        code = run_command(app)
        captured = capsys.readouterr()
        assert captured.out == ""
        return code, captured.err

    return end


def raising(error):
    def body(_):
        raise error

    return body


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 130])
def test_the_number_that_a_command_returns_is_its_exit_code(code, ended):
    assert ended(lambda _: code)[0] == code


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ConfigurationError("set A to B"), "error: set A to B\n"),
        (ConfigurationError("of\n  several\tlines"), "error: of several lines\n"),
        (QuestionFileError("a.jsonl", 3, "is not JSON"), "error: question file a.jsonl:3: is not JSON\n"),
        (PartitionBusyError("busy"), "error: busy\n"),
    ],
)
def test_our_errors_are_one_line_and_exit_code_2(error, line, ended):
    assert ended(raising(error)) == (2, line)


def test_an_unforeseen_error_is_one_line_with_its_kind_and_exit_code_70(ended):
    assert ended(raising(ZeroDivisionError("by zero"))) == (
        70,
        "error: ZeroDivisionError: by zero (--debug shows where)\n",
    )


@pytest.mark.parametrize(("error", "code"), [(ConfigurationError("wrong"), 2), (ZeroDivisionError("wrong"), 70)])
def test_debug_shows_the_traceback_above_the_line(error, code, ended):
    ended_with, err = ended(raising(error), "--debug")

    assert ended_with == code
    assert err.startswith("Traceback (most recent call last):")
    assert "in body" in err
    assert err.splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--number", "0"], "--number: must be greater than or equal to 1, not 0"),
        (["--number", "many"], "--number: a whole number, please, not"),
        (["--nonsense"], "Unknown option: --nonsense"),
        (["extra"], "unexpected argument extra; names go with options"),
    ],
)
def test_a_wrong_option_is_one_line_that_points_to_the_help_and_exit_code_2(arguments, what, ended):
    code, err = ended(lambda _: 0, *arguments)

    assert code == 2
    assert err.startswith(f"error: {what}")
    assert err.endswith(" --help lists what there is)\n")
    assert err.count("\n") == 1


_ENDLESS = "select count(*) from range(10000000) a, range(100000) b where a.range * b.range % 7 = 3"
_GO_ON = "\ninterrupted; what is finished is saved. Go on with:\n  command\n"


def test_an_interrupt_is_exit_code_130_and_tells_how_to_go_on(ended):
    assert ended(raising(KeyboardInterrupt())) == (130, _GO_ON)


def test_an_interrupt_within_duckdb_is_one_too(ended):
    connection = connected()

    def body(_):
        threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()
        connection.execute(_ENDLESS).fetchall()

    started = time.monotonic()
    assert ended(body) == (130, _GO_ON)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Query interrupted"),
        duckdb.InterruptException("INTERRUPT Error: Interrupted!"),
        DeltaError("C Data interface error: KeyboardInterrupt"),
        OSError("Generic error: C Data interface error: KeyboardInterrupt: "),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_libraries_make_of_an_interrupt_is_one(error, ended):
    assert ended(raising(error)) == (130, _GO_ON)


def test_an_unforeseen_error_that_quotes_an_interrupt_is_none(ended):
    assert ended(raising(ValueError("no score in 'except KeyboardInterrupt: pass'")))[0] == 70


def test_an_interrupt_that_a_server_writes_about_is_none(ended):
    assert ended(raising(EndpointError("HTTP 500: KeyboardInterrupt")))[0] == 2


_FREED = """
import signal, sys, time
from shaberi_dagster.cli.command import run_command

class Freed:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

def app(words, **_):
    Freed()
    time.sleep(60)

sys.exit(run_command(app))
"""


def test_an_interrupt_while_an_object_is_freed_is_not_lost():
    # In a process of its own, since the interrupt comes again a moment later.
    finished = subprocess.run([sys.executable, "-c", _FREED], capture_output=True, text=True, timeout=50, check=False)
    assert finished.returncode == 130
    assert "interrupted" in finished.stderr


_TWICE = f"""
import signal, sys, threading
from shaberi_dagster.cli.command import run_command
from shaberi_dagster.lake.connections import connected

def app(words, **_):
    connection = connected()
    for moment in (0.1, 0.11, 0.15):
        threading.Timer(moment, signal.raise_signal, [signal.SIGINT]).start()
    connection.execute({_ENDLESS!r}).fetchall()

sys.exit(run_command(app))
"""


def test_interrupts_within_duckdb_that_follow_each_other_are_one():
    finished = subprocess.run([sys.executable, "-c", _TWICE], capture_output=True, text=True, timeout=50, check=False)
    assert finished.returncode == 130
    assert finished.stderr.startswith("\ninterrupted; what is finished is saved. Go on with:\n")
    assert finished.stderr.count("\n") == 3


def test_an_interrupt_while_an_error_is_told_is_one(ended):
    class ToldError(ShaberiError):
        def __str__(self):
            signal.raise_signal(signal.SIGINT)
            return "unreachable"

    assert ended(raising(ToldError())) == (130, _GO_ON)


def test_an_interrupt_that_a_library_logs_is_not_shown(ended):
    library = logging.getLogger("a library")
    library.propagate = False

    def body(_):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            library.exception("closing")
            raise

    assert ended(body) == (130, _GO_ON)


def test_a_second_interrupt_while_it_cleans_up_changes_nothing(ended):
    def body(_):
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            signal.raise_signal(signal.SIGINT)

    assert ended(body) == (130, _GO_ON)


def test_kill_ends_a_command_like_an_interrupt(ended):
    def body(_):
        signal.raise_signal(signal.SIGTERM)

    assert ended(body) == (130, _GO_ON)


@pytest.mark.parametrize(
    ("codes", "counts"),
    [((0, 4), 4), ((4, 3), 3), ((3, 4, 1), 1), ((1, 2), 2), ((2, 130), 130), ((0, 0), 0), ((), 0)],
)
def test_of_several_exit_codes_the_first_of_130_2_1_3_4_counts(codes, counts):
    assert exit_code(*codes) == exit_code(*reversed(codes)) == counts


@pytest.mark.e2e
def test_completing_a_word_says_nothing_beside_the_words() -> None:
    done = run_anew("run-evals", "__complete", "--benchmark", "el")

    assert (done.code, done.out.split(), done.err) == (0, ["begin", "elyza"], "")
