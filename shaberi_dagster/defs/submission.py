"""Runs that the workers of a cluster make while this process looks on.

A run is put into Dagster's queue, and the daemon gives it to a worker.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import dagster as dg
import orjson
from dagster_postgres.utils import DagsterPostgresException
from sqlalchemy.exc import DBAPIError
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from shaberi_dagster.defs.content import CONTENT_TAG, content_of
from shaberi_dagster.defs.execution import QUIET, key_of
from shaberi_dagster.defs.jobs import evaluating_job
from shaberi_dagster.defs.launcher import submit_run
from shaberi_dagster.defs.partitions import add_partition
from shaberi_dagster.llm.endpoints import key_variables
from shaberi_dagster.llm.keys import how_to_bind
from shaberi_dagster.llm.request import Endpoint
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.stages.evaluation import endpoints_to_call
from shaberi_dagster.runs.stages.judgements import Judgements
from shaberi_dagster.runs.stages.metrics import set_status
from shaberi_dagster.runs.stored import store_run, stored_spec
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import broker_url
from shaberi_dagster.util import errors
from shaberi_dagster.util.errors import ConfigurationError, EndpointError, ShaberiError

_OURS = errors.__name__.partition(".")[0] + "."
_PARTITION_TAG = "dagster/partition"
_POLL_SECONDS = 1.0
_REPLY_SECONDS = 2.0
_PATIENCE_SECONDS = 600.0
_DATABASE_ERRORS = (DBAPIError, DagsterPostgresException)
_STATES = {
    dg.DagsterRunStatus.QUEUED: "waits in the queue",
    dg.DagsterRunStatus.STARTING: "waits for a worker",
    dg.DagsterRunStatus.STARTED: "is at work",
    dg.DagsterRunStatus.CANCELING: "is being canceled",
}
_RESUMED = "Launching a new run worker"
"""Beginning of the daemon's event when a run continues on another worker."""
_OF_DAGSTER = " did not yield or return expected outputs "
"""Dagster's own sentence about a metric that is compared with no baseline."""
# Dagster warns of each try to connect; who looks on hears it once.
logging.getLogger().addFilter(lambda record: not str(record.msg).startswith("Retrying failed database connection"))


class ByWorkers:
    """In the place of `run_in_process`: the workers of a cluster make the runs, and this process looks on.

    Args:
        workspace: Where the lake is.
        instance: Dagster's, where the queue is.
        tags: More tags for the Dagster runs.
    """

    def __init__(self, workspace: Workspace, instance: dg.DagsterInstance, **tags: str) -> None:
        self._workspace, self._instance, self._tags = workspace, instance, tags
        self._at_work: dict[str, list[str]] = {}
        self._checked: set[tuple[str, str]] = set()

    def begin(self, spec: RunSpec, ops: Mapping[str, Any]) -> None:
        """Give a run to the workers; one that they have already is looked on at.

        Raises:
            ConfigurationError: A worker would refuse it, and nothing was queued.
        """
        self._at_work[spec.run_id] = submitted(key_of(spec.run_id), self._instance)
        if not self._at_work[spec.run_id]:
            judging = ops.get(Judgements.name, {"config": {}})["config"]
            if not judging.get("reprocess"):
                judges = judging.get("judges", ())
                self._check_keys(endpoints_to_call(spec, self._workspace, list(ops), judges))
            store_run(spec, self._workspace)
            add_partition(spec, self._instance)
            submitted_run = submit(spec.run_id, ops, self._workspace, self._instance, **self._tags)
            self._at_work[spec.run_id] = [submitted_run]

    def _check_keys(self, endpoints: Sequence[Endpoint]) -> None:
        """Refuse what the workers' own environments would refuse; what this command names binds nothing there."""
        needed = {
            (variable, endpoint.base_url): is_needed
            for endpoint in endpoints
            for variable, is_needed in key_variables(endpoint).items()
        }
        pairs = [pair for pair in needed if pair not in self._checked]
        if not pairs:
            return
        self._checked.update(pairs)
        try:
            answers = ask_workers("key_states", pairs=pairs)
        except Exception:  # noqa: BLE001  (each transport has its own errors)
            answers = {}
        states = {name: answer for name, answer in answers.items() if isinstance(answer, list)}  # else it cannot tell
        if not states:
            self._workspace.reporter.note("no worker could be asked whether it has the keys")
        for name, answer in sorted(states.items()):
            for (variable, base_url), state in zip(pairs, answer, strict=True):
                if state == "not bound":
                    raise ConfigurationError(f"worker {name} refuses: {how_to_bind(variable, base_url, there=True)}")
                if state == "not set" and needed[variable, base_url]:
                    raise ConfigurationError(
                        f"worker {name} refuses: {variable} is not set there: start it with the API key for {base_url}"
                    )

    def __call__(self, run_id: str, ops: Mapping[str, Any]) -> None:
        """Look on until the stages of a run are made; they are submitted unless the run is at work.

        Raises:
            ShaberiError: As for `follow`, or the database is gone.
            KeyboardInterrupt: No one looks on any more; the run continues.
        """
        workspace, instance, reporter = self._workspace, self._instance, self._workspace.reporter
        followed = self._at_work.pop(run_id, [])
        if not followed:
            followed = [submit(run_id, ops, workspace, instance, **self._tags)]
        try:
            for dagster_run_id in followed:
                follow(dagster_run_id, instance, reporter.note)
        except KeyboardInterrupt:
            going_on = [dagster_run_id[:8] for run in (followed, *self._at_work.values()) for dagster_run_id in run]
            reporter.note(
                f"the cluster continues what was submitted (Dagster run {', '.join(going_on)}); "
                "the same command looks on again, Terminate in Dagster's UI cancels it"
            )
            raise
        except _DATABASE_ERRORS as error:
            raise ShaberiError(
                "the database of the cluster does not come back; when it does, the same command looks on again"
            ) from error
        except ConfigurationError as error:
            workspace.lake.refresh()
            if not isinstance(error, EndpointError):
                set_status(stored_spec(run_id, workspace), workspace, error=str(error))
            raise
        finally:
            workspace.lake.refresh()
            workspace.changed(run_id)


