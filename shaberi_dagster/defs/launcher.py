"""Runs on the workers of a cluster: one whole run in one process of one worker.

`dagster.yaml` names the launcher, which gives runs to Celery. Workers are started with
`celery --app shaberi_dagster.defs.worker worker`, as `shaberi cluster worker` does.
"""

import logging
from itertools import chain
from typing import Any

import dagster as dg
from celery.exceptions import OperationalError  # type: ignore[import-untyped]
from dagster._core.launcher import CheckRunHealthResult, LaunchRunContext, ResumeRunContext, WorkerStatus
from dagster._grpc.types import ResumeRunArgs
from dagster._serdes import pack_value
from dagster_celery.config import TASK_RESUME_JOB_NAME
from dagster_celery.launcher import CeleryRunLauncher
from dagster_celery.tags import DAGSTER_CELERY_TASK_ID_TAG
from dagster_celery.tasks import create_resume_job_task
from dagster_postgres.utils import DagsterPostgresException
from redis.exceptions import RedisError
from sqlalchemy.exc import DBAPIError
from tenacity import before_sleep_log, retry, retry_if_exception_type, stop_after_delay, wait_fixed

from shaberi_dagster.defs.leases import LEASE_TAG, is_leased
from shaberi_dagster.settings import database_url

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
_logger = logging.getLogger(__name__)


class ClusterRunLauncher(CeleryRunLauncher):
    """Dagster's launcher for Celery, to which a run is alive as long as its process has the lease of it.

    Celery itself does not notice when a worker is killed, or its host is gone: its task looks started for ever.
    """

    def __init__(self, config_source: dict[str, Any] | None = None, **settings: Any) -> None:
        super().__init__(config_source=CELERY_SETTINGS | (config_source or {}), **settings)

    def resume_run(self, context: ResumeRunContext) -> None:
        """Let another worker go on with a run; Celery's launcher names the task's argument wrongly (0.29).

        Until one has it, it holds no slots: all workers may wait for those with other runs.
        """
        self._instance.event_log_storage.free_concurrency_slots_for_run(context.dagster_run.run_id)
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
        """Wait for a Redis and a database that are being started anew; Dagster would call the run a failure."""
        super()._launch_celery_task_run(**asked)

    def launch_lost(self) -> None:
        """Launch what a daemon was about to launch when it was killed: Dagster has it as launched."""
        for run in self._instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTING])):
            task, url = run.tags.get(DAGSTER_CELERY_TASK_ID_TAG), database_url()
            is_known = url is None or LEASE_TAG in run.tags or is_leased(run.run_id, url)
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
        self._instance.event_log_storage.free_concurrency_slots_for_run(run_id)
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Check the health of a run at work, for the daemon; one that has failed is resumed by another worker."""
        task = run.tags.get(DAGSTER_CELERY_TASK_ID_TAG)
        url = database_url()
        if LEASE_TAG in run.tags or url is None or is_leased(run.run_id, url):  # that of a command has the tag
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
