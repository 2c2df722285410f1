"""Runs that the workers of a cluster make while this process looks on.

A run is put into Dagster's queue, and the daemon gives it to a worker. It takes with it the hashes of the prompts and
plugins that it was planned with; a worker that has others refuses it.
"""

import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import dagster as dg
import orjson
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.definitions.repository_definition import SINGLETON_REPOSITORY_NAME
from dagster._core.origin import DEFAULT_DAGSTER_ENTRY_POINT, JobPythonOrigin, RepositoryPythonOrigin
from dagster._core.remote_origin import ManagedGrpcPythonEnvCodeLocationOrigin, RemoteRepositoryOrigin
from dagster._core.run_coordinator import SubmitRunContext
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from shaberi_dagster import __version__, errors
from shaberi_dagster.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.consensus.registry import STRATEGIES
from shaberi_dagster.defs.execution import QUIET
from shaberi_dagster.errors import ConfigurationError, ShaberiError
from shaberi_dagster.evaluation import CALLING_STAGES, stored_spec
from shaberi_dagster.grading.registry import GRADERS
from shaberi_dagster.passes.registry import PASSES
from shaberi_dagster.plugins import Kind
from shaberi_dagster.prompts_used import HasPrompts, prompts_of
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.workspace import Workspace

CONTENT_TAG = "shaberi/content"
"""The hashes of what a submitted run is to be made with, as JSON."""
_DEFINITIONS = "shaberi_dagster.definitions"
_PARTITION_TAG = "dagster/partition"
_KINDS: tuple[Kind[Any], ...] = (ALL_BENCHMARKS, GRADERS, STRATEGIES, PASSES)
_POLL_SECONDS = 1.0
_HASH_LENGTH = 12
_STATES = {
    dg.DagsterRunStatus.QUEUED: "waits in the queue",
    dg.DagsterRunStatus.STARTING: "waits for a worker",
    dg.DagsterRunStatus.STARTED: "is at work",
    dg.DagsterRunStatus.CANCELING: "is being canceled",
}
_RESUMED = "Launching a new run worker"
"""How the daemon's event begins when a run goes on on another worker."""


def submit(
    job: dg.JobDefinition,
    instance: dg.DagsterInstance,
    *,
    ops: Mapping[str, Any],
    tags: Mapping[str, str],
    partition_key: str,
    asset_selection: Sequence[dg.AssetKey],
) -> str:
    """Put a run into the queue.

    Args:
        job: A job of the definitions.
        instance: Where the queue is.
        ops: The `ops` part of its config.
        tags: More tags for the Dagster run, with that of its content.
        partition_key: Its partition.
        asset_selection: Only these of its assets.

    Returns:
        The Dagster run id.
    """
    # What loading the code location, as the UI does, would tell in some seconds.
    code = RepositoryPythonOrigin(
        executable_path=sys.executable,
        code_pointer=ModuleCodePointer(_DEFINITIONS, "defs"),
        entry_point=DEFAULT_DAGSTER_ENTRY_POINT,
    )
    target = LoadableTargetOrigin(executable_path=sys.executable, module_name=_DEFINITIONS)
    location = ManagedGrpcPythonEnvCodeLocationOrigin(target, _DEFINITIONS)
    run = instance.create_run_for_job(
        job,
        run_config=QUIET | {"ops": ops},
        tags={_PARTITION_TAG: partition_key, **tags},
        asset_selection=set(asset_selection),
        job_code_origin=JobPythonOrigin(job.name, code),
        remote_job_origin=RemoteRepositoryOrigin(location, SINGLETON_REPOSITORY_NAME).get_job_origin(job.name),
    )
    instance.run_coordinator.submit_run(SubmitRunContext(run, workspace=cast("Any", None)))
    return run.run_id


def submitted(partition_key: str, instance: dg.DagsterInstance) -> list[str]:
    """The Dagster runs of a partition that were submitted and have not ended, the oldest first."""
    runs = instance.get_runs(dg.RunsFilter(tags={_PARTITION_TAG: partition_key}, statuses=list(_STATES)))
    return [run.run_id for run in reversed(runs) if CONTENT_TAG in run.tags]


