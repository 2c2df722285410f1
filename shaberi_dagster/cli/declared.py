"""Commands of declared reports."""

import inspect
from collections.abc import Callable
from typing import Any

import typer

from shaberi_dagster.cli.command import FINE
from shaberi_dagster.cli.options import CommandOptions, OutputFormat, application
from shaberi_dagster.reports.report import Report
from shaberi_dagster.settings import Settings


class ReportOptions(CommandOptions):
    """The options of a report beside its selection."""

    output_format: OutputFormat = "table"


def report_app(report: Report) -> typer.Typer:
    """Make the typer app of a report's command."""
    return application(_command_of(report), report.epilog, add_completion=False)


def _command_of(report: Report) -> Callable[..., int]:
    def command(selection: Any, how: ReportOptions) -> int:
        from shaberi_dagster import api
        from shaberi_dagster.cli import output
        from shaberi_dagster.show import formats

        formats.check_format(how.output_format)
        lake = api.LakeReader(Settings.from_environment().warehouse)
        with output.waiting():
            read = lake.read(report, selection)
        output.show(read, how.output_format)
        return FINE

    models = {"selection": report.selection, "how": ReportOptions}
    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=models[name]) for name in models]
    command.__name__, command.__doc__ = report.name, report.title
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command
