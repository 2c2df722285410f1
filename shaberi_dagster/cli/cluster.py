"""`shaberi cluster`: several workers, and what they share, as processes of this machine; or one part of a cluster."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from shaberi_dagster.cli.options import Host
from shaberi_dagster.cli.output import tell
from shaberi_dagster.runs.option import option

EPILOG = """Examples:
  shaberi cluster --workers 4                 PostgreSQL, Redis, an S3 server, Dagster and 4 workers, until Ctrl-C
  . .cluster/environment                      in another shell: commands then work on that cluster
  shaberi cluster worker                      one more worker, here or on another host with the same settings

Of PARTs there are worker, daemon and web; each runs on what SHABERI_DATABASE_URL, SHABERI_BROKER_URL and
SHABERI_WAREHOUSE name, and is what containers or services start. Beyond loopback the UI asks for a token, which is
printed unless SHABERI_UI_TOKEN sets it."""


def cluster(
    part: Annotated[str | None, option("what", "Only this part: worker, daemon or web. Default: all")] = None,
    /,
    *,
    workers: Annotated[int, Field(ge=1), option("how", "How many workers; each makes one run at a time")] = 2,
    folder: Annotated[Path, option("how", "Where all of them keep their files")] = Path(".cluster"),
    port: Annotated[int, Field(ge=1, le=65535), option("how", "Of Dagster's UI")] = 3000,
    host: Host = "127.0.0.1",
) -> None:
    """Start a cluster on this machine, or one part of a cluster."""
    from shaberi_dagster.defs.cluster import local, parts

    if part is not None:
        parts.run_part(part, host, port)

    local.run_all(folder.absolute(), workers, host, port, tell)
