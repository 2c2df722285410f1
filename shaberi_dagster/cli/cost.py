"""`shaberi cost`: what runs cost, by stage and benchmark."""

from typing import Annotated

import typer

from shaberi_dagster.cli.command import FINE, Debug
from shaberi_dagster.cli.completion import completer

COST_EPILOG = """Examples:

\b
  shaberi cost                                   all runs
  shaberi cost --model my-model --tag july
  shaberi cost --format csv > cost.csv
  shaberi sql cost_by_person                     who made the runs

Costs are at the price of each call's date; calls of unknown price are counted."""


def cost(
    model: Annotated[
        list[str] | None, typer.Option(help="Only this model; repeat for several.", autocompletion=completer("models"))
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(help="Only runs with this tag; repeat for several.", autocompletion=completer("runs")),
    ] = None,
    output_format: Annotated[str, typer.Option("--format", help="table, json, csv or md.")] = "table",
    debug: Debug = False,
) -> int:
    """Show calls, tokens and US dollars of runs by stage and benchmark."""
    del debug
    # DuckDB, which other commands need not load.
    from rich.console import Console  # noqa: PLC0415

    from shaberi_dagster.lake.catalog import open_catalog  # noqa: PLC0415
    from shaberi_dagster.rendering.cost import CostDocument  # noqa: PLC0415
    from shaberi_dagster.rendering.document import check_format, write  # noqa: PLC0415
    from shaberi_dagster.reports.cost import read_cost  # noqa: PLC0415
    from shaberi_dagster.settings import Settings  # noqa: PLC0415

    check_format(output_format)
    with open_catalog(Settings.from_environment().warehouse) as catalog:
        report = read_cost(catalog, models=model or (), tags=tag or ())
    write(CostDocument(report), output_format, Console())
    return FINE
