"""The Celery application of the workers: what `celery --app shaberi_dagster.defs.worker worker` runs."""

import os
from collections.abc import Sequence
from typing import Any

from celery.signals import worker_init  # type: ignore[import-untyped]
from celery.worker.control import inspect_command  # type: ignore[import-untyped]
from dagster_celery.make_app import make_app
from dagster_celery.tasks import create_execute_job_task, create_resume_job_task

import shaberi_dagster.defs.code_location  # noqa: F401  (a process forked for a run has its imports behind it)
from shaberi_dagster.defs.execution import prepare_home
from shaberi_dagster.defs.launcher import CELERY_SETTINGS, LeasedTask, worker_database
from shaberi_dagster.defs.leases import end_process
from shaberi_dagster.lake.mirror import on_store_unavailable
from shaberi_dagster.llm.endpoints import key_state
from shaberi_dagster.settings import Settings, broker_url

_make_app: Any = make_app
app = _make_app({"broker": broker_url(), "backend": broker_url(), "config_source": CELERY_SETTINGS})
_options: dict[str, Any] = {"base": LeasedTask}
create_execute_job_task(app, **_options)
create_resume_job_task(app, **_options)


@worker_init.connect  # type: ignore[untyped-decorator]
def prepare_instance(**_: object) -> None:
    """Let the runs of this worker find Dagster's instance."""
    worker_database()
    home = Settings.from_environment().dagster_home
    prepare_home(home)
    os.environ["DAGSTER_HOME"] = str(home)
    on_store_unavailable(end_process)


@inspect_command(args=[("pairs", list)])  # type: ignore[untyped-decorator]
def key_states(_: object, pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Tell what this worker's environment says of key variables and base URLs: a state for each pair, never a value."""
    return [key_state(variable, base_url, os.environ) for variable, base_url in pairs]
