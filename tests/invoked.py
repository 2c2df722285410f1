"""Commands in this process, with what they print."""

import io
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

from cyclopts import App

from shaberi_dagster.cli.options import call


@dataclass(frozen=True)
class Invoked:
    """A command that has ended."""

    exit_code: int
    stdout: str
    stderr: str


def invoke(app: App, arguments: Sequence[str]) -> Invoked:
    """Run a command to its end; what it raises is raised."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = call(app, list(arguments))
    return Invoked(code or 0, out.getvalue(), err.getvalue())
