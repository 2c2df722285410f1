"""`shaberi ui`: Dagster's web server and daemon on this lake."""

from typing import Annotated

from pydantic import Field

from shaberi_dagster.cli.options import Host
from shaberi_dagster.cli.output import tell
from shaberi_dagster.runs.option import option
from shaberi_dagster.settings import Settings

EPILOG = """Examples:
  shaberi ui --port 3000
  shaberi ui --host 0.0.0.0             for other machines too: the printed address has a token

Scripts send the token of SHABERI_UI_TOKEN as `Authorization: Bearer …`; SHABERI_ALLOWED_HOSTS has the names, separated
by commas, of a proxy in front or of this machine in the network."""


def ui(
    *,
    port: Annotated[int, Field(ge=1, le=65535), option("how", "Port on this machine")] = 3000,
    host: Host = "127.0.0.1",
) -> None:
    """Open Dagster's UI, with its daemon."""
    from shaberi_dagster.defs import server

    server.serve(Settings.from_environment(), host, port, tell)
