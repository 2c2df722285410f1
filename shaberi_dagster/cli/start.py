"""Entry points of the commands.

Nothing is imported here that takes time, so that Ctrl-C is answered from the first moment on.
"""

import os
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import NoReturn

from shaberi_dagster.cli.interrupts import INTERRUPTED, say_how_to_go_on, take_interrupts
from shaberi_dagster.util.memory import keep_little


def _run(module: str) -> None:
    """Run the command of a module to the end of the process.

    Args:
        module: Its name.
    """
    take_interrupts(_interrupted)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy's matrices are small here, and its threads spin
    keep_little()
    app, command = import_module(module).app, import_module("shaberi_dagster.cli.command")
    command.end_at_once(command.run_command(app))


run_evals = partial(_run, "shaberi_dagster.cli.run_evals")
view_scores = partial(_run, "shaberi_dagster.cli.view_scores")
inspect_output = partial(_run, "shaberi_dagster.cli.inspect_output")
quick_eval = partial(_run, "shaberi_dagster.cli.quick_eval")
shaberi = partial(_run, "shaberi_dagster.cli.shaberi")


def _interrupted(*_: object) -> NoReturn:
    """End while libraries are imported: nothing is to be put away yet, and some of them take any error for theirs."""
    with suppress(OSError):  # its reader has gone
        say_how_to_go_on()
    os._exit(INTERRUPTED)
