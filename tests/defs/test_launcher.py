"""Which runs of a cluster the daemon takes for dead, and how they go on."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from uuid import uuid4

import dagster as dg
import pytest
from dagster._core.events import DagsterEvent
from dagster._core.launcher import WorkerStatus
from dagster_celery.tags import DAGSTER_CELERY_TASK_ID_TAG
from redis import Redis

from shaberi_dagster.defs.execution import LOCK_TAG, open_instance
from shaberi_dagster.defs.launcher import ClusterRunLauncher
from shaberi_dagster.defs.submission import submit
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.ports import free_ports
from tests.postgres import leased
from tests.running_cluster import running_redis
from tests.stages_alone import ELYZA_OPS

pytestmark = pytest.mark.integration


@pytest.fixture
def instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    with open_instance(settings.dagster_home) as opened:
        yield opened


@pytest.fixture
def launcher(instance: dg.DagsterInstance) -> ClusterRunLauncher:
    """A launcher whose queue is in memory."""
    made = ClusterRunLauncher(default_queue="dagster", broker="memory://", backend="cache+memory://")
    made.register_instance(instance)
    return made


@pytest.fixture
def submitted(registered: Callable[..., RunSpec], workspace: Workspace, instance: dg.DagsterInstance) -> dg.DagsterRun:
    """A run that workers are to make."""
    spec = registered(benchmarks=["elyza"])
    run = instance.get_run_by_id(submit(spec.run_id, ELYZA_OPS, workspace, instance))
    assert run is not None
    return run


@pytest.mark.parametrize(
    ("task", "held", "status"),
    [
        (None, False, WorkerStatus.FAILED),  # launched by a daemon that was killed before it could note the task
        (LOCK_TAG, False, WorkerStatus.RUNNING),  # of a command line, which others close
        ("PENDING", False, WorkerStatus.RUNNING),  # it waits for a worker
        ("STARTED", True, WorkerStatus.RUNNING),
        ("STARTED", False, WorkerStatus.FAILED),  # Celery does not notice that a worker was killed
        ("SUCCESS", False, WorkerStatus.FAILED),  # as a task that was delivered twice ends
    ],
)
def test_a_run_is_alive_as_long_as_its_lease_is_held_or_it_waits(  # noqa: PLR0917
    task: str | None,
    held: bool,
    status: WorkerStatus,
    launcher: ClusterRunLauncher,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHABERI_DATABASE_URL", database)
    task_id = uuid4().hex
    tag = LOCK_TAG if task == LOCK_TAG else DAGSTER_CELERY_TASK_ID_TAG
    run = dg.DagsterRun("evaluate", tags={tag: task_id} if task else {})
    if task not in {None, LOCK_TAG, "PENDING"}:
        launcher.celery.backend.store_result(task_id, None, task)

    with leased(run.run_id, database) if held else nullcontext():
        assert launcher.check_run_worker_health(run).status == status


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server")
def test_a_run_that_redis_has_forgotten_is_resumed_and_one_that_waits_there_is_not(
    instance: dg.DagsterInstance, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHABERI_DATABASE_URL", database)
    with running_redis(tmp_path) as url:
        launcher = ClusterRunLauncher(default_queue="dagster", broker=url, backend=url)
        launcher.register_instance(instance)
        waiting, forgotten = uuid4().hex, uuid4().hex
        launcher.celery.send_task("resume_job", task_id=waiting, queue="dagster")
        runs = {
            task: dg.DagsterRun("evaluate", tags={DAGSTER_CELERY_TASK_ID_TAG: task}) for task in (waiting, forgotten)
        }

        assert launcher.check_run_worker_health(runs[waiting]).status == WorkerStatus.RUNNING
        assert launcher.check_run_worker_health(runs[forgotten]).status == WorkerStatus.FAILED


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server")
def test_a_run_that_a_killed_daemon_was_about_to_launch_is_launched_once_and_waits_for_redis(
    instance: dg.DagsterInstance,
    submitted: dg.DagsterRun,
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHABERI_DATABASE_URL", database)
    (port,) = free_ports(1)
    url = f"redis://127.0.0.1:{port}/0"
    launcher = ClusterRunLauncher(default_queue="dagster", broker=url, backend=url)
    launcher.register_instance(instance)
    starting = DagsterEvent(event_type_value="PIPELINE_STARTING", job_name="evaluate")
    instance.report_dagster_event(starting, run_id=submitted.run_id)
    launched = threading.Thread(target=launcher.launch_lost)
    launched.start()
    time.sleep(1)

    with running_redis(tmp_path, port):
        launched.join()
        launcher.launch_lost()
        waiting = Redis.from_url(url).lrange("dagster", 0, -1)

    assert len(waiting) == 1


def test_terminate_of_a_run_that_waits_for_another_worker_cancels_it(
    launcher: ClusterRunLauncher,
    instance: dg.DagsterInstance,
    submitted: dg.DagsterRun,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHABERI_DATABASE_URL", database)

    assert launcher.terminate(submitted.run_id)

    run = instance.get_run_by_id(submitted.run_id)
    assert run is not None
    assert run.status == dg.DagsterRunStatus.CANCELED
    assert not launcher.terminate(submitted.run_id)
