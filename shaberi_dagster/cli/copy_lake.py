"""`shaberi copy-lake`: a lake in another place, on object storage too."""

import sys
from typing import Annotated

from pydantic import Field

from shaberi_dagster.cli.command import FINE
from shaberi_dagster.cli.options import AsJson, CommandOptions
from shaberi_dagster.cli.output import say
from shaberi_dagster.runs.option import Option
from shaberi_dagster.show.live import reporter_for
from shaberi_dagster.util.progress import StageProgress

EPILOG = """Examples:

\b
  shaberi copy-lake warehouse s3://bucket/team/lake      then SHABERI_WAREHOUSE=s3://bucket/team/lake
  shaberi copy-lake s3://bucket/team/lake backup         and back, or for a backup

The keys and the address of a store come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL and AWS_REGION.
Both are read afterwards and compared row by row. Journals of unfinished runs are not part of a lake: finish those runs
first."""


class CopyLake(CommandOptions):
    """From where, and where to."""

    source: Annotated[
        str, Field(description="A folder, or s3://bucket/path"), Option("what", metavar="SOURCE", is_argument=True)
    ]
    target: Annotated[
        str,
        Field(description="Another one, in which there is no lake yet"),
        Option("what", metavar="TARGET", is_argument=True),
    ]
    as_json: AsJson = False


def copy_lake(how: CopyLake) -> int:
    """Copy a whole lake with its history, to object storage or from there."""
    from shaberi_dagster.lake import copying
    from shaberi_dagster.reports import maintenance

    reporter, line = reporter_for(sys.stderr), StageProgress("copy", "files", total=0)

    def changed(done: int, total: int) -> None:
        line.done, line.total = done, total
        reporter.changed(line)

    with reporter.watching():
        copied = copying.copy_lake(how.source, how.target, changed)
    say(maintenance.copy_result(copied, how.target), as_json=how.as_json)
    return FINE
