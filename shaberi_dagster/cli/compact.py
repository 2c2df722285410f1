"""`shaberi compact`: fewer and larger files."""

from shaberi_dagster.cli.command import FINE
from shaberi_dagster.cli.options import JsonOptions
from shaberi_dagster.cli.output import say
from shaberi_dagster.lake.catalog import check_there, write_catalog
from shaberi_dagster.settings import Settings


def compact(how: JsonOptions) -> int:
    """Merge the lake's small files and delete those that no version of the last week needs."""
    from shaberi_dagster.exchange import installation
    from shaberi_dagster.lake import compaction
    from shaberi_dagster.reports import maintenance

    settings = Settings.from_environment()
    check_there(settings.warehouse)
    lake = installation.Installation(settings).lake
    say(maintenance.compaction_result(compaction.compact_lake(lake)), as_json=how.as_json)
    write_catalog(lake)
    return FINE
