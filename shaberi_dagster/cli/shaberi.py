"""`shaberi`: query the lake, look after it, open the UI."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from shaberi_dagster.cli.command import Version
from shaberi_dagster.cli.declared import report_app
from shaberi_dagster.cli.options import application
from shaberi_dagster.reports.declared import REPORTS, title_in

_COMMANDS = {
    "sql": ("shaberi_dagster.cli.query:sql", "Ask the lake; nothing can be changed from here."),
    "export": ("shaberi_dagster.cli.export:export", "Write runs as files that other tools read."),
    "import-legacy": (
        "shaberi_dagster.cli.import_legacy:import_legacy",
        "Import answers and judgements of the old Shaberi suite.",
    ),
    "import-ensemble": (
        "shaberi_dagster.cli.import_ensemble:import_ensemble",
        "Import response caches of the ensemble-consensus evaluation.",
    ),
    "import-answers": (
        "shaberi_dagster.cli.import_answers:import_answers",
        "Bring answers that were made elsewhere into the lake, as a run that can be judged and compared.",
    ),
    "import-logs": (
        "shaberi_dagster.cli.import_logs:import_logs",
        "Import logs of another tool, in a format that a plugin folder reads.",
    ),
    "adopt": (
        "shaberi_dagster.cli.adopt:adopt",
        "Adopt the old suite's prompts, parameters and score parsers from a checkout; none of its code is run.",
    ),
    "reprocess": (
        "shaberi_dagster.cli.reprocess:reprocess",
        "Make stored runs anew without any call: parse, apply passes, derive scores.",
    ),
    "compare": (
        "shaberi_dagster.cli.compare:compare",
        "Compare two models or runs question by question: is one better, are they equal, or is no difference shown?",
    ),
    "graders": (
        "shaberi_dagster.cli.graders:graders",
        "Show which forms of answers the verdicts of rules rest on, and how often each form errs.",
    ),
    "link": (
        "shaberi_dagster.cli.link:link",
        "Have stored answers judged anew by the same judge, and measure whether its old and new scores compare.",
    ),
    "decide": (
        "shaberi_dagster.cli.decide:decide",
        "Decide which of some models is better, with as few questions as it takes.",
    ),
    "prices": (
        "shaberi_dagster.cli.prices:prices",
        "Show what the models that were called cost, as it is known now; what was recorded for a call stays.",
    ),
    "endpoints": (
        "shaberi_dagster.cli.endpoints:endpoints",
        "List where models can be asked, with address, key and parameters; or check that one answers.",
    ),
    "new": (
        "shaberi_dagster.cli.new:new",
        "Write a working example of something of your own into the first plugin folder.",
    ),
    "generate-cache": (
        "shaberi_dagster.cli.generate_cache:generate_cache",
        "Make the samples of an ensemble that are not stored yet, and nothing else.",
    ),
    "report": (
        "shaberi_dagster.cli.report:report",
        "Combine the results of several quick-eval jobs in one Markdown document, or show the lake in one HTML file.",
    ),
    "copy-lake": (
        "shaberi_dagster.cli.copy_lake:copy_lake",
        "Copy a whole lake with its history, to object storage or from there.",
    ),
    "view": ("shaberi_dagster.cli.view:view", "Look at scores, questions and answers in a browser (Ctrl-C stops)."),
    "cluster": (
        "shaberi_dagster.cli.cluster:cluster",
        "Start a cluster on this machine (Ctrl-C stops it), or one part of a cluster.",
    ),
    "schema": (
        "shaberi_dagster.cli.schema:schema",
        "Print the JSON schema of the YAML files that `run-evals --config` takes, for editors that complete them.",
    ),
    "compact": (
        "shaberi_dagster.cli.compact:compact",
        "Merge the lake's small files and delete those that no version of the last week needs.",
    ),
    "doctor": (
        "shaberi_dagster.cli.doctor:doctor",
        "Check the installation and the lake, and close runs whose process has died.",
    ),
    "ui": ("shaberi_dagster.cli.ui:ui", "Open Dagster's UI and daemon on this lake (Ctrl-C stops them)."),
    "baseline": (
        "shaberi_dagster.cli.baseline:baseline_app",
        "Name what a run got right, for `quick-eval --baseline NAME` to compare later runs with.",
    ),
}
"""The commands in the order of the help: where each is, and the line of help by which the list announces it."""
_LAST_BEFORE_REPORTS = "decide"
"""After this command the list has the declared reports of the project."""


class _Listed(TyperCommand):
    """A command's line in the list of commands; the command itself is loaded when it is called.

    Args:
        name: The command.
        line: Its line.
        load: Returns its typer app.
    """

    def __init__(self, name: str, line: str, load: Callable[[], typer.Typer]) -> None:
        super().__init__(name, help=line)
        self._load = load

    def loaded(self) -> Any:
        """Load the command itself."""
        command = typer.main.get_command(self._load())
        command.name = self.name
        return command


def _app_at(place: str) -> typer.Typer:
    """Load the app of a command, or make it of the command's function."""
    name, _, attribute = place.partition(":")
    module = import_module(name)
    found = getattr(module, attribute)
    if isinstance(found, typer.Typer):
        return found
    return application(found, getattr(module, "EPILOG", ""), add_completion=False)


def _app_of_report(name: str) -> typer.Typer:
    """Make the app of a declared report; the file of a plugin is run for it."""
    return report_app(REPORTS.use(name))


class Commands(TyperGroup):
    """The group of all commands, one for each declared report included; only the one that is called is loaded."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = {
            name: _Listed(name, line, partial(_app_at, place)) for name, (place, line) in _COMMANDS.items()
        }

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
        line = title_in(file) if file else REPORTS[cmd_name].title
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
