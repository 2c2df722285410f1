"""`shaberi view`: the lake as web pages on this machine."""

from typing import Annotated

from pydantic import Field

from shaberi_dagster.cli.options import Host
from shaberi_dagster.runs.option import option
from shaberi_dagster.settings import Settings
from shaberi_dagster.viewer.web.address import DEFAULT_PORT

EPILOG = """Examples:
  shaberi view                          opens the leaderboard in a browser
  shaberi view '/run?run=my-model@@july'    opens the page of a run, which is followed while it works
  shaberi view --host 0.0.0.0           for other machines too: the printed address has a token

The pages only read, and load nothing from elsewhere."""


def view(
    page: Annotated[str, option("what", "The page to open, as its address has it from the / on")] = "/",
    /,
    *,
    port: Annotated[
        int, Field(ge=0, le=65535), option("how", "Port on this machine; 0: any that is free")
    ] = DEFAULT_PORT,
    host: Host = "127.0.0.1",
    open_browser: Annotated[
        bool, option("how", "Open the page in a browser", name="--open", negative="--no-open")
    ] = True,
) -> None:
    """Show scores, questions and answers in a browser."""
    from shaberi_dagster.viewer.web import costs, server

    settings = Settings.from_environment()
    server.serve(settings.warehouse, host, port, page, open_browser=open_browser, cost_of=costs.cost_of_calls(settings))
