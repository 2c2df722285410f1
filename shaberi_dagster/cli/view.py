"""`shaberi view`: the lake as web pages on this machine."""

from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shaberi_dagster.cli.command import FINE, Debug
from shaberi_dagster.viewer.web.ask import DEFAULT_PORT

if TYPE_CHECKING:  # what only a run at work needs
    from shaberi_dagster.llm.prices import PriceList
    from shaberi_dagster.settings import Settings

EPILOG = """Examples:

\b
  shaberi view                          opens the leaderboard in a browser
  shaberi view '/run?run=my-model@@july'    opens the page of a run, which is followed while it works
  shaberi view --port 8080 --no-open
  shaberi view --host 0.0.0.0           for other machines too: the printed address has a token

The pages only read, and load nothing from elsewhere."""


def view(
    page: Annotated[str, typer.Argument(help="The page to open, as its address has it from the / on.")] = "/",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on this machine; 0: any that is free.")
    ] = DEFAULT_PORT,
    host: Annotated[
        str, typer.Option(help="Address to listen on; one that other machines reach needs a token, which is printed.")
    ] = "127.0.0.1",
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    debug: Debug = False,
) -> int:
    """Look at scores, questions and answers in a browser (Ctrl-C stops)."""
    del debug
    from shaberi_dagster.settings import Settings  # noqa: PLC0415
    from shaberi_dagster.viewer.web.server import serve  # noqa: PLC0415  (starlette, uvicorn and jinja2)

    settings = Settings.from_environment()
    serve(settings.warehouse, host, port, page, open_browser=open_browser, cost_of=partial(_cost, settings))
    return FINE


def _cost(settings: "Settings", call: Mapping[str, Any]) -> float | None:
    """What a call cost in US dollars, by today's prices; None is unknown."""
    found = _prices(settings).cost(call)
    return None if found is None else found.usd


@cache
def _prices(settings: "Settings") -> "PriceList":
    from shaberi_dagster.runs.workspace import Workspace  # noqa: PLC0415  (only while a run works)

    return Workspace(settings).prices
