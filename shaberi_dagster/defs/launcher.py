"""Runs on the workers of a cluster: one whole run in one process of one worker.

`dagster.yaml` names the launcher, which gives runs to Celery. Workers are started with
`celery --app shaberi_dagster.defs.worker worker`, as `shaberi cluster worker` does.
"""

import logging
import sys
from itertools import chain
from typing import Any, cast

import dagster as dg
from celery import Task  # type: ignore[import-untyped]
from celery.exceptions import OperationalError  # type: ignore[import-untyped]
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.launcher import CheckRunHealthResult, LaunchRunContext, ResumeRunContext, WorkerStatus
from dagster._core.origin import DEFAULT_DAGSTER_ENTRY_POINT, JobPythonOrigin, RepositoryPythonOrigin
from dagster._core.remote_origin import ManagedGrpcPythonEnvCodeLocationOrigin, RemoteRepositoryOrigin
from dagster._core.run_coordinator import SubmitRunContext
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._grpc.types import ResumeRunArgs
from dagster._serdes import pack_value, unpack_value
from dagster._utils.interrupts import capture_interrupts
from dagster_celery.config import TASK_RESUME_JOB_NAME
from dagster_celery.launcher import CeleryRunLauncher
from dagster_celery.tags import DAGSTER_CELERY_TASK_ID_TAG
from dagster_celery.tasks import create_resume_job_task
from dagster_postgres.utils import DagsterPostgresException
from redis.exceptions import RedisError
from sqlalchemy.exc import DBAPIError
from tenacity import before_sleep_log, retry, retry_if_exception_type, stop_after_delay, wait_fixed

from shaberi_dagster.defs.execution import LOCATION, LOCK_TAG
from shaberi_dagster.defs.leases import is_leased, leased_for_life
from shaberi_dagster.settings import database_url
from shaberi_dagster.util.errors import ConfigurationError

# A run that a worker took, and was killed before Dagster knew that it began, is given to another one after so long. So
# is each longer one, once, which the lease of the first one then refuses.
_REDELIVERED_SECONDS = 60
CELERY_SETTINGS: dict[str, Any] = {
    "broker_transport_options": {"visibility_timeout": _REDELIVERED_SECONDS},
    "broker_connection_retry_on_startup": True,
    "broker_connection_max_retries": None,  # for ever
    "worker_disable_prefetch": True,  # a run waits where the next free worker finds it, not behind another run
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    "worker_concurrency": 1,
    "worker_max_tasks_per_child": 1,  # memory, caches and the call engine end with the run
    "worker_send_task_events": False,
}
"""Settings that launcher and workers agree on."""
_PATIENCE_SECONDS = 600.0
_REPOSITORY = "__repository__"
_logger = logging.getLogger(__name__)


def worker_database() -> str:
    """Return the database of the cluster."""
    url = database_url()
    if url is None:
        raise ConfigurationError("a worker of a cluster needs SHABERI_DATABASE_URL")
    return url


class LeasedTask(Task):  # type: ignore[misc]
    """A run that is worked on under its lease; one that another worker has is left to that one."""

    def __call__(self, **arguments: Any) -> int:
        """Work on the run.

        Args:
            arguments: The only one says which run, and where its code is.

        Returns:
            0, or 1 when the run failed.
        """
        (packed,) = arguments.values()
        asked: Any = unpack_value(packed)
        # An interrupt between two steps would else be lost, or kill us.
        with capture_interrupts(), leased_for_life(asked.run_id, worker_database()) as is_ours:
            return int(super().__call__(**arguments)) if is_ours else 0


def submit_run(job: dg.JobDefinition, instance: dg.DagsterInstance, **asked: Any) -> str:
    """Put a run into the queue, from where the daemon gives it to a worker.

    Args:
        job: The job.
        instance: Where the queue is.
        asked: Config, tags and assets of the run.

    Returns:
        The Dagster run id.
    """
    # What loading the code location, as the UI does, would tell in some seconds.
    code = RepositoryPythonOrigin(
        executable_path=sys.executable,
        code_pointer=ModuleCodePointer(LOCATION, "defs"),
        entry_point=DEFAULT_DAGSTER_ENTRY_POINT,
    )
    target = LoadableTargetOrigin(executable_path=sys.executable, module_name=LOCATION)
    location = ManagedGrpcPythonEnvCodeLocationOrigin(target, LOCATION)
    run = instance.create_run_for_job(
        job,
        job_code_origin=JobPythonOrigin(job.name, code),
        remote_job_origin=RemoteRepositoryOrigin(location, _REPOSITORY).get_job_origin(job.name),
        **asked,
    )
    instance.run_coordinator.submit_run(SubmitRunContext(run, workspace=cast("Any", None)))
    return run.run_id


