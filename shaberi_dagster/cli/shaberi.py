"""`shaberi`: query the lake, look after it, open the UI."""

import ast
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from shaberi_dagster.cli.command import Version
from shaberi_dagster.cli.declared import report_app
from shaberi_dagster.cli.options import application
from shaberi_dagster.reports.declared import REPORTS, title_in

_COMMANDS = (
    "sql",
    "export",
    "import-legacy",
    "import-ensemble",
    "import-answers",
    "import-logs",
    "adopt",
    "reprocess",
    "compare",
    "graders",
    "link",
    "decide",
    "prices",
    "endpoints",
    "new",
    "generate-cache",
    "report",
    "copy-lake",
    "view",
    "cluster",
    "schema",
    "compact",
    "doctor",
    "ui",
    "baseline",
)
"""The commands in the order of the help; each is a function, or an app, in a module of its own with its name."""
_LAST_BEFORE_REPORTS = "decide"
"""After this command the list has the declared reports of the project."""


class _Listed(TyperCommand):
    """A command in the list of commands; the command itself is loaded when it is called.

    Args:
        name: The command.
        line: Returns the line of help by which the list announces it.
        load: Returns its typer app.
    """

    def __init__(self, name: str, line: Callable[[], str], load: Callable[[], typer.Typer]) -> None:
        super().__init__(name)
        self._line = line
        self._load = load

    def get_short_help_str(self, limit: int = 45) -> str:
        """Read its line, now that somebody asks for it, whole: the list breaks lines."""
        del limit
        self.help = self._line()
        return self.help

    def loaded(self) -> Any:
        """Load the command itself."""
        command = typer.main.get_command(self._load())
        command.name = self.name
        return command


def _line_of(name: str) -> str:
    """Read what the function of a command says about itself, without running its module."""
    path = Path(__file__).with_name(_in_python(name) + ".py")
    functions = (node for node in ast.parse(path.read_bytes()).body if isinstance(node, ast.FunctionDef))
    said = next(ast.get_docstring(function) for function in functions if function.name == _in_python(name))
    return (said or "").partition("\n")[0]


def _app_of(name: str) -> typer.Typer:
    """Load the app of a command, or make it of the command's function."""
    module = import_module("." + _in_python(name), __package__)
    own: typer.Typer | None = getattr(module, "app", None)
    return own or application(getattr(module, _in_python(name)), getattr(module, "EPILOG", ""), add_completion=False)


def _in_python(name: str) -> str:
    return name.replace("-", "_")


def _app_of_report(name: str) -> typer.Typer:
    """Make the app of a declared report; the file of a plugin is run for it."""
    return report_app(REPORTS.use(name))


class Commands(TyperGroup):
    """The group of all commands, one for each declared report included; only the one that is called is loaded."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = {name: _Listed(name, partial(_line_of, name), partial(_app_of, name)) for name in _COMMANDS}

    def list_commands(self, ctx: Any) -> list[str]:
        """List the names of all commands: after the project's own those of plugin folders."""
        names = super().list_commands(ctx)
        after = names.index(_LAST_BEFORE_REPORTS) + 1
        own = [name for name in REPORTS if REPORTS.file(name) is None]
        names = [*names[:after], *own, *names[after:]]
        return list(dict.fromkeys([*names, *(file.name for file in REPORTS.added)]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Find a command; None if there is none."""
        command = super().get_command(ctx, cmd_name)
        if command is not None or cmd_name not in list(REPORTS):
            return command
        file = REPORTS.file(cmd_name)
        line = partial(title_in, file) if file else lambda: REPORTS[cmd_name].title
        return _Listed(cmd_name, line, partial(_app_of_report, cmd_name))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command that the arguments begin with, and load it."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.loaded() if isinstance(command, _Listed) else command, rest

    def all_loaded(self) -> Mapping[str, Any]:
        """Load every command, for those that document or check all of them."""
        commands = {name: self.get_command(None, name) for name in self.list_commands(None)}
        return {
            name: command.loaded() if isinstance(command, _Listed) else command for name, command in commands.items()
        }


app = typer.Typer(cls=Commands, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=True)


@app.callback()
def shaberi(version: Version = False) -> None:
    """Query the evaluation lake in SQL, look after it, and open the Dagster UI."""
    del version
