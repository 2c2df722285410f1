"""Jobs: evaluate a registered run, start a new one from the launchpad, compact the lake."""

from typing import Any

import dagster as dg

from shaberi_dagster.defs.interrupts import canceled_when_interrupted
from shaberi_dagster.defs.metadata import question_set_metadata
from shaberi_dagster.defs.options import config_class, part_of
from shaberi_dagster.defs.partitions import RUNS_NAME
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.lake.catalog import write_catalog
from shaberi_dagster.outcome import STAGES
from shaberi_dagster.planning import plan_run, store_run
from shaberi_dagster.runspec import CallOptions, RunRequest, RunSpec
from shaberi_dagster.workspace import Workspace

EVALUATE = "evaluate"

evaluate = dg.define_asset_job(
    EVALUATE,
    selection=dg.AssetSelection.groups(*STAGES),
    description="Bring all stages of a registered run up to date. Choose the run as the partition.",
)

RunRequestConfig = config_class("RunRequestConfig", "What to evaluate, and how to make calls.", RunRequest, CallOptions)


def register(request: RunRequest, workspace: Workspace, instance: dg.DagsterInstance) -> RunSpec:
    """Store the RunSpec of a request and make its run a partition."""
    spec = plan_run(request, workspace)
    store_run(spec, workspace)
    add_partition(spec, instance)
    return spec


def add_partition(spec: RunSpec, instance: dg.DagsterInstance) -> None:
    """Make a run a partition, once, and its question sets known to Dagster: they are in the lake with the run."""
    if not instance.has_dynamic_partition(RUNS_NAME, spec.run_id):
        instance.add_dynamic_partitions(RUNS_NAME, [spec.run_id])
    for name, settings in spec.benchmarks.items():
        key = dg.AssetKey(["questions", name])
        # Without any materialization the UI would warn that the answers' upstream is missing.
        if instance.get_latest_materialization_event(key) is None:
            facts = question_set_metadata(
                settings.question_set, settings.question_set_sha256, settings.n_questions, settings.source
            )
            instance.report_runless_asset_event(dg.AssetMaterialization(key, metadata=facts))


@dg.op
def evaluate_new_run(
    context: dg.OpExecutionContext,
    config: RunRequestConfig,  # type: ignore[valid-type]
    workspace: WorkspaceResource,
) -> str:
    """Store the RunSpec, register its partition, and materialize it."""
    from shaberi_dagster.defs.execution import run_in_process  # noqa: PLC0415  (needs the definitions, which need us)

    place = workspace.workspace(context.log)
    spec = register(RunRequest(**part_of(config, RunRequest)), place, context.instance)
    options = CallOptions(**part_of(config, CallOptions))
    context.log.info("registered partition %s", spec.run_id)
    tags = {"shaberi/started_by": context.run_id}
    with canceled_when_interrupted(context):
        run_in_process(spec.run_id, list(spec.benchmarks), context.instance, options=options, tags=tags)
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
        context.log.info("%s: %s", table, counts)
    write_catalog(lake)


@dg.job(description="Merge the lake's small files; makes queries over many runs fast.")
def compact() -> None:
    """Compact and vacuum every table."""
    compact_tables()


nightly_compaction = dg.ScheduleDefinition(
    job=compact,
    cron_schedule="0 4 * * *",
    description="Compacts the lake every night at 4.",
    default_status=dg.DefaultScheduleStatus.RUNNING,
)
JOBS: list[Any] = [evaluate, new_run, compact]
