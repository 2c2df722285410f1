"""Reaper process: ends the parts of a cluster when `shaberi cluster` was killed. Needs only Python.

It reads lines `GROUP SIGNAL` from stdin: a part is at work as that process group, and this signal ends it quickly; the
signal 0 says that the part has ended. When stdin ends, so has `shaberi cluster`, however that was: the parts that are
left are ended, the last one first.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

_PATIENCE_SECONDS = 15.0
_LOOK_SECONDS = 0.05


def end_group(group: int, stop: int, has_ended: Callable[[], bool]) -> None:
    """End a process group.

    Args:
        group: Its number.
        stop: The signal that ends it; what is left of it after a while is killed.
        has_ended: Whether that was heeded.
    """
    with suppress(ProcessLookupError):
        os.killpg(group, stop)
        until = time.monotonic() + _PATIENCE_SECONDS
        while stop != signal.SIGKILL and not has_ended() and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
        os.killpg(group, signal.SIGKILL)


def is_gone(group: int) -> bool:
    """Return whether a process group has no process."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def main() -> None:
    """Keep the parts that stdin names until it ends."""
    parts: dict[int, int] = {}
    for line in sys.stdin:
        group, stop = map(int, line.split())
        parts.pop(group, None)
        if stop:
            parts[group] = stop
    for group, stop in reversed(parts.items()):
        end_group(group, stop, lambda group=group: is_gone(group))  # type: ignore[misc]


if __name__ == "__main__":
    main()
