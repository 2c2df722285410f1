"""A whole cluster on this machine, until it is stopped."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from shaberi_dagster.defs.cluster.folder import alone_in, environment_of
from shaberi_dagster.defs.cluster.parts import command_of
from shaberi_dagster.defs.cluster.servers import servers_of, silent_server
from shaberi_dagster.defs.cluster.supervisor import Programs, Supervisor, command_line, supervised
from shaberi_dagster.settings import warehouse_folder
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.guard import TOKEN_VARIABLE, Access
from shaberi_dagster.util.permissions import private_files
from shaberi_dagster.util.ports import check_free

_START_SECONDS = 60.0
_LOOK_SECONDS = 0.5


def run_all(folder: Path, workers: int, host: str, port: int, tell: Callable[[str], object]) -> None:
    """Run a whole cluster until Ctrl-C; a part that dies is started again.

    Args:
        folder: Where its files are; the same one continues the same cluster.
        workers: How many.
        host: Address on which the UI listens; beyond loopback it needs a login.
        port: Its port.
        tell: Told when it is up, when a part is started again, and when it stops.

    Raises:
        ConfigurationError: Something that it needs is not installed, or cannot listen.
        ShaberiError: A part ends soon after each start.
    """
    access = Access.from_environment(host, port)
    os.environ[TOKEN_VARIABLE] = access.token  # the same when the web server is started again
    with running(folder, workers, host, port) as supervisor:
        tell(f"the cluster is up, its UI on {access.url()}; in other shells:\n\n  . {folder / 'environment'}\n")
        with suppress(KeyboardInterrupt):
            while True:
                for name in supervisor.restarted_parts():
                    tell(f"{name} has ended and is started again")
                time.sleep(_LOOK_SECONDS)
        tell("stopping; runs at work go on when the cluster is started again")


@contextmanager
def running(folder: Path, workers: int, host: str = "127.0.0.1", port: int = 0) -> Iterator[Supervisor]:
    """Run a cluster, whose processes all end with the context.

    Args:
        folder: Where its files are.
        workers: How many.
        host: Address on which the UI listens.
        port: Its port; 0 for a cluster without UI.

    Yields:
        The supervisor of its parts `postgres`, `redis`, `store`, `daemon`, `web`, `worker-1`, ….

    Raises:
        ConfigurationError: Something that it needs is not installed, or does not start; another cluster is in the
            folder.
    """
    settings = environment_of(folder)
    with private_files(warehouse_folder(settings)), alone_in(folder):
        if port:
            check_free(host, port)
        servers = servers_of(folder, settings)
        os.environ.update(settings)  # parts inherit it: keys and passwords are in no file of the supervisor
        with supervised(folder, [servers, _parts(workers, host, port)]) as supervisor:
            until = time.monotonic() + _START_SECONDS
            while server := silent_server(settings):
                restarted = supervisor.restarted_parts()
                if restarted or time.monotonic() > until:
                    name = restarted[0] if restarted else server
                    raise ConfigurationError(f"{name} does not start: {supervisor.last_line(name)}")
                time.sleep(0.1)
            yield supervisor


def _parts(workers: int, host: str, port: int) -> Programs:
    """Return the daemon, the UI and the workers, each of which waits until the servers answer."""
    names = ["daemon", *(["web"] if port else []), *(f"worker-{number}" for number in range(1, workers + 1))]
    parts = {}
    for name in names:
        part, _, number = name.partition("-")
        command = [sys.executable, "-m", "shaberi_dagster.defs.cluster.waiting", *command_of(part, host, port, name)]
        # A killed worker is what the cluster is made for: its runs go on when there is another one.
        parts[name] = {"command": command_line(command), "stopsignal": "KILL" if number else "TERM"}
    return parts
