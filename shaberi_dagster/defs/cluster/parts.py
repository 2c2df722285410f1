"""The parts of a cluster that are ours, each a process: workers, Dagster's daemon, its UI."""

import os
import sys
from typing import NoReturn

from shaberi_dagster.defs.execution import LOCATION, open_instance
from shaberi_dagster.settings import Settings, check_cluster
from shaberi_dagster.util.errors import ConfigurationError

PARTS = ("worker", "daemon", "web")


def run_part(part: str, host: str, port: int) -> NoReturn:
    """Become a part of the cluster that the environment names.

    Raises:
        ConfigurationError: It names none, or there is no such part.
    """
    if part not in PARTS:
        raise ConfigurationError(f"no part {part!r} of a cluster: there are {', '.join(PARTS)}")
    check_cluster()
    open_instance(Settings.from_environment().dagster_home).dispose()
    command = command_of(part, host, port)
    os.execv(command[0], command)  # noqa: S606


def command_of(part: str, host: str = "127.0.0.1", port: int = 3000, name: str = "worker") -> list[str]:
    """Return the command that runs a part."""
    if part == "worker":
        return [
            *(sys.executable, "-m", "celery", "--app", "shaberi_dagster.defs.worker", "worker"),
            *("--hostname", f"{name}@%h", "--loglevel", "WARNING", "--without-gossip", "--without-mingle"),
        ]
    if part == "daemon":
        return [sys.executable, "-m", "shaberi_dagster.defs.daemon", "run", "-m", LOCATION]
    return [sys.executable, "-m", "shaberi_dagster.defs.server", host, str(port)]
