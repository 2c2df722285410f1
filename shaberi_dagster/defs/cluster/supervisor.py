"""supervisord, which keeps the parts of a cluster alive: its configuration file, and what its log says."""

import fcntl
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from configparser import RawConfigParser
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from shaberi_dagster.defs.cluster.folder import SUPERVISOR_LOG
from shaberi_dagster.util.errors import ShaberiError

_CONFIGURATION = "supervisord.conf"
_OPTIONS = {"nodaemon": "true", "logfile": "/dev/null", "logfile_maxbytes": "0", "pidfile": "supervisord.pid"}
# A part that ends in its first 10 seconds is started again after 1, 2, 3, 4 and 5 seconds, and then no more.
_OPTIONS_OF_PARTS = {
    "autorestart": "true",
    "startsecs": "10",
    "startretries": "5",
    "stopasgroup": "true",
    "stopwaitsecs": "15",
    "redirect_stderr": "true",
    "stdout_logfile": "%(program_name)s.log",
}
_EVENT = re.compile(r"(spawned|exited|stopped|gave up): '?([\w-]+)'?(?: with pid (\d+))?")

Programs = Mapping[str, Mapping[str, str]]
"""Options of supervisord for each part, by the part's name."""


@dataclass
class Supervisor:
    """supervisord at work.

    Attributes:
        folder: The cluster's folder, which has the log of each part.
        groups: Process group of each part, by name.
    """

    folder: Path
    _process: subprocess.Popen[bytes]
    _log: TextIO
    groups: dict[str, int] = field(default_factory=dict, init=False)

    def restarted_parts(self) -> list[str]:
        """List the parts that were started again since the last call; children of those that ended are killed.

        Raises:
            ShaberiError: A part has ended soon after each of several starts, or supervisord has ended.
        """
        restarted = []
        for event, name, group in _EVENT.findall(self._log.read()):
            if event == "spawned":
                if name in self.groups:
                    restarted.append(name)
                self.groups[name] = int(group)
            elif event == "gave up":
                raise ShaberiError(f"{name} of the cluster ends each time it is started: {self.last_line(name)}")
            else:
                _kill(self.groups[name])
        if self._process.poll() is not None:
            for group in (self._process.pid, *self.groups.values()):
                _kill(group)
            raise ShaberiError(f"the supervisor of the cluster has ended: {self.last_line('supervisord')}")
        return restarted

    def last_line(self, name: str) -> str:
        """Return the last output of a part, and the file of all of it."""
        log = self.folder / f"{name}.log"
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"{lines[-1] if lines else 'it says nothing'} ({log})"


@contextmanager
def supervised(folder: Path, groups: Sequence[Programs]) -> Iterator[Supervisor]:
    """Run supervisord; its parts end with the context, or when this process is killed.

    Args:
        folder: Where it works, and where its files are.
        groups: Parts that start and stop together, in the order in which they start.
    """
    path = folder / SUPERVISOR_LOG
    with path.open("w") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        with (folder / _CONFIGURATION).open("w", encoding="utf-8") as file:
            _configuration(groups).write(file)
        process = subprocess.Popen(  # noqa: S603
            [
                *(sys.executable, "-m", "shaberi_dagster.defs.cluster.guard"),
                *(sys.executable, "-m", "supervisor.supervisord", "--configuration", _CONFIGURATION),
            ],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,  # Ctrl-C is for us
        )
    with path.open(encoding="utf-8") as written:
        supervisor = Supervisor(folder, process, written)
        try:
            yield supervisor
        finally:
            process.communicate()
            with suppress(ShaberiError):  # it has ended now
                supervisor.restarted_parts()


def command_line(command: Sequence[str]) -> str:
    """Write a command as supervisord reads it: as a shell does, but spaces begin comments and `%` names variables."""
    words = (re.sub(r"([^\w@%=:,./-])", r"\\\1", word) for word in command)
    return " ".join(words).replace("%", "%%")


def _configuration(groups: Sequence[Programs]) -> RawConfigParser:
    configuration = RawConfigParser()
    configuration["supervisord"] = _OPTIONS
    for number, programs in enumerate(groups):
        configuration[f"group:{number}"] = {"programs": ",".join(programs), "priority": str(number)}
        for name, options in programs.items():
            configuration[f"program:{name}"] = {**_OPTIONS_OF_PARTS, **options}
    return configuration


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
