"""Start, end and errors of every command."""

import atexit
import logging
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread, Timer, main_thread
from typing import Any, NoReturn

from cyclopts import (
    App,
    Argument,
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    RepeatArgumentError,
    Token,
    UnknownCommandError,
    UnusedCliTokensError,
)
from pydantic import ValidationError

from shaberi_dagster.cli.interrupts import INTERRUPTED, say_how_to_go_on, take_interrupts
from shaberi_dagster.cli.options import DEBUG, call
from shaberi_dagster.lake.damage import causes, damage_behind
from shaberi_dagster.plugins.discovery import added_names
from shaberi_dagster.settings import Settings, warehouse_folder
from shaberi_dagster.util.errors import ShaberiError, SqlError, is_interrupt
from shaberi_dagster.util.names import did_you_mean, message_of
from shaberi_dagster.util.permissions import private_files
from shaberi_dagster.util.streams import outliving_readers

FINE, GATE_FAILED, USAGE, FAILED_PARTS, INCONCLUSIVE, UNFORESEEN = 0, 1, 2, 3, 4, 70
_ORDER = (UNFORESEEN, INTERRUPTED, USAGE, GATE_FAILED, FAILED_PARTS, INCONCLUSIVE)
_SOON_SECONDS = 0.01
_SUCCESSORS = {
    **dict.fromkeys(("run-evals", "quick-eval", "view-scores", "inspect-output"), "type its name without shaberi"),
    "scores": "`view-scores` shows scores",
    "search": "`shaberi view` searches with /, and `inspect-output --filter WORDS` on the terminal",
    "--question-timeout": "--call-deadline SECONDS bounds each call",
    "--no-cache": "--fresh uses no reply that another run has paid for",
    "--no-parallel": "--concurrency 1 makes one call at a time",
    "regenerate-baseline": "`shaberi baseline promote NAME --model MODEL` keeps what a run got right",
}
"""Hints on words that are no commands here, and on what the ensemble evaluation's own program took."""


def exit_code(*codes: int) -> int:
    """Return the exit code that counts of those that apply: the first of 70, 130, 2, 1, 3, 4; else 0."""
    return next((code for code in _ORDER if code in codes), FINE)


def with_plugins(epilog: str) -> str:
    """The text below the help of a command, after what plugin folders add to the names that it takes."""
    added = "".join(f"\n  {kind}: {', '.join(names)}" for kind, names in added_names().items())
    return f"From plugin folders:{added}\n\n{epilog}" if added else epilog


def run_command(app: App) -> int:
    """Run a command; errors become one line on stderr and exit code 2, Ctrl-C is 130 and how to go on.

    Who reads its output may go (`head`, a pager): the command runs to its end, and that is its exit code.

    Returns:
        The exit code.
    """
    with outliving_readers():
        try:
            try:
                take_interrupts(signal.default_int_handler)
                with _interrupts_heard(), private_files(warehouse_folder()):
                    code = call(app, sys.argv[1:])
                sys.stdout.flush()
            except BaseException as error:  # noqa: BLE001
                code = exit_code_for(error)
            take_interrupts(signal.SIG_IGN)  # a second Ctrl-C changes nothing
        except KeyboardInterrupt:  # while an error was told
            take_interrupts(signal.SIG_IGN)
            code = INTERRUPTED
        if code == INTERRUPTED:
            say_how_to_go_on()
    return code


def exit_code_for(error: BaseException) -> Any:
    """Say on stderr what ended a command, and return the exit code."""
    if isinstance(error, ShaberiError):
        _report(error, str(_damage_behind(error) or error))
        return error.exit_code
    if isinstance(error, SystemExit):  # a shell was told what completes a word
        return error.code
    return INTERRUPTED if is_interrupt(error) else _usage_error(error)


def end_at_once(code: int) -> NoReturn:
    """End the process without freeing each object by itself, which takes Python more than half a second."""
    atexit._run_exitfuncs()  # noqa: SLF001  (as multiprocessing does before it ends a process)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


