"""The Celery application of the workers: what `celery --app shaberi_dagster.defs.worker worker` runs."""

import os
from collections.abc import Sequence
from typing import Any

from celery import Task  # type: ignore[import-untyped]
from celery.signals import worker_init  # type: ignore[import-untyped]
from celery.worker.control import inspect_command  # type: ignore[import-untyped]
from dagster._serdes import unpack_value
from dagster._utils.interrupts import capture_interrupts
from dagster_celery.make_app import make_app
from dagster_celery.tasks import create_execute_job_task, create_resume_job_task

import shaberi_dagster.defs.code_location  # noqa: F401  (a process forked for a run has its imports behind it)
from shaberi_dagster.defs.execution import prepare_home
from shaberi_dagster.defs.launcher import CELERY_SETTINGS
from shaberi_dagster.defs.leases import end_process, leased_for_life
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.lake.mirror import when_lost
from shaberi_dagster.llm.endpoints import key_state
from shaberi_dagster.settings import Settings, broker_url, database_url


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
        with capture_interrupts(), leased_for_life(asked.run_id, _database()) as is_ours:
            return int(super().__call__(**arguments)) if is_ours else 0


def _database() -> str:
    url = database_url()
    if url is None:
        raise ConfigurationError("a worker of a cluster needs SHABERI_DATABASE_URL")
    return url


_make_app: Any = make_app
app = _make_app({"broker": broker_url(), "backend": broker_url(), "config_source": CELERY_SETTINGS})
_options: dict[str, Any] = {"base": LeasedTask}
create_execute_job_task(app, **_options)
create_resume_job_task(app, **_options)


@worker_init.connect  # type: ignore[untyped-decorator]
def prepare_instance(**_: object) -> None:
    """Let the runs of this worker find Dagster's instance."""
    _database()
    home = Settings.from_environment().dagster_home
    prepare_home(home)
    os.environ["DAGSTER_HOME"] = str(home)
    when_lost(end_process)


@inspect_command(args=[("pairs", list)])  # type: ignore[untyped-decorator]
def key_states(_: object, pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Tell what this worker's environment says of key variables and base URLs: a state for each pair, never a value."""
    return [key_state(variable, base_url, os.environ) for variable, base_url in pairs]
