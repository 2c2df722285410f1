"""Jobs: evaluate a registered run, start a new one from the launchpad, compact the lake."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import dagster as dg

from shaberi_dagster.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.defs.assets import ASSETS
from shaberi_dagster.defs.execution import execute
from shaberi_dagster.defs.interrupts import canceled_when_interrupted
from shaberi_dagster.defs.options import config_class, part_of, stage_config
from shaberi_dagster.defs.partitions import add_partition
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.defs.submission import submit
from shaberi_dagster.runs.planning import plan_run, store_run
from shaberi_dagster.runs.spec import CallOptions, RunRequest, RunSpec
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.stages.result import STAGES

EVALUATE = "evaluate"


def asset_keys(benchmarks: Iterable[str], stages: Sequence[str] = STAGES) -> list[dg.AssetKey]:
    """The assets of these stages and benchmarks."""
    return [dg.AssetKey([stage, name]) for stage in stages for name in benchmarks]


evaluate: Any = dg.define_asset_job(  # Dagster's type has no public name
    EVALUATE,
    selection=dg.AssetSelection.assets(*asset_keys(ALL_BENCHMARKS)),
    description="Bring all stages of a registered run up to date. Choose the run as the partition.",
)


@cache
def _evaluating_definitions() -> dg.Definitions:
    """What evaluating takes, for those who evaluate in their own process: commands, and jobs that start such runs."""
    return dg.Definitions(
        assets=ASSETS,
        jobs=[evaluate],
        resources={"workspace": WorkspaceResource()},
        executor=dg.in_process_executor,
    )


def run_in_process(run_id: str, benchmarks: Sequence[str], instance: dg.DagsterInstance, **options: Any) -> None:
    """Materialize stages of one registered run here and now.

    Args:
        run_id: Its partition key.
        benchmarks: Which benchmarks.
        instance: Where Dagster records it.
        options: As for `_evaluation`.

    Raises:
        KeyboardInterrupt: Interrupted; Dagster has the run as canceled, finished calls are in the journal.
    """
    execute(_evaluating_definitions().resolve_job_def(EVALUATE), instance, **_evaluation(run_id, benchmarks, **options))


def submit_evaluation(run_id: str, benchmarks: Sequence[str], instance: dg.DagsterInstance, **options: Any) -> str:
    """Let a worker of the cluster materialize stages of one registered run.

    Args:
        run_id: Its partition key.
        benchmarks: Which benchmarks.
        instance: Where the queue is.
        options: As for `_evaluation`.

    Returns:
        The Dagster run id.
    """
    job = _evaluating_definitions().resolve_job_def(EVALUATE)
    return submit(job, instance, **_evaluation(run_id, benchmarks, **options))


def _evaluation(
    run_id: str,
    benchmarks: Sequence[str],
    *,
    stages: Sequence[str] = STAGES,
    judges: Sequence[str] = (),
    reprocess: bool = False,
    reexamine: bool = False,
    options: CallOptions | None = None,
    tags: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What `execute` and `submit` take to materialize stages of one registered run.

    Args:
        run_id: Its partition key.
        benchmarks: Which benchmarks.
        stages: Which stages, any order.
        judges: Only these of the run's judges; none named means all.
        reprocess: Read the judges' stored outputs again instead of calling judges.
        reexamine: Let today's versions of passes look at what earlier ones have seen.
        options: How calls are made.
        tags: More tags for the Dagster run.
    """
    keys = asset_keys(benchmarks, stages)
    chosen = {key.path[0] for key in keys}
    return {
        "ops": stage_config(options or CallOptions(), chosen, judges, reprocess=reprocess, reexamine=reexamine),
        "tags": tags or {},
        "partition_key": run_id,
        "asset_selection": keys,
    }


RunRequestConfig = config_class("RunRequestConfig", "What to evaluate, and how to make calls.", RunRequest, CallOptions)


def register(request: RunRequest, workspace: Workspace, instance: dg.DagsterInstance) -> RunSpec:
    """Store the RunSpec of a request and make its run a partition."""
    spec = plan_run(request, workspace)
    store_run(spec, workspace)
    add_partition(spec, instance)
    return spec


@dg.op
def evaluate_new_run(
    context: dg.OpExecutionContext,
    config: RunRequestConfig,  # type: ignore[valid-type]
    workspace: WorkspaceResource,
) -> str:
    """Store the RunSpec, register its partition, and materialize it."""
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
    """Merge small files and delete files that are no longer needed; the catalog then points to what is left."""
    lake = workspace.workspace(context.log).lake
    for table, counts in lake.compact().items():
        context.log.info("%s: %s", table, counts)


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
