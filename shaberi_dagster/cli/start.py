"""Where the commands begin and, when they are interrupted, end.

Nothing is imported here that takes time, so that Ctrl-C is answered from the first moment on.
"""

import os
import shlex
import signal
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

from shaberi_dagster.util.memory import keep_little

INTERRUPTED = 130
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


def run_evals() -> None:
    """Entry point of `run-evals`."""
    _run("run_evals")


def view_scores() -> None:
    """Entry point of `view-scores`."""
    _run("view_scores")


def inspect_output() -> None:
    """Entry point of `inspect-output`."""
    _run("inspect_output")


def quick_eval() -> None:
    """Entry point of `quick-eval`."""
    _run("quick_eval")


def shaberi() -> None:
    """Entry point of `shaberi`."""
    _run("shaberi")


def _run(module: str) -> None:
    take_interrupts(_end_at_once)
    keep_little()
    import_module(f"shaberi_dagster.cli.{module}").main()


def take_interrupts(handler: Any) -> None:
    """Let a handler have Ctrl-C, unless whoever started us does not want us to take it, and `kill` as well."""
    for number in _INTERRUPTS:
        if signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGTERM:
            signal.signal(number, handler)


def say_how_to_go_on() -> None:
    """Say on stderr which command goes on where this one was interrupted."""
    again = " ".join([os.path.basename(sys.argv[0]), *map(shlex.quote, sys.argv[1:])])  # noqa: PTH119
    print(f"\ninterrupted; what is finished is saved. Go on with:\n  {again}", file=sys.stderr, flush=True)  # noqa: T201


def _end_at_once(*_: object) -> NoReturn:
    """While libraries are imported there is nothing to put away, and some of them take any error for theirs."""
    with suppress(OSError):  # nobody reads it
        say_how_to_go_on()
    os._exit(INTERRUPTED)
