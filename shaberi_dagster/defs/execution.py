"""Running jobs in this process, on the persistent Dagster instance that the UI shows."""

import fcntl
import os
import socket
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from shaberi_dagster.defs.interrupts import CANCELED, INTERRUPTS
from shaberi_dagster.settings import check_writable

_INSTANCE_CONFIG = """\
# Written once by shaberi; change it as you like.
telemetry: {enabled: false}
nux: {enabled: false}
# A worker that died frees its pool slots and its run is closed (needs the daemon, as in `shaberi ui`).
run_monitoring: {enabled: true, poll_interval_seconds: 10, free_slots_after_run_end_seconds: 10}
# How many runs, of all processes, may call one endpoint at the same time.
concurrency: {pools: {default_limit: 4}}
"""
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
PROCESS_TAG = "shaberi/process"
_UNFINISHED = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def open_instance(home: Path) -> dg.DagsterInstance:
    """The persistent instance, made at first use; of several processes one makes it and the others wait."""
    prepare_home(home)
    os.environ["DAGSTER_HOME"] = str(home)
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        instance = dg.DagsterInstance.get()
        for storage in ("run_storage", "event_log_storage", "schedule_storage"):
            getattr(instance, storage)  # makes its database
        return instance


def prepare_home(home: Path) -> None:
    """Make the folder and its `dagster.yaml` unless they are there.

    Raises:
        ConfigurationError: It cannot be written.
    """
    check_writable(home, "Dagster keeps its runs there; DAGSTER_HOME names another folder")
    home.mkdir(parents=True, exist_ok=True)
    if not (home / "dagster.yaml").exists():
        (home / "dagster.yaml").write_text(_INSTANCE_CONFIG, encoding="utf-8")


def execute(
    job: dg.JobDefinition,
    instance: dg.DagsterInstance,
    *,
    ops: Mapping[str, Any],
    tags: Mapping[str, str] | None = None,
    partition_key: str | None = None,
    asset_selection: Sequence[dg.AssetKey] | None = None,
) -> dg.ExecuteInProcessResult:
    """Run a job here and now; what an asset raises is raised here as well.

    Args:
        job: The job.
        instance: Where Dagster records it.
        ops: The `ops` part of its config.
        tags: More tags for the Dagster run.
        partition_key: Its partition.
        asset_selection: Only these of its assets.

    Raises:
        KeyboardInterrupt: Interrupted; Dagster has the run as canceled.
    """
    dagster_run_id = str(uuid.uuid4())
    try:
        return job.execute_in_process(
            run_config=_QUIET | {"ops": ops},
            instance=instance,
            partition_key=partition_key,
            asset_selection=asset_selection,
            tags={PROCESS_TAG: process_name(os.getpid()), **(tags or {})},
            run_id=dagster_run_id,
        )
    except INTERRUPTS:
        # Outside of asset bodies: before the first step, or between two events.
        run = instance.get_run_by_id(dagster_run_id)
        if run and run.status != dg.DagsterRunStatus.CANCELED:
            instance.report_run_canceled(run, CANCELED)
        raise KeyboardInterrupt from None


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
    """Close the runs of command-line processes of this host that no longer live.

    A process killed with -9 cannot say that it ended; its run would look started for ever and keep its pool slots.

    Returns:
        The closed Dagster run ids.
    """
    closed = []
    for run in instance.get_runs(dg.RunsFilter(statuses=_UNFINISHED)):
        process = run.tags.get(PROCESS_TAG, "::")
        host, pid, _ = process.split(":")
        if host == socket.gethostname() and process != process_name(int(pid)):
            instance.report_run_canceled(run, "its process ended without a word; finished calls are in the journal")
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
            closed.append(run.run_id)
    return closed
