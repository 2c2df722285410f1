"""Ctrl-C and `kill`: who hears them, and what an interrupted command says last."""

import os
import shlex
import signal
import sys
from typing import Any

INTERRUPTED = 130
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


def take_interrupts(handler: Any) -> None:
    """Let a handler have Ctrl-C, unless whoever started us does not want us to take it, and `kill` as well."""
    for number in _INTERRUPTS:
        if signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGTERM:
            signal.signal(number, handler)


def say_how_to_go_on() -> None:
    """Say on stderr which command goes on where this one was interrupted."""
    again = " ".join([os.path.basename(sys.argv[0]), *map(shlex.quote, sys.argv[1:])])  # noqa: PTH119
    print(f"\ninterrupted; what is finished is saved. Go on with:\n  {again}", file=sys.stderr, flush=True)  # noqa: T201
