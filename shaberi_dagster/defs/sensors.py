"""Unattended runs: a folder of RunSpec YAML files; and runs that were made without Dagster."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import dagster as dg

from shaberi_dagster.defs.execution import key_of, run_of
from shaberi_dagster.defs.jobs import EVALUATE, evaluate, register
from shaberi_dagster.defs.options import stage_config
from shaberi_dagster.defs.partitions import RUNS_NAME, runs
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.runs.request_file import read_request
from shaberi_dagster.runs.stages.answers import Answers
from shaberi_dagster.runs.stages.ordered import STAGE_NAMES
from shaberi_dagster.runs.workspace import Workspace

_MOST_RUNS = 100
"""Of one look at the lake: each has an event for each asset, and a sensor has to end within a minute."""


@dg.sensor(
    job=evaluate,
    minimum_interval_seconds=15,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Evaluates each YAML file that you put into SHABERI_RUN_SPECS, once for each content.",
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
        yield dg.SkipReason(f"nothing new among {len(found)} YAML files in {folder}; errors would be in the log")


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
    return dg.RunRequest(
        run_key=run_key,
        job_name=EVALUATE,
        partition_key=key_of(spec.run_id),
        run_config={"ops": stage_config(options, STAGE_NAMES, ())},
    )


@dg.sensor(
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Shows runs that the lake has and Dagster does not know: imported ones, and those of the library.",
)
def lake_runs(context: dg.SensorEvaluationContext, workspace: WorkspaceResource) -> dg.SensorResult | dg.SkipReason:
    """Make such runs partitions; complete and imported ones have materialized assets, some at a time."""
    instance, lake = context.instance, workspace.workspace().lake
    rows = lake.read("runs", columns=["run_id", "status", "import_tag"])
    unknown = sorted(set(map(key_of, rows["run_id"])) - set(instance.get_dynamic_partitions(RUNS_NAME)))
    complete = set(rows.filter(status="complete")["run_id"])
    imported = set(rows.drop_nulls("import_tag")["run_id"])
    shown = set(map(run_of, instance.get_materialized_partitions(dg.AssetKey(Answers.name))))
    unshown = sorted((complete | imported) - shown)[:_MOST_RUNS]
    if not (unknown or unshown):
        return dg.SkipReason("Dagster knows all runs of the lake")
    made = {stage: set(lake.read(stage, {"run_id": unshown}, ["run_id"])["run_id"]) for stage in STAGE_NAMES}
    events = [
        dg.AssetMaterialization(stage, partition=key_of(run_id), description="made without a Dagster run")
        for run_id in unshown
        for stage in STAGE_NAMES
        # A complete run lacks no stage; an imported one may have answers that no one judged.
        if stage == Answers.name or run_id in complete or run_id in made[stage]
    ]
    requests = [runs.build_add_request(unknown)] if unknown else []
    return dg.SensorResult(dynamic_partitions_requests=requests, asset_events=events)
