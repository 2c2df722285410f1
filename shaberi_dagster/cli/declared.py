"""Commands of declared reports."""

import inspect
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from shaberi_dagster.cli.command import FINE
from shaberi_dagster.cli.options import CommandOptions, OptionsCommand, OutputFormat, takes_models
from shaberi_dagster.reports.declared import REPORTS
from shaberi_dagster.reports.report import Report
from shaberi_dagster.settings import Settings


class ReportOptions(CommandOptions):
    """The options of a report beside its selection."""

    output_format: OutputFormat = "table"


def add_reports(app: typer.Typer) -> None:
    """Add a command for each report of the project; those of plugin folders are found by `ReportGroup`."""
    for name in REPORTS:
        if REPORTS.file(name) is None:
            _add(app, REPORTS[name])


def _add(app: typer.Typer, report: Report) -> None:
    app.command(report.name, cls=OptionsCommand, epilog=report.epilog)(takes_models(_command_of(report)))


def _command_of(report: Report) -> Callable[..., int]:

    def command(selection: Any, how: ReportOptions) -> int:
        # DuckDB, which other commands need not load.
        from shaberi_dagster.api import LakeReader  # noqa: PLC0415
        from shaberi_dagster.cli.output import show  # noqa: PLC0415
        from shaberi_dagster.show.formats import check_format  # noqa: PLC0415

        check_format(how.output_format)
        lake = LakeReader(Settings.from_environment().warehouse)
        show(lake.read(report, selection), how.output_format)
        return FINE

    models = {"selection": report.selection, "how": ReportOptions}
    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=models[name]) for name in models]
    command.__name__, command.__doc__ = report.name, report.title
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


class ReportGroup(TyperGroup):
    """Commands, with one for each report of plugin folders, whose file is run for its command and for the list only."""

    def list_commands(self, ctx: Any) -> list[str]:
        """List the names of all commands."""
        return [*super().list_commands(ctx), *(file.name for file in REPORTS.added if file.name not in self.commands)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Find a command; None if there is none."""
        command = super().get_command(ctx, cmd_name)
        if command is not None or REPORTS.file(cmd_name) is None:
            return command
        app = typer.Typer(rich_markup_mode=None, add_completion=False)
        _add(app, REPORTS.use(cmd_name))
        return typer.main.get_command(app)
