"""Running a run's assets in this process, on the persistent Dagster instance that the UI shows."""

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

import dagster as dg

from shaberi_dagster.defs.jobs import EVALUATE
from shaberi_dagster.outcome import STAGES

_INSTANCE_CONFIG = """\
# Written once by shaberi; change it as you like.
telemetry: {enabled: false}
nux: {enabled: false}
# A worker that died frees its pool slots and its run is closed (needs the daemon, as in `shaberi ui`).
run_monitoring: {enabled: true, poll_interval_seconds: 10, free_slots_after_run_end_seconds: 10}
"""
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
PROCESS_TAG = "shaberi/process"


def open_instance(home: Path) -> dg.DagsterInstance:
    """The persistent instance, made at first use."""
    prepare_home(home)
    os.environ["DAGSTER_HOME"] = str(home)
    return dg.DagsterInstance.get()


def prepare_home(home: Path) -> None:
    """Make the folder and its `dagster.yaml` unless they are there."""
    home.mkdir(parents=True, exist_ok=True)
    if not (home / "dagster.yaml").exists():
        (home / "dagster.yaml").write_text(_INSTANCE_CONFIG, encoding="utf-8")


def run_in_process(
    run_id: str,
    benchmarks: Sequence[str],
    instance: dg.DagsterInstance,
    *,
    stages: Sequence[str] = STAGES,
    judges: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
    raise_on_error: bool = False,
) -> dg.ExecuteInProcessResult:
    """Materialize stages of one registered run here and now.

    Args:
        run_id: Its partition key.
        benchmarks: Which benchmarks.
        instance: Where Dagster records it.
        stages: Which stages, any order.
        judges: Only these of the run's judges; none named means all.
        tags: More tags for the Dagster run.
        raise_on_error: Raise the asset's own exception instead of returning a failed result.
    """
    from shaberi_dagster.definitions import defs  # noqa: PLC0415  (the definitions contain the jobs that call this)

    config: dict[str, object] = dict(_QUIET)
    if "judgements" in stages:
        config["ops"] = {"judgements": {"config": {"judges": list(judges)}}}
    return defs.resolve_job_def(EVALUATE).execute_in_process(
        run_config=config,
        instance=instance,
        partition_key=run_id,
        asset_selection=[dg.AssetKey([stage, name]) for stage in stages for name in benchmarks],
        tags={PROCESS_TAG: process_name(), **(tags or {})},
        raise_on_error=raise_on_error,
    )


def process_name() -> str:
    """This process, so that a later one can tell whether it still lives."""
    return f"{socket.gethostname()}:{os.getpid()}"


def close_dead_runs(instance: dg.DagsterInstance) -> list[str]:
    """Close the runs of command-line processes of this host that no longer live.

    A process killed with -9 cannot say that it ended; its run would look started for ever and keep its pool slots.

    Returns:
        The closed Dagster run ids.
    """
    host = socket.gethostname()
    closed = []
    started = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING])
    for run in instance.get_runs(started):
        name, _, pid = run.tags.get(PROCESS_TAG, "").rpartition(":")
        if name == host and pid.isdigit() and not Path(f"/proc/{pid}").exists():
            instance.report_run_canceled(run, "its process ended without a word; finished calls are in the journal")
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
            closed.append(run.run_id)
    return closed
