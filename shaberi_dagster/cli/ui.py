"""`shaberi ui`: Dagster's web server and daemon on this lake."""

from typing import Annotated

import typer

from shaberi_dagster.cli.command import FINE
from shaberi_dagster.cli.output import tell
from shaberi_dagster.settings import Settings

EPILOG = """Examples:

\b
  shaberi ui --port 3000
  shaberi ui --host 0.0.0.0             for other machines too: the printed address has a token

Scripts send the token of SHABERI_UI_TOKEN as `Authorization: Bearer …`; SHABERI_ALLOWED_HOSTS has the names, separated
by commas, of a proxy in front or of this machine in the network."""


def ui(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 3000,
    host: Annotated[
        str, typer.Option(help="Address to listen on; one that other machines reach needs a token, which is printed.")
    ] = "127.0.0.1",
) -> int:
    """Open Dagster's UI and daemon on this lake (Ctrl-C stops them)."""
    from shaberi_dagster.defs import ui as dagster_ui

    dagster_ui.serve(Settings.from_environment(), host, port, tell)
    return FINE
