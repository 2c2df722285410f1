"""`shaberi view`: the lake as web pages on this machine."""

from typing import Annotated

import typer

from shaberi_dagster.cli.command import FINE
from shaberi_dagster.settings import Settings
from shaberi_dagster.viewer.web.address import DEFAULT_PORT

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
) -> int:
    """Look at scores, questions and answers in a browser (Ctrl-C stops)."""
    from shaberi_dagster.viewer.web import costs, server

    settings = Settings.from_environment()
    server.serve(settings.warehouse, host, port, page, open_browser=open_browser, cost_of=costs.cost_of_calls(settings))
    return FINE