def follow(dagster_run_id: str, instance: dg.DagsterInstance, note: Callable[[str], object]) -> None:
    """Tell what a submitted run does until it has ended. An interrupt ends only the telling.

    Args:
        dagster_run_id: The run.
        instance: Where it is.
        note: Told what its stages tell, and where it is.

    Raises:
        ShaberiError: It has failed, as it would have here, or was canceled.
    """
    cursor, state, failure = None, None, None
    while not (run := _existing(dagster_run_id, instance)).is_finished or state != run.status:
        if run.status != state and run.status in _STATES:
            note(f"Dagster run {run.run_id[:8]} of {run.tags[_PARTITION_TAG]} {_STATES[run.status]}")
        state, has_more = run.status, True
        while has_more:
            page = instance.get_records_for_run(dagster_run_id, cursor)
            cursor, has_more = page.cursor, page.has_more
            for entry in (record.event_log_entry for record in page.records):
                _tell(entry, note)
                failure = failure or _failure(entry)
        if not run.is_finished:
            time.sleep(_POLL_SECONDS)
    if run.status == dg.DagsterRunStatus.CANCELED:
        raise ShaberiError(f"Dagster run {dagster_run_id} was canceled; the same command goes on with it")
    if run.status == dg.DagsterRunStatus.FAILURE:
        raise failure or RuntimeError(f"Dagster run {dagster_run_id} has failed; the UI tells why")


def _existing(dagster_run_id: str, instance: dg.DagsterInstance) -> dg.DagsterRun:
    run = instance.get_run_by_id(dagster_run_id)
    if run is None:
        raise ShaberiError(f"Dagster run {dagster_run_id} was deleted; the same command submits another one")
    return run


def _tell(entry: dg.EventLogEntry, note: Callable[[str], object]) -> None:
    """What the stages of a run tell, and that another worker has it."""
    if not entry.is_dagster_event and int(entry.level) >= logging.INFO:
        note(entry.user_message)
    elif entry.message.startswith(_RESUMED):
        note("its worker is gone; another one goes on")


def _failure(entry: dg.EventLogEntry) -> Exception | None:
    """What a failed step raised, as far as it is known here; None if this is no such event."""
    event = entry.dagster_event
    if event is None or not event.is_step_failure or event.step_failure_data.error is None:
        return None
    error = event.step_failure_data.error
    while error.cause is not None:
        error = error.cause
    message = error.message.partition(": ")[2].strip() or error.message
    kind = getattr(errors, error.cls_name or "", None)
    if kind in {errors.EndpointError, errors.PartitionBusyError}:
        return cast("Exception", kind(message))
    is_ours = "shaberi_dagster." in error.message.partition(": ")[0]
    return ConfigurationError(message) if is_ours else RuntimeError(f"{error.cls_name}: {message}")


def content_of(spec: RunSpec, benchmarks: Sequence[str], workspace: HasPrompts) -> dict[str, str]:
    """What a run is made with beside its spec, as it is on this machine: hashes by names that people know.

    Args:
        spec: The run.
        benchmarks: Some of its benchmarks.
        workspace: Where prompts are.
    """
    used = (one for stage in CALLING_STAGES for one in prompts_of(spec, benchmarks, stage, workspace))
    prompts = {f"prompt {one.name} ({one.purpose})": one.prompt_hash for one in used}
    kinds = {kind.noun: kind for kind in _KINDS}
    files = {one: kinds[one.kind].file(one.name) for one in spec.plugins if one.kind in kinds}
    plugins = {f"{one.kind} {one.name}": (file and file.sha256) or "none" for one, file in files.items()}
    hashes = {"version of shaberi-dagster": __version__, **prompts, **plugins}
    return {name: value[:_HASH_LENGTH] for name, value in sorted(hashes.items())}


def content_tag(spec: RunSpec, benchmarks: Sequence[str], workspace: HasPrompts) -> dict[str, str]:
    """The tag with which a run is submitted; as for `content_of`."""
    return {CONTENT_TAG: orjson.dumps(content_of(spec, benchmarks, workspace)).decode()}


def refuse_other_content(run: dg.DagsterRun, run_id: str, workspace: Workspace) -> None:
    """Let a run that was submitted with other prompts, plugins or another version not be made here.

    Args:
        run: The Dagster run; one that was not submitted is made with whatever is here.
        run_id: One of its partitions.
        workspace: Where its spec and the prompts are.

    Raises:
        ConfigurationError: They differ.
    """
    if CONTENT_TAG not in run.tags:
        return
    spec = stored_spec(run_id, workspace)
    asked: dict[str, str] = orjson.loads(run.tags[CONTENT_TAG])
    benchmarks = {key.path[-1] for key in run.asset_selection or ()}
    here = content_of(spec, [name for name in spec.benchmarks if name in benchmarks], workspace)
    if unlike := sorted(name for name in asked.keys() | here.keys() if asked.get(name) != here.get(name)):
        raise ConfigurationError(
            f"this worker has another {unlike[0]} than the run was submitted with"
            f"{f' ({len(unlike)} differ in all)' if len(unlike) > 1 else ''}: "
            "let all hosts have the same prompts, plugins and version of shaberi-dagster, and submit it again"
        )
