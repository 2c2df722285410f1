"""`shaberi prices`: what the models that were called cost, and where that is from."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from shaberi_dagster.cli.command import FINE, Debug
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.settings import Settings

if TYPE_CHECKING:
    from shaberi_dagster.llm.prices import Price

EPILOG = """Examples:

\b
  shaberi prices
  SHABERI_PRICES=prices.yaml shaberi prices --refresh      own prices, also for what was called before
  shaberi sql reprice_run --param tag=july                 what runs cost at the prices of the table

An entry of the price file, in US dollars for a million tokens; of those that hold on the call's day, the most specific:

\b
  - {model: my-model*, base_url: http://localhost:8000, from: 2026-07-01, input: 0.2, output: 0.6, cached: 0.05}"""

_DAY_SECONDS = 24 * 60 * 60


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
    import orjson  # noqa: PLC0415

    from shaberi_dagster.lake.catalog import logged_versions, write_catalog  # noqa: PLC0415
    from shaberi_dagster.llm.prices import Price  # noqa: PLC0415
    from shaberi_dagster.rendering.text import json_safe, printable  # noqa: PLC0415
    from shaberi_dagster.runs.workspace import Workspace  # noqa: PLC0415

    if not logged_versions(settings.warehouse):
        raise ConfigurationError(f"no lake in {settings.warehouse}: run run-evals first, or set SHABERI_WAREHOUSE")
    workspace = Workspace(settings)
    called = sorted(workspace.lake.read("calls", columns=["model", "base_url"]).unique().iter_rows())
    histories = {pair: workspace.prices.history(*pair) for pair in called}
    known = [price for history in histories.values() for price in history]
    unknown = [pair for pair, history in histories.items() if not history]
    if refresh and workspace.record_prices(called):
        write_catalog(workspace.lake)
    recorded = {Price(**row) for row in workspace.lake.read("prices").drop("created_at").iter_rows(named=True)}
    if as_json:
        document = {
            "prices": [vars(price) for price in known],
            "unknown": [{"model": model, "base_url": base_url} for model, base_url in unknown],
            "table_is_current": recorded == set(known),
        }
        print(json_safe(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()))  # noqa: T201
        return
    lines = [f"unknown: {printable(model)} at {printable(base_url)}" for model, base_url in unknown]
    if not called:
        lines.append("The lake has no calls.")
    if recorded != set(known):
        lines.append("The table prices says something else; `shaberi prices --refresh` writes these into it.")
    if known:
        _print_table(known)
    print("\n".join(lines), end="\n" if lines else "")  # noqa: T201


def _print_table(known: "Sequence[Price]") -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from shaberi_dagster.rendering.text import printable  # noqa: PLC0415

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in ("model", "address", "from", "until", "for"):
        table.add_column(title, overflow="fold")
    for title in ("input", "cached", "output"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("source", overflow="fold")
    for price in known:
        cells = [
            printable(price.model),
            printable(price.base_url),
            f"{price.valid_from:%Y-%m-%d}" if price.valid_from else "",
            f"{price.valid_to:%Y-%m-%d}" if price.valid_to else "",
            _condition(price),
            *(f"{usd:g}" for usd in (price.input_usd_per_million, price.cached_usd_per_million)),
            f"{price.output_usd_per_million:g}",
            printable(price.source),
        ]
        table.add_row(*map(Text, cells))
    console = Console()
    console.print(table, crop=False)
    console.print("US dollars for a million tokens; dates and hours are UTC.", style="dim")


def _condition(price: "Price") -> str:
    """For which calls of those days the price is, where it is not for all; and what comes on top of it."""
    parts = []
    if (price.day_seconds_from, price.day_seconds_to) != (0, _DAY_SECONDS):
        parts.append(f"{_clock(price.day_seconds_from)}-{_clock(price.day_seconds_to)}")
    if price.prompt_tokens_to is not None:
        parts.append(f"prompts below {price.prompt_tokens_to:,} tokens")
    if price.prompt_tokens_from:
        parts.append(f"prompts from {price.prompt_tokens_from:,} tokens")
    if price.usd_per_call:
        parts.append(f"+ {price.usd_per_call:g} for each call")
    return ", ".join(parts)


def _clock(second: int) -> str:
    return f"{second // 3600:02d}:{second // 60 % 60:02d}"
