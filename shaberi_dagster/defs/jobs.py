"""Jobs: evaluate a registered run, start a new one from the launchpad, compact the lake."""

from typing import Any

import dagster as dg
import pydantic

from shaberi_dagster.defs.partitions import RUNS_NAME
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.lake.catalog import write_catalog
from shaberi_dagster.outcome import STAGES
from shaberi_dagster.planning import plan_run, store_run
from shaberi_dagster.runspec import RunRequest, RunSpec
from shaberi_dagster.workspace import Workspace

EVALUATE = "evaluate"

evaluate = dg.define_asset_job(
    EVALUATE,
    selection=dg.AssetSelection.groups(*STAGES),
    description="Bring all stages of a registered run up to date. Choose the run as the partition.",
)

# The launchpad takes exactly what run-evals and the YAML files take.
RunRequestConfig: Any = pydantic.create_model(
    "RunRequestConfig",
    __base__=dg.Config,
    __doc__="What to evaluate.",
    **{
        name: (str | None if "Literal" in str(field.annotation) else field.annotation, field)
        for name, field in RunRequest.model_fields.items()
    },
)


def register(request: RunRequest, workspace: Workspace, instance: dg.DagsterInstance) -> RunSpec:
    """Store the RunSpec of a request and make its run a partition."""
    spec = plan_run(request, workspace)
    store_run(spec, workspace)
    add_partition(spec.run_id, instance)
    return spec


def add_partition(run_id: str, instance: dg.DagsterInstance) -> None:
    """Make a run a partition, once."""
    if not instance.has_dynamic_partition(RUNS_NAME, run_id):
        instance.add_dynamic_partitions(RUNS_NAME, [run_id])


@dg.op
def evaluate_new_run(context: dg.OpExecutionContext, config: RunRequestConfig, workspace: WorkspaceResource) -> str:
    """Store the RunSpec, register its partition, and materialize it."""
    from shaberi_dagster.defs.execution import run_in_process  # noqa: PLC0415  (needs the definitions, which need us)

    place = workspace.workspace(context.log)
    spec = register(RunRequest(**config.model_dump(exclude_none=True)), place, context.instance)
    context.log.info(f"registered partition {spec.run_id}")
    result = run_in_process(spec.run_id, list(spec.benchmarks), context.instance, tags={"shaberi/started_by": context.run_id})
    if not result.success:
        raise dg.Failure(f"run {result.run_id} of {spec.run_id} failed", allow_retries=False)
    return spec.run_id


@dg.job(description="Start a new run: fill in model, tag, benchmarks and judges in the launchpad.")
def new_run() -> None:
    """Register and materialize a run that does not exist yet."""
    evaluate_new_run()


@dg.op
def compact_tables(context: dg.OpExecutionContext, workspace: WorkspaceResource) -> None:
    """Merge small files, delete files that are no longer needed, and point the catalog to what is left."""
    lake = workspace.workspace(context.log).lake
    for table, counts in lake.compact().items():
        context.log.info(f"{table}: {counts}")
    write_catalog(lake)


@dg.job(description="Merge the lake's small files; makes queries over many runs fast.")
def compact() -> None:
    """Compact and vacuum every table."""
    compact_tables()


nightly_compaction = dg.ScheduleDefinition(
    job=compact, cron_schedule="0 4 * * *", default_status=dg.DefaultScheduleStatus.RUNNING
)
JOBS = [evaluate, new_run, compact]
