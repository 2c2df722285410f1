"""Jobs: evaluate a registered run, start a new one from the launchpad, compact the lake."""

from collections.abc import Iterable, Sequence
from typing import Any

import dagster as dg

from shaberi_dagster.benchmarks.registry import BENCHMARKS, ENSEMBLE_BENCHMARKS, get_benchmark
from shaberi_dagster.defs.interrupts import canceled_when_interrupted
from shaberi_dagster.defs.metadata import question_set_metadata
from shaberi_dagster.defs.options import config_class, part_of
from shaberi_dagster.defs.partitions import RUNS_NAME
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.lake.catalog import write_catalog
from shaberi_dagster.outcome import STAGES, stages_of
from shaberi_dagster.planning import plan_run, store_run
from shaberi_dagster.runspec import CallOptions, RunRequest, RunSpec
from shaberi_dagster.workspace import Workspace

EVALUATE, EVALUATE_ENSEMBLE = "evaluate", "evaluate_ensemble"


def asset_keys(benchmarks: Iterable[str], stages: Sequence[str] = STAGES) -> list[dg.AssetKey]:
    """The assets of these stages that the benchmarks have."""
    return [
        dg.AssetKey([stage, name]) for stage in stages for name in benchmarks if stage in stages_of(get_benchmark(name))
    ]


def _evaluating(job: str, benchmarks: Iterable[str], kind: str) -> Any:  # Dagster's type has no public name
    return dg.define_asset_job(
        job,
        selection=dg.AssetSelection.assets(*asset_keys(benchmarks)),
        description=f"Bring all stages of a registered {kind} up to date. Choose the run as the partition.",
    )


evaluate = _evaluating(EVALUATE, BENCHMARKS, "run")
evaluate_ensemble = _evaluating(EVALUATE_ENSEMBLE, ENSEMBLE_BENCHMARKS, "run of an ensemble")


def evaluating_job(benchmarks: Sequence[str]) -> str:
    """The job that evaluates these benchmarks, which are of one system."""
    return EVALUATE_ENSEMBLE if set(benchmarks) <= set(ENSEMBLE_BENCHMARKS) else EVALUATE


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
JOBS: list[Any] = [evaluate, evaluate_ensemble, new_run, compact]
