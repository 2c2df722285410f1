"""The project's commands as a user runs them: processes of their own, with their exit code and both outputs."""

import atexit
import fcntl
import json
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.command_server import COMMANDS

SCRIPTS = Path(sys.executable).parent
_ROOT = Path(__file__).resolve().parents[1]
_PATIENCE_SECONDS = 240


@dataclass(frozen=True)
class Finished:
    """A command that has ended, without a last word of a native library."""

    code: int
    out: str
    err: str

    def __post_init__(self) -> None:
        assert "nanobind: " not in self.err, self.err
        assert "resource_tracker: " not in self.err, self.err

    def succeeded(self) -> "Finished":
        """Itself, if the exit code is 0."""
        assert self.code == 0, f"exit code {self.code}\n{self.out}\n{self.err}"
        return self

    @property
    def complaint(self) -> str:
        """The one line on stderr that a refused command has, with exit code 2."""
        assert (self.code, self.out) == (2, ""), f"exit code {self.code}\n{self.out}\n{self.err}"
        assert self.err.count("\n") == 1, self.err
        assert self.err.startswith("error: "), self.err
        return self.err.removeprefix("error: ").rstrip("\n")


@dataclass
class Started:
    """A command at work.

    Attributes:
        pid: Its process.
    """

    pid: int
    _out: Path
    _said: Callable[[], str]
    _code: int | None = None

    @property
    def err(self) -> str:
        """What it has said on stderr so far."""
        return self._said()

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if not self._has_ended():
            os.kill(self.pid, number)

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait for something that comes while it is at work."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while not condition():
            assert not self._has_ended(), self.err
            assert time.monotonic() < end, self.err
            time.sleep(0.02)

    def wait_until_it_says(self, words: str) -> None:
        """Wait until it has said something on stderr."""
        self.wait_until(lambda: words in self.err)

    def finished(self) -> Finished:
        """Wait for its end."""
        self._has_ended(wait=True)
        assert self._code is not None
        return Finished(self._code, self._out.read_text(encoding="utf-8"), self.err)

    def _has_ended(self, *, wait: bool = False) -> bool:
        if self._code is None:
            self._code = _server().ask(pid=self.pid, wait=wait)
        return self._code is not None


class Terminal:
    """A pseudo-terminal of 40 rows.

    Args:
        columns: How wide it is.

    Attributes:
        path: Its device.
    """

    def __init__(self, columns: int = 110) -> None:
        self._screen, self._device = pty.openpty()
        fcntl.ioctl(self._device, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.path = os.ttyname(self._device)
        self._written = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        """All that was written on it so far, with its control sequences."""
        return self._written.decode(errors="replace")

    def end(self) -> None:
        """Have all that was written; nobody writes any more."""
        os.close(self._device)
        self._reader.join()

    def _read(self) -> None:
        with suppress(OSError):  # what Linux says when the last writer has closed it
            while part := os.read(self._screen, 1 << 16):
                self._written += part


@contextmanager
def started(
    command: str,
    *arguments: str | Path,
    environment: Mapping[str, str | Path] | None = None,
    terminal: Terminal | None = None,
    stdout: Terminal | None = None,
    without_dagster: bool = False,
) -> Iterator[Started]:
    """One of the project's commands, in a process that has its imports behind it; with the context it is killed.

    With a terminal, its stdin and stderr are there; its stdout is where that is said. Without Dagster it makes its
    stages alone, see `stages_alone`.
    """
    with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
        pid = _server().ask(
            command=command,
            arguments=[str(one) for one in arguments],
            environment=_environment(environment),
            folder=str(Path.cwd()),
            stdin=terminal.path if terminal else os.devnull,
            out=stdout.path if stdout else out.name,
            err=terminal.path if terminal else err.name,
            without_dagster=without_dagster,
        )
        process = Started(pid, Path(out.name), lambda: terminal.text if terminal else Path(err.name).read_text("utf-8"))
        try:
            yield process
        finally:
            process.send(signal.SIGKILL)
            process.finished()


def run(command: str, *arguments: str | Path, environment: Mapping[str, str | Path] | None = None) -> Finished:
    """Run one of the project's commands to its end, in a process that has its imports behind it."""
    with started(command, *arguments, environment=environment) as process:
        return process.finished()


def run_without_dagster(
    command: str, *arguments: str | Path, environment: Mapping[str, str | Path] | None = None
) -> Finished:
    """As `run`, where what a command makes and says matters, and not the Dagster run that is half of its time."""
    with started(command, *arguments, environment=environment, without_dagster=True) as process:
        return process.finished()


def run_anew(command: str, *arguments: str | Path, environment: Mapping[str, str | Path] | None = None) -> Finished:
    """Run the installed script of a command to its end, as a shell does."""
    finished = subprocess.run(
        [SCRIPTS / command, *arguments],
        env=_environment(environment),
        capture_output=True,
        encoding="utf-8",
        timeout=_PATIENCE_SECONDS,
        check=False,
    )
    return Finished(finished.returncode, finished.stdout, finished.stderr)


_PROGRAM = """\
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({socket!r})
    request = dict(command={command!r}, arguments=sys.argv[1:], environment=dict(os.environ), folder=os.getcwd())
    request["without_dagster"] = True
    socket.send_fds(server, [b"{{"], [0, 1, 2])
    server.sendall(json.dumps(request)[1:].encode() + b"\\n")
    sys.exit(int(server.recv(16)))
"""


def make_programs(folder: Path) -> Path:
    """A virtual environment, as scripts see it: its programs are the project's commands without their imports.

    They make their stages alone, as those of `run_without_dagster`.

    Args:
        folder: Where it is made.

    Returns:
        It.
    """
    (folder / "bin").mkdir(parents=True)
    for command in COMMANDS:
        program = folder / "bin" / command
        text = _PROGRAM.format(socket=_listening(), command=command)
        program.write_text(f"#!{sys.executable} -IS\n{text}", encoding="utf-8")
        program.chmod(0o755)
    return folder


@cache
def _listening() -> str:
    """The socket of the server of commands."""
    folder = tempfile.mkdtemp()  # a test's own may be longer than the name of a socket can be
    atexit.register(shutil.rmtree, folder)
    path = f"{folder}/socket"
    _server().ask(listen=path)
    return path


def _environment(more: Mapping[str, str | Path] | None) -> dict[str, str]:
    return os.environ | {name: str(value) for name, value in (more or {}).items()}


class _Server:
    """`command_server.py` in a process of its own, which ends with this one."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.command_server"],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        atexit.register(self._close)

    def ask(self, **request: Any) -> Any:
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        print(json.dumps(request), file=requests, flush=True)
        answer = answers.readline()
        assert answer, f"the server of commands has died with {self._process.poll()}"
        return json.loads(answer)

    def _close(self) -> None:
        self._process.communicate()


@cache
def _server() -> _Server:
    return _Server()


def lake_of(folder: Path) -> dict[str, str]:
    """The environment with which commands have their lake and instance in this folder."""
    return {"SHABERI_WAREHOUSE": str(folder / "warehouse"), "DAGSTER_HOME": str(folder / "dagster")}
