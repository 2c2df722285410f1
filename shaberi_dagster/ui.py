"""Dagster's webserver and daemon on this lake."""

import os
import subprocess
import sys

from shaberi_dagster.defs.execution import ready_instance
from shaberi_dagster.defs.partitions import add_missing_partitions
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.permissions import make_folder
from shaberi_dagster.ports import check_free
from shaberi_dagster.settings import Settings


def serve(settings: Settings, host: str, port: int) -> int:
    """Run `dagster dev` until it is stopped.

    Returns:
        Its exit code.

    Raises:
        ConfigurationError: It cannot listen there.
        KeyboardInterrupt: It was stopped.
    """
    check_free(host, port)
    with ready_instance(settings.dagster_home) as instance:
        add_missing_partitions(Lake(settings.warehouse), instance)
    make_folder(settings.run_specs)
    environment = os.environ | {
        "DAGSTER_HOME": str(settings.dagster_home),
        "SHABERI_WAREHOUSE": str(settings.warehouse),
        "SHABERI_RUN_SPECS": str(settings.run_specs),
        "SHABERI_PLUGINS": os.pathsep.join(map(str, settings.plugins)),
    }
    command = [sys.executable, "-m", "dagster", "dev", "-m", "shaberi_dagster.definitions"]
    server = subprocess.Popen([*command, "--host", host, "--port", str(port)], env=environment)  # noqa: S603
    try:
        return server.wait()
    except KeyboardInterrupt:
        # Ctrl-C reached the server as well; `kill` reached only us.
        server.terminate()
        server.wait()
        raise
