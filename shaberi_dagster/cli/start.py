"""Entry points of the commands.

Nothing is imported here that takes time, so that Ctrl-C is answered from the first moment on.
"""

import os
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

from shaberi_dagster.cli.interrupts import INTERRUPTED, say_how_to_go_on, take_interrupts
from shaberi_dagster.util.memory import keep_little


def run_evals() -> None:
    """Run `run-evals`."""
    _run("shaberi_dagster.cli.run_evals")


def view_scores() -> None:
    """Run `view-scores`."""
    _run("shaberi_dagster.cli.view_scores")


def inspect_output() -> None:
    """Run `inspect-output`."""
    _run("shaberi_dagster.cli.inspect_output")


def quick_eval() -> None:
    """Run `quick-eval`."""
    _run("shaberi_dagster.cli.quick_eval")


def shaberi() -> None:
    """Run `shaberi`."""
    _run("shaberi_dagster.cli.shaberi")


def _run(module: str) -> None:
    take_interrupts(_end_at_once)
    keep_little()
    import_module(module).main()


def _end_at_once(*_: object) -> NoReturn:
    """End while libraries are imported: nothing is to be put away yet, and some of them take any error for theirs."""
    with suppress(OSError):  # nobody reads it
        say_how_to_go_on()
    os._exit(INTERRUPTED)