def ask_workers(command: str, **arguments: Any) -> dict[str, Any]:
    """Return what each worker that answers in time says to a control command of Celery, by its name.

    Args:
        command: Such as `ping`.
        arguments: Of the command.

    Raises:
        Exception: The broker cannot be reached; each transport has its own errors.
    """
    from celery import Celery  # type: ignore[import-untyped]

    app = Celery(broker=broker_url(), backend=broker_url())
    with app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=1, timeout=_REPLY_SECONDS)
        answers = app.control.broadcast(
            command, arguments=arguments, reply=True, timeout=_REPLY_SECONDS, connection=connection
        )
    return {name: answer for answered in answers for name, answer in answered.items()}


def submit(run_id: str, ops: Mapping[str, Any], workspace: Workspace, instance: dg.DagsterInstance, **tags: str) -> str:
    """Put stages of a registered run into the queue, with the hashes of what they are to be made with.

    Args:
        run_id: The run.
        ops: Which stages, and how: see `stage_config`.
        workspace: Where its spec and the prompts are.
        instance: Where the queue is.
        tags: More tags for the Dagster run.

    Returns:
        The Dagster run id.
    """
    benchmarks = next(iter(ops.values()))["config"]["benchmarks"]
    content = content_of(stored_spec(run_id, workspace), benchmarks, workspace)
    return submit_run(
        evaluating_job(),
        instance,
        run_config=QUIET | {"ops": ops},
        tags={_PARTITION_TAG: key_of(run_id), **tags, CONTENT_TAG: orjson.dumps(content).decode()},
        asset_selection={dg.AssetKey(stage) for stage in ops},
    )


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
    looking = _patience(note)
    while True:
        run, entries, cursor = looking(_look, dagster_run_id, cursor, instance)
        if run.status != state and run.status in _STATES:
            note(f"Dagster run {run.run_id[:8]} of {run.tags[_PARTITION_TAG]} {_STATES[run.status]}")
        state = run.status
        for entry in entries:
            _tell(entry, note)
            failure = failure or _failure(entry)
        if run.is_finished:
            break
        time.sleep(_POLL_SECONDS)
    if run.status == dg.DagsterRunStatus.CANCELED:
        raise ShaberiError(f"Dagster run {dagster_run_id} was canceled; the same command continues it")
    if run.status == dg.DagsterRunStatus.FAILURE:
        raise failure or RuntimeError(f"Dagster run {dagster_run_id} has failed; the UI tells why")


def _patience(note: Callable[[str], object]) -> Retrying:
    """Calls what reads the database again, for some minutes, while it is gone."""

    def tell(state: RetryCallState) -> None:
        if state.attempt_number == 1:
            note("the database of the cluster is gone; the watch continues when it is back")

    return Retrying(
        retry=retry_if_exception_type(_DATABASE_ERRORS),
        wait=wait_fixed(_POLL_SECONDS),
        stop=stop_after_delay(_PATIENCE_SECONDS),
        before_sleep=tell,
        reraise=True,
    )


def _look(
    dagster_run_id: str, cursor: str | None, instance: dg.DagsterInstance
) -> tuple[dg.DagsterRun, list[dg.EventLogEntry], str]:
    """A run as it is, what it has told since the cursor, and the next cursor."""
    run, entries, has_more = instance.get_run_by_id(dagster_run_id), [], True
    if run is None:
        raise ShaberiError(f"Dagster run {dagster_run_id} was deleted; the same command submits another one")
    while has_more:
        page = instance.get_records_for_run(dagster_run_id, cursor)
        entries += [record.event_log_entry for record in page.records]
        cursor, has_more = page.cursor, page.has_more
    return run, entries, str(cursor)


def _tell(entry: dg.EventLogEntry, note: Callable[[str], object]) -> None:
    """Report the progress of a run's stages, and that another worker has it."""
    if not entry.is_dagster_event and int(entry.level) >= logging.INFO:
        if _OF_DAGSTER not in entry.user_message:
            note(entry.user_message)
    elif entry.message.startswith(_RESUMED):
        note("its worker is gone; another one continues")


def _failure(entry: dg.EventLogEntry) -> Exception | None:
    """Return the error of a failed step, as far as it is known here; None if this is no such event."""
    event = entry.dagster_event
    if event is None or not event.is_step_failure or event.step_failure_data.error is None:
        return None
    error = event.step_failure_data.error
    while not (is_ours := _OURS in error.message.partition(": ")[0]) and error.cause is not None:
        error = error.cause
    message = error.message.partition(": ")[2].strip() or error.message
    kind = getattr(errors, error.cls_name or "", None)
    if kind in {errors.EndpointError, errors.PartitionBusyError}:
        return cast("Exception", kind(message))
    return ConfigurationError(message) if is_ours else RuntimeError(f"{error.cls_name}: {message}")
