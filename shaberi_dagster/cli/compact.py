"""`shaberi compact`: fewer and larger files."""

from shaberi_dagster.cli.options import AsJson
from shaberi_dagster.cli.output import say
from shaberi_dagster.lake.catalog import check_there, write_catalog
from shaberi_dagster.settings import Settings


def compact(*, as_json: AsJson = False) -> None:
    """Merge the lake's small files and delete those that no version of the last week needs."""
    from shaberi_dagster.lake import compaction
    from shaberi_dagster.reports import operations
    from shaberi_dagster.runs.workspace import Workspace

    settings = Settings.from_environment()
    check_there(settings.warehouse)
    lake = Workspace(settings).lake
    say(operations.compaction_result(compaction.compact_lake(lake)), as_json=as_json)
    write_catalog(lake)
