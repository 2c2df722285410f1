"""Records of a run in Dagster besides its events: its job and code location, its model and its tag.

Dagster notes the job of those runs alone that its own servers launch, and its timeline and Jobs page show no others.
`execute_in_process` has no argument for it; an origin is put into place by what `dagster run migrate-repository` uses.
"""

import dagster as dg
from dagster._core.definitions.repository_definition import SINGLETON_REPOSITORY_NAME
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteRepositoryOrigin

from shaberi_dagster.util.identity import names_of

LOCATION = "shaberi_dagster.definitions"
"""The code location's name in `dagster dev`: that of its module."""
MODEL_TAG, RUN_TAG_TAG, STARTED_BY_TAG = "shaberi/model", "shaberi/run_tag", "shaberi/started_by"
_REPOSITORY_TAG = ".dagster/repository"
_PARTITION_TAG = "dagster/partition"


def complete_record(run: dg.DagsterRun, instance: dg.DagsterInstance) -> None:
    """Let a run that has begun stand with its job, wherever it was started, and with readable names.

    Args:
        run: The run; it is told apart by its partition key which model it is about, if any.
        instance: Where Dagster records it.
    """
    location = _location(run, instance)
    tags = {} if run.remote_job_origin else {_REPOSITORY_TAG: f"{SINGLETON_REPOSITORY_NAME}@{location}"}
    if "@@" in (run_id := run.tags.get(_PARTITION_TAG, "")):
        tags |= dict(zip((MODEL_TAG, RUN_TAG_TAG), names_of(run_id), strict=True))
    if tags:
        instance.add_run_tags(run.run_id, tags)
    stored = instance.get_run_by_id(run.run_id)
    if stored and not stored.remote_job_origin:
        repository = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin(location), SINGLETON_REPOSITORY_NAME)
        instance.run_storage.replace_job_origin(stored, repository.get_job_origin(run.job_name))


def _location(run: dg.DagsterRun, instance: dg.DagsterInstance) -> str:
    """Return the job and code location of the run that started this one, if one did."""
    by = run.tags.get(STARTED_BY_TAG)
    parent = instance.get_run_by_id(by) if by else None
    return parent.remote_job_origin.location_name if parent and parent.remote_job_origin else LOCATION
