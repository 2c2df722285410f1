"""Commands of declared reports, which are attributes of this module with the names of the reports."""

from contextlib import suppress
from typing import Annotated, Any

from cyclopts import App

from shaberi_dagster.cli.options import OutputFormat
from shaberi_dagster.reports.blocks import Report
from shaberi_dagster.reports.declared import REPORTS
from shaberi_dagster.runs.option import FLAT
from shaberi_dagster.settings import Settings


def __getattr__(name: str) -> App:
    if name not in REPORTS:
        raise AttributeError(name)
    return report_app(REPORTS.use(name))


def report_app(report: Report) -> App:
    """Make the command of a report."""

    def command(selection: Any, *, output_format: OutputFormat = "table") -> None:
        from shaberi_dagster import api
        from shaberi_dagster.cli import output
        from shaberi_dagster.reports import write

        write.check_format(output_format)
        lake = api.LakeReader(Settings.from_environment().warehouse)
        with output.waiting():
            read = lake.read(report, selection)
        output.show(read, output_format)

    command.__doc__ = report.title
    command.__annotations__["selection"] = Annotated[report.selection, FLAT]
    with suppress(TypeError, ValueError):  # a selection with fields that must be given has no default
        command.__defaults__ = (report.selection(),)
    return App(name=report.name, default_command=command, help_epilogue=report.epilog)