@contextmanager
def _interrupts_heard() -> Iterator[None]:
    """Let Ctrl-C also reach what does not hear it: statements of DuckDB, and callbacks of Python."""
    heard, told = os.pipe()
    os.set_blocking(told, False)

    def listen() -> None:
        while os.read(heard, 1):  # the number of a signal that Python will handle; nothing at the end
            if connections := sys.modules.get("shaberi_dagster.lake.connections"):  # else there is no DuckDB yet
                connections.interrupt_statements()
        os.close(heard)

    if logging.lastResort:  # SQLAlchemy writes a traceback of what it then raises
        logging.lastResort.addFilter(_says_more_than_an_interrupt)
    before = signal.set_wakeup_fd(told), sys.unraisablehook
    sys.unraisablehook = _not_lost
    Thread(target=listen, name="interrupts", daemon=True).start()
    try:
        yield
    finally:
        wakeup, sys.unraisablehook = before
        signal.set_wakeup_fd(wakeup)
        os.close(told)


def _says_more_than_an_interrupt(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return error is None or not is_interrupt(error)


def _not_lost(ignored: Any) -> None:
    """Interrupt again if an interrupt was raised where no code can take an error, as while an object is freed."""
    if ignored.exc_value is not None and is_interrupt(ignored.exc_value):
        Timer(_SOON_SECONDS, signal.pthread_kill, [main_thread().ident, signal.SIGINT]).start()
    else:
        sys.__unraisablehook__(ignored)


def _usage_error(error: BaseException) -> int:
    """Write one line for what a command cannot take, or for an error that is not ours."""
    if isinstance(error, CycloptsError):
        command = " ".join([Path(sys.argv[0]).name, *(error.command_chain or ())])
        words = [word.partition("=")[0] for word in sys.argv[1:]]
        text = f"{' '.join(_complaint(error).split()).rstrip('.')} ({command} --help lists what there is)"
        successor = next((f"there is no {word}: {_SUCCESSORS[word]}" for word in words if word in _SUCCESSORS), text)
        print(f"error: {successor}", file=sys.stderr)  # noqa: T201
        return USAGE
    if damage := _damage_behind(error, anyway=not isinstance(error, OSError)):
        _report(error, str(damage))
        return damage.exit_code
    if database := next((link for link in causes(error) if type(link).__module__ == "sqlite3"), None):
        place = f"a database of Dagster, in {Settings.from_environment().dagster_home}"
        _report(
            error, f"{place}: {database}; free space there, then run the same command again: finished calls are kept"
        )
        return USAGE
    if isinstance(error, OSError) and error.strerror:
        _report(error, f"{error.filename or 'the output'}: {error.strerror} (--debug shows where)")
        return USAGE
    _report(error, f"{type(error).__name__}: {error} (--debug shows where)")
    return UNFORESEEN


def _complaint(error: CycloptsError) -> str:  # noqa: PLR0911  (one for each kind)
    """Say what is wrong with a command line; cyclopts does, where we have nothing to add."""
    match error:
        case UnknownCommandError(app=App() as app, unused_tokens=[word, *_]):
            names = sorted(filter(lambda name: not name.startswith("-"), app))
            return f"no command {word!r}; {did_you_mean(word, names, 'there are')}"
        case UnusedCliTokensError(unused_tokens=list() as words):
            return f"unexpected argument {' '.join(words)}; names go with options, such as --tag"
        case MissingArgumentError(keyword=None, argument=Argument() as place) if "Did you mean" not in str(error):
            return f"{place.name if place.index is None else place.name.lstrip('-').upper()} is missing"
        case CoercionError(token=Token(keyword=str() as option, value=value), target_type=kind) if kind is int:
            return f"{option}: a whole number, please, not {value!r}"
        case RepeatArgumentError(token=Token(keyword=str() as option)):
            return f"{option} is given several times: it takes one value, or several as A,B"
        case CycloptsError(__cause__=ValidationError() as refusal):
            problem, argument = refusal.errors()[0], error.argument
            children = argument.children if argument else []
            faulty = next((child for child in children if child.keys[-1:] == problem["loc"][:1]), argument)
            name = faulty.name if faulty else ""
            return f"{name}: {message_of(problem)}" if name.startswith("-") else message_of(problem)
    return str(error).partition(" requires an argument. ")[2] or str(error)


def _damage_behind(error: BaseException, *, anyway: bool = False) -> ShaberiError | None:
    """The damaged file of the lake that is behind an error, if there is one."""
    try:
        return damage_behind(error, Settings.from_environment().warehouse, anyway=anyway)
    except ShaberiError:  # of the settings, which is what was said
        return None


def _report(error: BaseException, text: str) -> None:
    if DEBUG in sys.argv:
        traceback.print_exception(error)
    line = text if isinstance(error, SqlError) else " ".join(text.split())
    print(f"error: {line}", file=sys.stderr)  # noqa: T201
