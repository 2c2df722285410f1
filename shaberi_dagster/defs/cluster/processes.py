"""The processes of a cluster: each a group with all that it starts, ended even if we are killed."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from shaberi_dagster.defs.cluster import reaper as reaper_program
from shaberi_dagster.defs.cluster.reaper import end_group
from shaberi_dagster.errors import ShaberiError

_SHORT_LIFE_SECONDS = 10.0
_MOST_SHORT_LIVES = 6


class Reaper:
    """A process that ends the parts of this cluster should this process be killed; a context manager.

    Args:
        lock: A file descriptor that is open as long as it lives.
    """

    def __init__(self, lock: int) -> None:
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-IS", reaper_program.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[lock],
            start_new_session=True,  # Ctrl-C is for us
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def tell(self, group: int, stop: int) -> None:
        """Tell it of a part at work, or with the signal 0 of one that has ended."""
        assert self._process.stdin is not None  # noqa: S101
        self._process.stdin.write(f"{group} {stop}\n".encode())
        self._process.stdin.flush()


@dataclass
class ClusterProcess:
    """A process of the cluster, with all that it starts: they are one process group.

    Attributes:
        name: What it is called.
        command: What runs it.
        environment: Its own.
        log: Where it writes.
        user: As whom it runs; None for who we are.
        stop: The signal that ends it quickly.
        reaper: Who ends it should we be killed; nobody, where we are not.
        answers: Of a server, whether others can work with it by now.
        process: Itself, when it is at work.
    """

    name: str
    command: Sequence[str | Path]
    environment: Mapping[str, str]
    log: Path
    user: str | None = None
    stop: signal.Signals = signal.SIGTERM
    reaper: Reaper | None = None
    answers: Callable[[], bool] | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _is_ready: bool = field(default=False, init=False)
    _started: float = field(default=0.0, init=False)
    _next_start: float = field(default=0.0, init=False)
    _short_lives: int = field(default=0, init=False)

    def start(self) -> None:
        """Start it in a group of its own, so that Ctrl-C reaches us first, and killing it leaves no child."""
        self._started, self._is_ready = time.monotonic(), False
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603
                self.command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self.user,
                group=self.user,
                extra_groups=[] if self.user else None,
                cwd=self.log.parent,
                start_new_session=True,
            )
        self._tell_reaper(self.stop)

    def has_ended(self) -> bool:
        """True if the process has ended."""
        return self.process is None or self.process.poll() is not None

    def end(self) -> None:
        """End it and all its children."""
        if self.process is None:
            return
        end_group(self.process.pid, self.stop, self.has_ended)
        self.process.wait()
        self._tell_reaper(0)
        self.process = None

    def is_ready(self) -> bool:
        """True if the process is at work and, as a server, has answered since it was started."""
        self._is_ready = not self.has_ended() and (self._is_ready or self.answers is None or self.answers())
        return self._is_ready

    def look_after(self, tell: Callable[[str], object]) -> None:
        """Start it anew when it has ended: at once, or, as long as it ends soon after each start, after growing pauses.

        Raises:
            ShaberiError: It has ended soon after each of several starts.
        """
        if self.process is not None and self.has_ended():
            short = time.monotonic() - self._started < _SHORT_LIFE_SECONDS
            self._short_lives = self._short_lives + 1 if short else 0
            if self._short_lives == _MOST_SHORT_LIVES:
                raise ShaberiError(f"{self.name} of the cluster ends each time it is started: {self.last_line()}")
            self.end()  # its children, which it has left behind
            pause = 2 ** (self._short_lives - 2) if self._short_lives > 1 else 0
            self._next_start = time.monotonic() + pause
            tell(f"{self.name} has ended and is started anew" + (f" in {pause} s" if pause else ""))
        if self.process is None and time.monotonic() >= self._next_start:
            self.start()

    def last_line(self) -> str:
        """Return its last output, and the file of all of it."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"{lines[-1] if lines else 'it says nothing'} ({self.log})"

    def _tell_reaper(self, stop: int) -> None:
        if self.reaper and self.process:
            self.reaper.tell(self.process.pid, stop)