class ClusterRunLauncher(CeleryRunLauncher):
    """Dagster's launcher for Celery, to which a run is alive as long as its process has the lease of it.

    Celery itself does not notice when a worker is killed, or its host is gone: its task looks started for ever.
    """

    def __init__(self, config_source: dict[str, Any] | None = None, **settings: Any) -> None:
        super().__init__(config_source=CELERY_SETTINGS | (config_source or {}), **settings)

    def resume_run(self, context: ResumeRunContext) -> None:
        """Let another worker go on with a run; Celery's launcher names the task's argument wrongly (0.29)."""
        origin = context.dagster_run.job_code_origin
        assert origin is not None  # noqa: S101  (it was launched before)
        asked = ResumeRunArgs(
            origin, context.dagster_run.run_id, self._instance.get_ref(), set_exit_code_on_failure=True
        )
        self._launch_celery_task_run(
            run=context.dagster_run,
            task_signature=create_resume_job_task(self.celery).si(resume_job_args_packed=pack_value(asked)),
            routing_key=TASK_RESUME_JOB_NAME,
        )

    # A run that is launched once more than needed is refused by its lease, or has ended.
    @retry(
        retry=retry_if_exception_type((DBAPIError, DagsterPostgresException, OperationalError, RedisError)),
        wait=wait_fixed(1),
        stop=stop_after_delay(_PATIENCE_SECONDS),
        before_sleep=before_sleep_log(_logger, logging.WARNING),
        reraise=True,
    )
    def _launch_celery_task_run(self, **asked: Any) -> None:
        """Wait for a Redis and a database that are being started again; Dagster would call the run a failure."""
        super()._launch_celery_task_run(**asked)

    def launch_lost(self) -> None:
        """Launch what a daemon was about to launch when it was killed: Dagster has it as launched."""
        for run in self._instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTING])):
            task, url = run.tags.get(DAGSTER_CELERY_TASK_ID_TAG), database_url()
            is_known = url is None or LOCK_TAG in run.tags or is_leased(run.run_id, url)
            if not is_known and not (task and self._is_waiting(task)):
                self.launch_run(LaunchRunContext(run, workspace=None))

    def terminate(self, run_id: str) -> bool:
        """Terminate a run, as the UI's button asks. A worker at work is interrupted; a run that none has ends at once.

        Celery's launcher only interrupts, which looks to the daemon as if the worker had died.
        """
        run, url = self._instance.get_run_by_id(run_id), database_url()
        if run is None or run.is_finished:
            return False
        self._instance.report_run_canceling(run)
        if url is None or is_leased(run_id, url):
            return super().terminate(run_id)
        self._instance.report_run_canceled(run, "no worker had it; finished calls are in the journal")
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Check the health of a run at work, for the daemon; one that has failed is resumed by another worker."""
        task = run.tags.get(DAGSTER_CELERY_TASK_ID_TAG)
        url = database_url()
        if LOCK_TAG in run.tags or url is None or is_leased(run.run_id, url):  # that of a command has the tag
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        if task and self.celery.AsyncResult(task).state == "PENDING" and self._is_waiting(task):  # resumed
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(WorkerStatus.FAILED, "the worker is gone")

    def _is_waiting(self, task: str) -> bool:
        """Return whether Redis has a task for the next worker; one that lost its data, or is another one, has not."""
        with self.celery.connection_for_read() as connection:
            redis = getattr(connection.default_channel, "client", None)
            if redis is None:  # another kind of broker
                return True
            queues = (redis.lrange(queue, 0, -1) for queue in redis.scan_iter(f"{self.default_queue}*", _type="list"))
            return any(task.encode() in message for message in (*chain(*queues), *redis.hvals("unacked")))
