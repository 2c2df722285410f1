"""Unattended runs: a folder of RunSpec YAML files."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import dagster as dg

from shaberi_dagster.defs.jobs import EVALUATE, asset_keys, evaluate, register
from shaberi_dagster.defs.options import stage_config
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.runs.request_file import read_request
from shaberi_dagster.runs.workspace import Workspace


@dg.sensor(
    job=evaluate,
    minimum_interval_seconds=15,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Registers and evaluates each YAML file put into the folder of run specs; each content once.",
)
def run_spec_folder(
    context: dg.SensorEvaluationContext, workspace: WorkspaceResource
) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Request an evaluation for each new or changed `*.yaml` file."""
    place = workspace.workspace()
    folder = place.settings.run_specs
    found = sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])
    requests = [request for path in found if (request := _requested(path, place, context))]
    yield from requests
    if not requests:
        yield dg.SkipReason(f"nothing new among {len(found)} YAML files in {folder}")


def _requested(path: Path, place: Workspace, context: dg.SensorEvaluationContext) -> dg.RunRequest | None:
    """The evaluation that a file asks for; None when it was asked for before or cannot be."""
    try:
        run_key = hashlib.sha256(path.name.encode() + b"\0" + path.read_bytes()).hexdigest()
        if context.instance.get_runs(dg.RunsFilter(tags={"dagster/run_key": run_key}), limit=1):
            return None
        request, options = read_request(path)
        spec = register(request, place, context.instance)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one file, the others are read
        context.log.warning("%s: %s", path, error)
        return None
    keys = asset_keys(list(spec.benchmarks))
    return dg.RunRequest(
        run_key=run_key,
        job_name=EVALUATE,
        partition_key=spec.run_id,
        asset_selection=keys,
        run_config={"ops": stage_config(options, {key.path[0] for key in keys})},
    )
