"""The project's commands as a user runs them: processes of their own, with their exit code and both outputs."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SCRIPTS = Path(sys.executable).parent
_PATIENCE_SECONDS = 240


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    code: int
    out: str
    err: str

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
    """Run one of the project's commands to its end."""
    finished = subprocess.run(
        [SCRIPTS / command, *arguments],
        env=os.environ | {name: str(value) for name, value in (environment or {}).items()},
        capture_output=True,
        encoding="utf-8",
        timeout=_PATIENCE_SECONDS,
        check=False,
    )
    return Finished(finished.returncode, finished.stdout, finished.stderr)


def lake_of(folder: Path) -> dict[str, str]:
    """The environment with which commands have their lake and instance in this folder."""
    return {"SHABERI_WAREHOUSE": str(folder / "warehouse"), "DAGSTER_HOME": str(folder / "dagster")}
