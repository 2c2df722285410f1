"""`shaberi ui`: Dagster's webserver and daemon on this lake."""

import errno
import os
import socket
import subprocess
import sys

from shaberi_dagster.cli.start import INTERRUPTED
from shaberi_dagster.defs.execution import close_dead_runs, open_instance
from shaberi_dagster.defs.partitions import add_missing_partitions
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.settings import Settings


def serve(settings: Settings, host: str, port: int) -> int:
    """Run `dagster dev` until it is stopped.

    Returns:
        Its exit code; 130 when it was interrupted.

    Raises:
        ConfigurationError: It cannot listen there.
    """
    check_free(host, port)
    with open_instance(settings.dagster_home) as instance:
        close_dead_runs(instance)
        add_missing_partitions(Lake(settings.warehouse), instance)
    settings.run_specs.mkdir(parents=True, exist_ok=True)
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
        return INTERRUPTED


def check_free(host: str, port: int) -> None:
    """Refuse an address that a server cannot listen on.

    Raises:
        ConfigurationError: Another program has the port, or the host is none of this machine.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
            probe.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConfigurationError(f"port {port} of {host} is in use: name another one with --port") from error
        raise ConfigurationError(f"nothing can listen on port {port} of {host}: {error.strerror}") from error
