"""Ctrl-C and `kill`: who hears them, and what an interrupted command says last."""

import os
import shlex
import signal
import sys
from typing import Any

INTERRUPTED = 130
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


def take_interrupts(handler: Any) -> None:
    """Let a handler have Ctrl-C, unless the program that started us ignores it, and `kill` as well."""
    for number in _INTERRUPTS:
        if signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGTERM:
            signal.signal(number, handler)


_READERS = {"view-scores", "inspect-output"}
_READING = {"sql", "view", "report", "compare", "question", "cost", "prices", "endpoints", "schema", "doctor", "ui"}
"""Commands of `shaberi` that make nothing that somebody would go on with."""


def say_how_to_go_on() -> None:
    """Say on stderr which command continues where this one was interrupted; one that only reads has just stopped."""
    name, *arguments = [os.path.basename(sys.argv[0]), *sys.argv[1:]]  # noqa: PTH119
    if name in _READERS or (name == "shaberi" and arguments[:1] and arguments[0] in _READING):
        print("\nstopped", file=sys.stderr, flush=True)  # noqa: T201
        return
    again = " ".join([name, *map(shlex.quote, arguments)])
    print(f"\ninterrupted; what is finished is saved. Go on with:\n  {again}", file=sys.stderr, flush=True)  # noqa: T201
