"""Dagster's UI and daemon on this lake."""

import os
from collections.abc import Callable

from shaberi_dagster.defs.execution import ready_instance
from shaberi_dagster.defs.partitions import add_missing_partitions
from shaberi_dagster.defs.webserver import serve_with_daemon
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.guard import Access
from shaberi_dagster.util.permissions import make_folder
from shaberi_dagster.util.ports import listen


def serve(settings: Settings, host: str, port: int, tell: Callable[[str], object]) -> None:
    """Serve the UI and run the daemon until they are stopped.

    Args:
        settings: Where the lake and Dagster's instance are.
        host: Address on which the UI listens; beyond loopback it needs a login.
        port: Its port.
        tell: Told where the UI is.

    Raises:
        ConfigurationError: It cannot listen there.
        KeyboardInterrupt: It was stopped.
    """
    access = Access.from_environment(host, port)
    with listen(host, port) as listening:
        with ready_instance(settings.dagster_home) as instance:
            add_missing_partitions(Lake(settings.warehouse), instance)
        make_folder(settings.run_specs)
        os.environ |= {
            "DAGSTER_HOME": str(settings.dagster_home),
            "SHABERI_WAREHOUSE": str(settings.warehouse),
            "SHABERI_RUN_SPECS": str(settings.run_specs),
            "SHABERI_PLUGINS": os.pathsep.join(map(str, settings.plugins)),
        }
        serve_with_daemon(listening, access, tell)
