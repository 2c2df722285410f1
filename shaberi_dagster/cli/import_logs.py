"""`shaberi import-logs`: logs of other tools, in formats that plugin folders read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from shaberi_dagster.cli.command import FAILED_PARTS, FINE
from shaberi_dagster.cli.options import AsJson, CommandOptions
from shaberi_dagster.cli.output import say
from shaberi_dagster.runs.option import Option
from shaberi_dagster.settings import Settings

EPILOG = """Examples:

\b
  shaberi import-logs arena logs                  every log below the folder
  shaberi import-logs arena logs/july.arena --json

A format is a class in `importers/NAME.py` of a plugin folder. The same command again changes nothing; a log that has
grown adds what is new.

Exit codes: 0 fine, 2 usage or configuration error, 3 some parts could not be read, 130 interrupted."""


class ImportLogs(CommandOptions):
    """Options of `shaberi import-logs`."""

    importer: Annotated[
        str,
        Field(description="Name of the importer in a plugin folder"),
        Option("what", metavar="IMPORTER", is_argument=True),
    ]
    paths: Annotated[
        Sequence[Path],
        Field(description="Logs, or folders with logs"),
        Option("what", metavar="PATH", is_argument=True, repeated=True),
    ]
    as_json: AsJson = False


def import_logs(how: ImportLogs) -> int:
    """Import logs of another tool, in a format that a plugin folder reads."""
    from shaberi_dagster.exchange import installation, logs, outcomes, publishing

    importer = logs.IMPORTERS.use(how.importer)()
    workspace = installation.Installation(Settings.from_environment())
    with publishing.published_at_the_end(workspace):
        report = logs.import_logs(importer, how.paths, workspace).document()
    say(outcomes.logs_result(report), as_json=how.as_json)
    return FAILED_PARTS if report["quarantine"] or report["unreadable_files"] or report["discrepancies"] else FINE
