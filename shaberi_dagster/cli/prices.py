"""`shaberi prices`: what the models that were called cost, and where that is from."""

from typing import Annotated

import typer

from shaberi_dagster.cli.command import FINE, Debug
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.settings import Settings

EPILOG = """Examples:

\b
  shaberi prices
  SHABERI_PRICES=prices.yaml shaberi prices --refresh      own prices, also for what was called before
  shaberi sql reprice_run --param tag=july                 what runs cost at the prices of the table

An entry of the price file, in US dollars for a million tokens; of those that hold on the call's day, the most specific:

\b
  - {model: my-model*, base_url: http://localhost:8000, from: 2026-07-01, input: 0.2, output: 0.6, cached: 0.05}"""


def prices(
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Write them into the table prices, by which SQL prices calls anew.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
    debug: Debug = False,
) -> int:
    """Show what the models that were called cost, as it is known now; what was recorded for a call stays."""
    del debug
    show(Settings.from_environment(), refresh=refresh, as_json=as_json)
    return FINE


def show(settings: Settings, *, refresh: bool, as_json: bool) -> None:
    """Print the prices of all models that were called, on stdout.

    Args:
        settings: Where the lake and the user's price file are.
        refresh: Let the table `prices` say the same.
        as_json: One JSON document instead of a table.

    Raises:
        ConfigurationError: There is no lake, or the price file is wrong.
    """
    # Polars, DuckDB and rich cost start-up time that no other command needs to pay.
    from rich.console import Console  # noqa: PLC0415

    from shaberi_dagster.lake.catalog import logged_versions  # noqa: PLC0415
    from shaberi_dagster.rendering.document import write  # noqa: PLC0415
    from shaberi_dagster.rendering.prices import PriceDocument  # noqa: PLC0415
    from shaberi_dagster.runs.known_prices import known_prices  # noqa: PLC0415
    from shaberi_dagster.runs.workspace import Workspace  # noqa: PLC0415

    if not logged_versions(settings.warehouse):
        raise ConfigurationError(f"no lake in {settings.warehouse}: run run-evals first, or set SHABERI_WAREHOUSE")
    document = PriceDocument(known_prices(Workspace(settings), refresh=refresh))
    write(document, "json" if as_json else "table", Console())
