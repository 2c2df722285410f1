"""Running jobs in this process, on the persistent Dagster instance that the UI shows."""

import os
import socket
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.instance.ref import InstanceRef

from shaberi_dagster.defs.interrupts import CANCELED, INTERRUPTS
from shaberi_dagster.defs.leases import LEASE_TAG, is_leased, leased
from shaberi_dagster.defs.storage import SqliteRunStorage, kept_open
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.journal.locks import alone
from shaberi_dagster.lake.files import swap_in
from shaberi_dagster.settings import broker_url, check_writable, database_url
from shaberi_dagster.util.permissions import make_folder

_HEAD = """\
# Written once by shaberi; change it as you like.
telemetry: {enabled: false}
nux: {enabled: false}
# A worker that died frees its pool slots and its run is closed (needs the daemon, as in `shaberi ui`).
"""
_MONITORING = "run_monitoring: {enabled: true, poll_interval_seconds: 10, free_slots_after_run_end_seconds: 10}\n"
_POOLS = """\
# How many runs, of all processes, may call one endpoint at the same time.
concurrency: {pools: {default_limit: 4}}
"""
_DATABASE = """\
storage: {postgres: {postgres_url: {env: SHABERI_DATABASE_URL}}}
"""
# A run may wait a day for a worker; one whose worker is gone goes on on another.
_CLUSTER = """\
run_monitoring:
  enabled: true
  poll_interval_seconds: 5
  start_timeout_seconds: 86400
  max_resume_run_attempts: 20
  free_slots_after_run_end_seconds: 10
run_launcher:
  module: shaberi_dagster.defs.launcher
  class: ClusterRunLauncher
  config: {broker: {env: SHABERI_BROKER_URL}, backend: {env: SHABERI_BROKER_URL}}
# How many runs, of all processes, may call one endpoint at the same time; how many are at work is for the workers.
concurrency: {pools: {default_limit: 4}, runs: {max_concurrent_runs: -1}}
"""
_INSTANCE_CONFIGS = {
    "embedded": _HEAD + _MONITORING + _POOLS,
    "database": _HEAD + _MONITORING + _POOLS + _DATABASE,
    "cluster": _HEAD + _CLUSTER + _DATABASE,
}
"""Contents of `dagster.yaml`; a password is only in the environment."""
_OF_COMMANDS = {
    "compute_logs": {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"}
}
"""Settings for commands: Dagster would copy their output by four more processes, which Ctrl-C ends noisily."""
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
PROCESS_TAG = "shaberi/process"
"""Tag of a command's runs with its process; where there is a database, they have a `LEASE_TAG` instead."""
_UNFINISHED = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def _tell(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201


def open_instance(home: Path, say: Callable[[str], object] = _tell) -> dg.DagsterInstance:
    """The persistent instance, made at first use; of several processes one makes it and the others wait.

    It is in SQLite files below the folder, or in the database of `SHABERI_DATABASE_URL`, unless the folder has a
    `dagster.yaml` of the user's own.

    Args:
        home: The folder.
        say: Told of each SQLite file that a killed process has left half made.

    Raises:
        ConfigurationError: The folder cannot be written, or the database cannot be reached.
    """
    prepare_home(home)
    os.environ["DAGSTER_HOME"] = str(home)
    with at_the_instance(home, "instance"):
        instance = dg.DagsterInstance.from_ref(kept_open(_configured(home)))
        for storage in ("run_storage", "event_log_storage", "schedule_storage"):
            getattr(instance, storage)  # makes its tables
        if isinstance(instance.run_storage, SqliteRunStorage):
            for repair in instance.run_storage.repairs:
                say(repair)
        if database_url():  # else each event would take a connection of its own
            instance.optimize_for_webserver(statement_timeout=0, pool_recycle=3600, max_overflow=20)
        return instance


def _configured(home: Path) -> InstanceRef:
    try:
        return InstanceRef.from_dir(str(home), overrides=_OF_COMMANDS)
    except Exception as error:  # whatever a file of the user's own can make Dagster raise
        reason = " ".join(str(error).split())
        raise ConfigurationError(
            f"{home / 'dagster.yaml'} is no configuration of Dagster: {reason[:300]}; without the file it is made again"
        ) from error


@contextmanager
def ready_instance(home: Path) -> Iterator[dg.DagsterInstance]:
    """Open the instance with the runs of dead processes closed, for a command that starts runs."""
    with open_instance(home) as instance:
        close_dead_runs(instance)
        yield instance


def at_the_instance(home: Path, name: str) -> AbstractContextManager[None]:
    """A context in which no other process that uses the same instance is at the same time.

    Args:
        home: The instance's folder.
        name: Of what is done.
    """
    return alone(home, name, shared="dagster")


def prepare_home(home: Path) -> None:
    """Make the folder and its `dagster.yaml`, unless it has one that was changed.

    Raises:
        ConfigurationError: It cannot be written, or there is a broker and no database.
    """
    check_writable(home, "Dagster keeps its runs there; DAGSTER_HOME names another folder")
    make_folder(home)
    config, path = _INSTANCE_CONFIGS[_kind_of_instance()], home / "dagster.yaml"
    written = path.read_text(encoding="utf-8") if path.exists() else None
    # A beginning of ours is what a killed process had written of it.
    if written != config and (
        written is None or any(known.startswith(written) for known in _INSTANCE_CONFIGS.values())
    ):
        swap_in(path, config.encode())


def _kind_of_instance() -> str:
    if database_url():
        return "cluster" if broker_url() else "database"
    if broker_url():
        raise ConfigurationError("SHABERI_BROKER_URL is of a cluster, which needs SHABERI_DATABASE_URL as well")
    return "embedded"


def execute(
    job: dg.JobDefinition,
    instance: dg.DagsterInstance,
    *,
    ops: Mapping[str, Any],
    tags: Mapping[str, str] | None = None,
    partition_key: str | None = None,
) -> dg.ExecuteInProcessResult:
    """Run a job here and now; what it raises is raised here as well.

    Args:
        job: The job.
        instance: Where Dagster records it.
        ops: The `ops` part of its config.
        tags: More tags for the Dagster run.
        partition_key: Its partition.

    Raises:
        KeyboardInterrupt: Interrupted; Dagster has the run as canceled.
    """
    with recorded_run(instance) as (dagster_run_id, own):
        return job.execute_in_process(
            run_config=QUIET | {"ops": ops},
            instance=instance,
            partition_key=partition_key,
            tags={**own, **(tags or {})},
            run_id=dagster_run_id,
        )


@contextmanager
def recorded_run(instance: dg.DagsterInstance) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Within this context a Dagster run is made here: yields its id, and tags by which its process is known.

    Raises:
        KeyboardInterrupt: Interrupted; Dagster has the run as canceled.
    """
    dagster_run_id = str(uuid.uuid4())
    try:
        with _at_work(dagster_run_id) as own:
            yield dagster_run_id, own
    except INTERRUPTS:
        # Outside of asset bodies: before the first step, or between two events.
        run = instance.get_run_by_id(dagster_run_id)
        if run and run.status != dg.DagsterRunStatus.CANCELED:
            instance.report_run_canceled(run, CANCELED)
        raise KeyboardInterrupt from None


@contextmanager
def _at_work(dagster_run_id: str) -> Iterator[Mapping[str, str]]:
    """Within this context a run of this process can be told from that of a dead one, by the tags that this yields."""
    process = process_name(os.getpid())
    if url := database_url():
        with leased(dagster_run_id, url):
            yield {LEASE_TAG: process}
    else:
        yield {PROCESS_TAG: process}


def process_name(pid: int) -> str:
    """A living process of this host, told apart from a later one that gets the same number; "" when it is dead."""
    started = ""
    try:
        if Path("/proc/self/stat").exists():
            # After the name, which may have spaces: the state (a zombie is dead), and further on the start time.
            state, *fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            if state == "Z":
                return ""
            started = fields[18]
        else:
            os.kill(pid, 0)
    except (FileNotFoundError, ProcessLookupError):
        return ""
    except PermissionError:
        pass  # somebody else's, so it lives
    return f"{socket.gethostname()}:{pid}:{started}"


def close_dead_runs(instance: dg.DagsterInstance) -> list[str]:
    """Close the runs of command-line processes that no longer live, of this host or, with a database, of any.

    A process killed with -9 cannot say that it ended; its run would look started for ever and keep its pool slots.

    Returns:
        The closed Dagster run ids.
    """
    closed = []
    for run in instance.get_runs(dg.RunsFilter(statuses=_UNFINISHED)):
        if _is_dead(run):
            instance.report_run_canceled(run, "its process ended without a word; finished calls are in the journal")
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
            closed.append(run.run_id)
    return closed


def _is_dead(run: dg.DagsterRun) -> bool:
    """Return whether the process of a run is known to live no longer."""
    if LEASE_TAG in run.tags:
        url = database_url()
        return url is not None and not is_leased(run.run_id, url)
    process = run.tags.get(PROCESS_TAG, "::")
    host, pid, _ = process.split(":")
    return host == socket.gethostname() and process != process_name(int(pid))
