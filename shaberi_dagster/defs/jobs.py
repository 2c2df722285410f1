"""Jobs: evaluate a registered run, start a new one from the launchpad, compact the lake."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any
from urllib.parse import urlencode

import dagster as dg

from shaberi_dagster.defs.assets import ASSETS
from shaberi_dagster.defs.execution import QUIET, STARTED_BY_TAG, canceled_when_interrupted, key_of, recorded_run
from shaberi_dagster.defs.options import config_class, given, stage_config
from shaberi_dagster.defs.partitions import add_partition
from shaberi_dagster.defs.resources import WorkspaceResource, working_in
from shaberi_dagster.lake.compaction import compact_lake
from shaberi_dagster.llm.endpoints import api_key
from shaberi_dagster.runs.planning import plan_run
from shaberi_dagster.runs.request_file import request_from
from shaberi_dagster.runs.spec import CallOptions, RunRequest, RunSpec
from shaberi_dagster.runs.stages.evaluation import check_keys, endpoints_to_call
from shaberi_dagster.runs.stages.ordered import STAGE_NAMES
from shaberi_dagster.runs.stored import store_run
from shaberi_dagster.runs.workspace import Workspace

EVALUATE = "evaluate"


evaluate: Any = dg.define_asset_job(  # Dagster's type has no public name
    EVALUATE,
    selection=dg.AssetSelection.assets(*STAGE_NAMES),
    description="Bring registered runs up to date: click Materialize all, choose the runs, and launch them.",
)


@cache
def evaluating_job() -> dg.JobDefinition:
    """Return the job that evaluates in the own process, for commands and for jobs that start such runs."""
    definitions = dg.Definitions(
        assets=ASSETS,
        jobs=[evaluate],
        resources={"workspace": WorkspaceResource()},
        executor=dg.in_process_executor,
    )
    return definitions.resolve_job_def(EVALUATE)


def run_in_process(
    run_id: str,
    ops: Mapping[str, Any],
    instance: dg.DagsterInstance,
    workspace: Workspace,
    tags: Mapping[str, str] | None = None,
) -> None:
    """Materialize stages of one registered run here and now.

    Args:
        run_id: The run.
        ops: Which stages, and how: see `stage_config`.
        instance: Where Dagster records it.
        workspace: Where to read and write.
        tags: More tags for the Dagster run.

    Raises:
        KeyboardInterrupt: Interrupted; Dagster has the run as canceled, finished calls are in the journal.
    """
    assets = [dg.AssetKey(stage) for stage in ops]
    with recorded_run(instance, key_of(run_id), tags or {}) as record, working_in(workspace):
        evaluating_job().execute_in_process(run_config=QUIET | {"ops": ops}, asset_selection=assets, **record)


RunRequestConfig = config_class(
    "RunRequestConfig",
    "What to evaluate, and how to make calls.",
    RunRequest,
    CallOptions,
    without=("limiter", "max_concurrency", "settings"),  # the launchpad has `concurrency`
)
_NEW_RUN = "evaluate_new_run"
_EXAMPLE = {
    "model": "my-model",
    "base_url": "http://localhost:8000/v1",
    "judge_models": ["gpt-5.1"],
    "judge_base_url": "https://api.openai.com/v1",
    "benchmarks": ["elyza", "tengu"],
    "tag": "default",
    "limit": 10,
}


def register(request: RunRequest, workspace: Workspace, instance: dg.DagsterInstance) -> RunSpec:
    """Store the RunSpec of a request and make its run a partition.

    Raises:
        ConfigurationError: It cannot be planned, or would send a key where it does not belong.
    """
    spec = plan_run(request, workspace)
    check_keys(spec, workspace)
    store_run(spec, workspace)
    add_partition(spec, instance)
    return spec


@dg.op(name=_NEW_RUN, out=dg.Out(str, description="The partition: known before anything is asked."))
def evaluate_new_run(
    context: dg.OpExecutionContext,
    config: RunRequestConfig,  # type: ignore[valid-type]
    workspace: WorkspaceResource,
) -> Iterator[dg.Output[str]]:
    """Make the run a partition, and evaluate it."""
    with canceled_when_interrupted(context):
        request, options = request_from(given(config))
        place = workspace.workspace(context.log, options)
        spec = register(request, place, context.instance)
        evaluation = urlencode({"q[0]": f"tag:{STARTED_BY_TAG}={context.run_id}"})
        partition = urlencode({"view": "partitions", "partition": key_of(spec.run_id)})
        links = {
            "evaluation": dg.MetadataValue.url(f"/runs?{evaluation}"),
            "scores": dg.MetadataValue.url(f"/assets/metrics?{partition}"),
        }
        yield dg.Output(key_of(spec.run_id), metadata=links)
        for endpoint in endpoints_to_call(spec, place):
            api_key(endpoint, place.environment)  # one that is missing, before answers are made
        ops = stage_config(options, STAGE_NAMES, list(spec.benchmarks))
        tags = {STARTED_BY_TAG: context.run_id}
        run_in_process(spec.run_id, ops, instance=context.instance, workspace=place, tags=tags)


@dg.job(
    config={"ops": {_NEW_RUN: {"config": _EXAMPLE}}},
    description="Start a new run: write your own over the example in Launchpad, and click Launch Run.",
)
def new_run() -> None:
    """Register and materialize a run that does not exist yet."""
    evaluate_new_run()


@dg.op
def compact_tables(context: dg.OpExecutionContext, workspace: WorkspaceResource) -> None:
    """Merge small files and delete files that are no longer needed; the catalog then points to what is left."""
    lake = workspace.workspace(context.log).lake
    for table, counts in compact_lake(lake).items():
        context.log.info("%s: %s", table, counts)


@dg.job(description="Merge the lake's small files, for fast queries: open Launchpad, click Launch Run.")
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
