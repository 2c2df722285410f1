"""`shaberi import-logs`: logs of other tools, in formats that plugin folders read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from shaberi_dagster.cli.command import FAILED_PARTS, FINE
from shaberi_dagster.cli.options import AsJson
from shaberi_dagster.cli.output import say
from shaberi_dagster.runs.option import option
from shaberi_dagster.settings import Settings

EPILOG = """Examples:
  shaberi import-logs arena logs                  every log below the folder

A format is a class in `importers/NAME.py` of a plugin folder. The same command again changes nothing; a log that has
grown adds what is new.

Exit codes: 0 fine, 2 usage or configuration error, 3 some parts could not be read, 130 interrupted."""


def import_logs(
    importer: Annotated[str, option("what", "Name of the importer in a plugin folder", metavar="IMPORTER")],
    paths: Annotated[Sequence[Path], option("what", "Logs, or folders with logs", metavar="PATH")],
    /,
    *,
    as_json: AsJson = False,
) -> int:
    """Import logs of another tool, in a format that a plugin folder reads."""
    from shaberi_dagster.exchange import logs, outcomes
    from shaberi_dagster.runs.workspace import Workspace

    reader = logs.IMPORTERS.use(importer)()
    workspace = Workspace(Settings.from_environment())
    with workspace.published_at_the_end():
        report = logs.import_logs(reader, paths, workspace).document()
    say(outcomes.logs_result(report), as_json=as_json)
    return FAILED_PARTS if report["quarantine"] or report["unreadable_files"] or report["discrepancies"] else FINE
