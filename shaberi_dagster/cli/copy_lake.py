"""`shaberi copy-lake`: a lake in another place, on object storage too."""

import sys
from typing import Annotated

from shaberi_dagster.cli.options import AsJson
from shaberi_dagster.cli.output import say
from shaberi_dagster.runs.option import option
from shaberi_dagster.util.live import reporter_for
from shaberi_dagster.util.progress import StageProgress

EPILOG = """Examples:
  shaberi copy-lake warehouse s3://bucket/team/lake      then SHABERI_WAREHOUSE=s3://bucket/team/lake
  shaberi copy-lake s3://bucket/team/lake backup         and back, or for a backup

The keys and the address of a store come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL and AWS_REGION.
Both are read afterwards and compared row by row. Journals of unfinished runs are not part of a lake: finish those runs
first."""


def copy_lake(
    source: Annotated[str, option("what", "A folder, or s3://bucket/path", metavar="SOURCE")],
    target: Annotated[str, option("what", "Another one, in which there is no lake yet", metavar="TARGET")],
    /,
    *,
    as_json: AsJson = False,
) -> None:
    """Copy a whole lake with its history, to object storage or from there."""
    from shaberi_dagster.lake import copying
    from shaberi_dagster.reports import operations

    reporter, line = reporter_for(sys.stderr), StageProgress("copy", "files", total=0)

    def changed(done: int, total: int) -> None:
        line.done, line.total = done, total
        reporter.changed(line)

    with reporter.watching():
        copied = copying.copy_lake(source, target, changed)
    say(operations.copy_result(copied, target), as_json=as_json)
