"""Wait for the servers of a cluster: `python -m shaberi_dagster.defs.cluster.waiting COMMAND …` in its folder."""

import os
import sys
import time
from pathlib import Path

from shaberi_dagster.defs.cluster.folder import environment_of
from shaberi_dagster.defs.cluster.servers import silent_server

_LOOK_SECONDS = 0.2


def main() -> None:
    """Become the command as soon as all servers answer."""
    settings = environment_of(Path.cwd())
    while silent_server(settings):
        time.sleep(_LOOK_SECONDS)
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606


if __name__ == "__main__":
    main()
