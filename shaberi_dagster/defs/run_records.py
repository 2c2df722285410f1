"""Records of a run in Dagster besides its events: its job and code location, its model and its tag.

Dagster notes the job of those runs alone that its own servers launch, and its timeline and Jobs page show no others.
`execute_in_process` has no argument for it, and the classes of an origin have no public names; an origin is read here
from the text that Dagster's databases keep, and put into place by what `dagster run migrate-repository` uses.
"""

import json
from typing import Any

import dagster as dg

from shaberi_dagster.util.identity import names_of

LOCATION = "shaberi_dagster.definitions"
"""The code location's name in `dagster dev`: that of its module."""
MODEL_TAG, RUN_TAG_TAG, STARTED_BY_TAG = "shaberi/model", "shaberi/run_tag", "shaberi/started_by"
_REPOSITORY = "__repository__"  # of whatever `Definitions` a module has
_REPOSITORY_TAG = ".dagster/repository"
_PARTITION_TAG = "dagster/partition"


def complete_record(run: dg.DagsterRun, instance: dg.DagsterInstance) -> None:
    """Let a run that has begun stand with its job, wherever it was started, and with readable names.

    Args:
        run: The run; it is told apart by its partition key which model it is about, if any.
        instance: Where Dagster records it.
    """
    location = _location(run, instance)
    tags = {} if run.remote_job_origin else {_REPOSITORY_TAG: f"{_REPOSITORY}@{location}"}
    if "@@" in (run_id := run.tags.get(_PARTITION_TAG, "")):
        tags |= dict(zip((MODEL_TAG, RUN_TAG_TAG), names_of(run_id), strict=True))
    if tags:
        instance.add_run_tags(run.run_id, tags)
    stored = instance.get_run_by_id(run.run_id)
    if stored and not stored.remote_job_origin:
        instance.run_storage.replace_job_origin(stored, _origin(run.job_name, location))


def _location(run: dg.DagsterRun, instance: dg.DagsterInstance) -> str:
    """Return the job and code location of the run that started this one, if one did."""
    by = run.tags.get(STARTED_BY_TAG)
    parent = instance.get_run_by_id(by) if by else None
    return parent.remote_job_origin.location_name if parent and parent.remote_job_origin else LOCATION


def _origin(job: str, location: str) -> Any:
    """The job of a code location, from its text in Dagster's databases."""
    place = {"__class__": "RegisteredRepositoryLocationOrigin", "location_name": location}
    repository = {
        "__class__": "ExternalRepositoryOrigin",
        "repository_location_origin": place,
        "repository_name": _REPOSITORY,
    }
    origin = {"__class__": "ExternalPipelineOrigin", "external_repository_origin": repository, "pipeline_name": job}
    return dg.deserialize_value(json.dumps(origin))
