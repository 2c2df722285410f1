"""`shaberi compact`: fewer and larger files."""

from shaberi_dagster.cli.command import FINE
from shaberi_dagster.cli.options import AsJson, CommandOptions


class Compact(CommandOptions):
    """What `shaberi compact` can be told."""

    as_json: AsJson = False


def compact(how: Compact) -> int:
    """Merge the lake's small files and delete those that no version of the last week needs."""
    # Delta-rs only when it is needed.
    from shaberi_dagster.cli.output import say  # noqa: PLC0415
    from shaberi_dagster.exchange.installation import Installation  # noqa: PLC0415
    from shaberi_dagster.lake.catalog import check_there, write_catalog  # noqa: PLC0415
    from shaberi_dagster.lake.compaction import compact_lake  # noqa: PLC0415
    from shaberi_dagster.reports.maintenance import compaction_result  # noqa: PLC0415
    from shaberi_dagster.settings import Settings  # noqa: PLC0415

    settings = Settings.from_environment()
    check_there(settings.warehouse)
    lake = Installation(settings).lake
    say(compaction_result(compact_lake(lake)), as_json=how.as_json)
    write_catalog(lake)
    return FINE
