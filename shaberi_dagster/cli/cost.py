"""`shaberi cost`: calls, tokens and dollars of runs."""

from shaberi_dagster.cli.command import FINE
from shaberi_dagster.cli.options import CommandOptions, OutputFormat
from shaberi_dagster.reports.requests import Models, Sources, Tags

EPILOG = """Examples:

\b
  shaberi cost                                   all runs
  shaberi cost --model my-model --tag july
  shaberi cost --format csv > cost.csv
  shaberi sql cost_by_person                     who made the runs

Costs are at the price of each call's date; calls of unknown price are counted."""


class CostOptions(CommandOptions):
    """What `shaberi cost` can be told."""

    models: Models = ()
    tags: Tags = ()
    sources: Sources = ()
    output_format: OutputFormat = "table"


def cost(how: CostOptions) -> int:
    """Show calls, tokens and US dollars of runs by stage and benchmark."""
    # DuckDB, which other commands need not load.
    from shaberi_dagster.cli.output import show  # noqa: PLC0415
    from shaberi_dagster.lake.catalog import open_catalog  # noqa: PLC0415
    from shaberi_dagster.reports.cost import read_cost  # noqa: PLC0415
    from shaberi_dagster.settings import Settings  # noqa: PLC0415
    from shaberi_dagster.show.cost import CostDocument  # noqa: PLC0415
    from shaberi_dagster.show.formats import check_format  # noqa: PLC0415

    check_format(how.output_format)
    with open_catalog(Settings.from_environment().warehouse) as catalog:
        report = read_cost(catalog, models=how.models, tags=how.tags, sources=how.sources)
    show(CostDocument(report), how.output_format)
    return FINE
