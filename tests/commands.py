"""The project's commands as a user runs them: processes of their own, with their exit code and both outputs."""

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

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


def run(command: str, *arguments: str | Path, environment: Mapping[str, str | Path] | None = None) -> Finished:
    """Run one of the project's commands to its end, in a process that has its imports behind it."""
    return _server().run(command, [str(one) for one in arguments], _environment(environment))


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

    def run(self, command: str, arguments: list[str], environment: dict[str, str]) -> Finished:
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
            request = {
                "command": command,
                "arguments": arguments,
                "environment": environment,
                "folder": str(Path.cwd()),
                "out": out.name,
                "err": err.name,
            }
            print(json.dumps(request), file=requests, flush=True)
            code = answers.readline()
            assert code, f"the server of commands has died with {self._process.poll()}"
            return Finished(int(code), *(Path(file.name).read_text(encoding="utf-8") for file in (out, err)))

    def _close(self) -> None:
        self._process.communicate()


@cache
def _server() -> _Server:
    return _Server()


def lake_of(folder: Path) -> dict[str, str]:
    """The environment with which commands have their lake and instance in this folder."""
    return {"SHABERI_WAREHOUSE": str(folder / "warehouse"), "DAGSTER_HOME": str(folder / "dagster")}
