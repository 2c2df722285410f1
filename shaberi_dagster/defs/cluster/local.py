"""A whole cluster on this machine, until it is stopped."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from shaberi_dagster.defs.cluster.folder import alone_in, environment_of
from shaberi_dagster.defs.cluster.parts import command_of
from shaberi_dagster.defs.cluster.processes import ClusterProcess, Reaper
from shaberi_dagster.defs.cluster.servers import servers_of
from shaberi_dagster.defs.execution import open_instance
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.settings import warehouse_folder
from shaberi_dagster.util.guard import TOKEN_VARIABLE, Access
from shaberi_dagster.util.permissions import private_files
from shaberi_dagster.util.ports import check_free

_START_SECONDS = 60.0
_LOOK_SECONDS = 0.5


def run_all(folder: Path, workers: int, host: str, port: int, tell: Callable[[str], object]) -> None:
    """Run a whole cluster until Ctrl-C; a part that dies is started anew.

    Args:
        folder: Where its files are; the same one continues the same cluster.
        workers: How many.
        host: Address on which the UI listens; beyond loopback it needs a login.
        port: Its port.
        tell: Told when it is up, when a part is started anew, and when it stops.

    Raises:
        ConfigurationError: Something that it needs is not installed, or cannot listen.
        ShaberiError: A part ends soon after each start.
    """
    access = Access.from_environment(host, port)
    os.environ[TOKEN_VARIABLE] = access.token  # the same when the web server is started again
    with running(folder, workers, host, port) as parts:
        tell(f"the cluster is up, its UI on {access.url()}; in other shells:\n\n  . {folder / 'environment'}\n")
        with suppress(KeyboardInterrupt):
            while True:
                look_after(parts, tell)
                time.sleep(_LOOK_SECONDS)
        tell("stopping; runs at work go on when the cluster is started again")


@contextmanager
def running(folder: Path, workers: int, host: str = "127.0.0.1", port: int = 0) -> Iterator[dict[str, ClusterProcess]]:
    """A cluster at work; with the context all its processes end.

    Args:
        folder: Where its files are.
        workers: How many.
        host: Address on which the UI listens.
        port: Its port; 0 for a cluster without UI.

    Yields:
        Its parts by name: `postgres`, `redis`, `store`, `daemon`, `web`, `worker-1`, ….

    Raises:
        ConfigurationError: Something that it needs is not installed, or does not start; another cluster is in the
            folder.
    """
    settings = environment_of(folder)
    with private_files(warehouse_folder(settings)), ExitStack() as stack:
        lock = stack.enter_context(alone_in(folder))
        if port:
            check_free(host, port)
        reaper = stack.enter_context(Reaper(lock))
        parts: dict[str, ClusterProcess] = {}

        def start(part: ClusterProcess) -> None:
            parts[part.name] = part
            part.reaper = reaper
            stack.callback(part.end)
            part.start()

        for server in servers_of(folder, settings):
            start(server)
            _wait_for(server)
        os.environ.update(settings)
        open_instance(Path(settings["DAGSTER_HOME"])).dispose()  # makes Dagster's tables before several processes would
        names = ["daemon", *(["web"] if port else []), *(f"worker-{number}" for number in range(1, workers + 1))]
        for name in names:
            command = command_of(name.partition("-")[0], host, port, name)
            # A killed worker is what the cluster is made for: its runs go on when there is another one.
            stop = signal.SIGKILL if name.startswith("worker") else signal.SIGTERM
            start(ClusterProcess(name, command, dict(os.environ), folder / f"{name}.log", stop=stop))
        yield parts


def look_after(parts: Mapping[str, ClusterProcess], tell: Callable[[str], object]) -> None:
    """Start parts anew that have died; as long as a server does not answer, nothing that comes after it.

    Args:
        parts: In the order in which they start.
        tell: Told what is started anew.

    Raises:
        ShaberiError: A part ends soon after each start.
    """
    for part in parts.values():
        part.look_after(tell)
        if part.answers and not part.is_ready():
            break


def _wait_for(server: ClusterProcess) -> None:
    until = time.monotonic() + _START_SECONDS
    while not server.is_ready():
        if server.has_ended() or time.monotonic() > until:
            raise ConfigurationError(f"{server.name} does not start: {server.last_line()}")
        time.sleep(0.1)
