"""A cluster for tests: PostgreSQL, Redis, a store, Dagster's daemon and a worker, each a process as on a host."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from shaberi_dagster.defs.cluster.folder import environment_of
from shaberi_dagster.util.ports import free_ports
from tests.commands import Started, started
from tests.object_storage import running_store
from tests.postgres import empty_database


@dataclass
class Cluster:
    """A cluster at work.

    Attributes:
        environment: With which commands work on it.
    """

    environment: dict[str, str]
    _stack: ExitStack
    _worker: Started | None = field(default=None, init=False)

    def start_worker(self) -> None:
        """Start the worker."""
        self._worker = self.start("worker")

    def kill_worker(self) -> None:
        """Kill it with -9, with the process in which its run is."""
        assert self._worker is not None
        _kill(self._worker)

    def start(self, part: str) -> Started:
        """Start a part with the command that does it on a host."""
        process = self._stack.enter_context(started("shaberi", "cluster", part, environment=self.environment))
        self._stack.callback(_kill, process)
        return process


@contextmanager
def running_redis(folder: Path, port: int = 0) -> Iterator[str]:
    """The URL of a server that keeps nothing.

    Args:
        folder: Where it works.
        port: Where it listens; 0 finds a free one.
    """
    port = port or free_ports(1)[0]
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    with subprocess.Popen(["redis-server", *options], cwd=folder, stdout=subprocess.DEVNULL) as server:
        try:
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()


@contextmanager
def running_cluster(folder: Path, postgres: str) -> Iterator[Cluster]:
    """A cluster with one worker.

    Args:
        folder: Where its files are.
        postgres: The server.
    """
    with ExitStack() as stack:
        store = stack.enter_context(running_store(folder / "store"))
        redis = stack.enter_context(running_redis(folder))
        cluster = Cluster(
            store.environment
            | {
                "SHABERI_WAREHOUSE": store.uri,
                "SHABERI_DATABASE_URL": stack.enter_context(empty_database(postgres)),
                "SHABERI_BROKER_URL": redis,
                "SHABERI_MIRRORS": str(folder / "mirrors"),
                "SHABERI_RESULTS": str(folder / "results"),
                "DAGSTER_HOME": str(folder / "dagster"),
            },
            stack,
        )
        cluster.start("daemon")
        cluster.start_worker()
        yield cluster


@contextmanager
def started_cluster() -> Iterator[tuple[Started, Path, dict[str, str]]]:
    """What `shaberi cluster` starts, with one worker and a lake of its own: the command, its folder, its settings."""
    parent = Path(tempfile.mkdtemp(prefix="cluster-"))
    parent.chmod(0o755)  # so that PostgreSQL's own user can enter it, unlike tmp_path's parents
    folder, (port,) = parent / "cluster", free_ports(1)
    settings = environment_of(folder)
    try:
        with started("shaberi", "cluster", "--workers", "1", "--folder", folder, "--port", str(port)) as command:
            command.wait_until_it_says("the cluster is up")
            yield command, folder, settings
            command.send(signal.SIGINT)
            command.finished()
    finally:
        shutil.rmtree(parent)


def _kill(process: Started) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
