"""Jobs: evaluate a registered run, start a new one from the launchpad, compact the lake."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import urlencode

import dagster as dg

from shaberi_dagster.defs.assets import ASSETS
from shaberi_dagster.defs.execution import QUIET, STARTED_BY_TAG, recorded_run
from shaberi_dagster.defs.interrupts import canceled_when_interrupted
from shaberi_dagster.defs.options import config_class, given, stage_config
from shaberi_dagster.defs.partitions import add_partition
from shaberi_dagster.defs.resources import WorkspaceResource, working_in
from shaberi_dagster.lake.compaction import compact_lake
from shaberi_dagster.runs.planning import plan_run
from shaberi_dagster.runs.request_file import request_from
from shaberi_dagster.runs.spec import CallOptions, RunRequest, RunSpec
from shaberi_dagster.runs.stages.evaluation import check_keys
from shaberi_dagster.runs.stages.ordered import STAGE_NAMES
from shaberi_dagster.runs.stored import store_run
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.util.errors import ShaberiError

EVALUATE = "evaluate"


evaluate: Any = dg.define_asset_job(  # Dagster's type has no public name
    EVALUATE,
    selection=dg.AssetSelection.assets(*STAGE_NAMES),
    description="Bring all stages of a registered run up to date. Choose the run as the partition.",
)


@cache
def _evaluating_definitions() -> dg.Definitions:
    """Return the definitions for evaluations in the own process, by commands and by jobs that start such runs."""
    return dg.Definitions(
        assets=ASSETS,
        jobs=[evaluate],
        resources={"workspace": WorkspaceResource()},
        executor=dg.in_process_executor,
    )


@dataclass(frozen=True)
class Materialization:
    """Stages of one registered run that are to be materialized.

    Attributes:
        run_id: Its partition key.
        benchmarks: Which benchmarks.
        stages: Which stages, any order.
        judges: Only these of the run's judges; none named means all.
        reprocess: Read the judges' stored outputs again instead of calling judges.
        reexamine: Let today's versions of passes look at what earlier ones have seen.
        options: How calls are made.
        tags: More tags for the Dagster run.
    """

    run_id: str
    benchmarks: Sequence[str]
    stages: Sequence[str] = STAGE_NAMES
    judges: Sequence[str] = ()
    reprocess: bool = False
    reexamine: bool = False
    options: CallOptions = field(default_factory=CallOptions)
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def job(self) -> dg.JobDefinition:
        """The job that does it."""
        return _evaluating_definitions().resolve_job_def(EVALUATE)

    @property
    def ops(self) -> dict[str, Any]:
        """The `ops` part of the job's config."""
        again = {"reprocess": self.reprocess, "reexamine": self.reexamine}
        return stage_config(self.options, self.stages, self.benchmarks, self.judges, **again)

    @property
    def assets(self) -> list[dg.AssetKey]:
        """The assets that it makes."""
        return [dg.AssetKey(stage) for stage in self.stages]


def run_in_process(wanted: Materialization, instance: dg.DagsterInstance, workspace: Workspace) -> None:
    """Materialize stages of one registered run here and now.

    Args:
        wanted: Which, and how.
        instance: Where Dagster records it.
        workspace: Where to read and write; its options are those of the calls.

    Raises:
        KeyboardInterrupt: Interrupted; Dagster has the run as canceled, finished calls are in the journal.
    """
    with recorded_run(instance, wanted.run_id, wanted.tags) as record, working_in(workspace):
        wanted.job.execute_in_process(
            run_config=QUIET | {"ops": wanted.ops},
            partition_key=wanted.run_id,
            asset_selection=wanted.assets,
            **record,
        )


_LIMITER = ("limiter", "max_concurrency")
"""Settings of commands: the launchpad has `concurrency`."""
RunRequestConfig = config_class(
    "RunRequestConfig",
    "What to evaluate, and how to make calls.",
    RunRequest,
    CallOptions,
    without=(*_LIMITER, "settings"),
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
    """Store the RunSpec, register its partition, and materialize it."""
    try:
        request, options = request_from(given(config))
        place = workspace.workspace(context.log, options)
        spec = register(request, place, context.instance)
        yield dg.Output(spec.run_id, metadata=_links(spec, context.run_id))
        with canceled_when_interrupted(context):
            tags = {STARTED_BY_TAG: context.run_id}
            wanted = Materialization(spec.run_id, list(spec.benchmarks), options=options, tags=tags)
            run_in_process(wanted, context.instance, place)
    except ShaberiError as error:
        raise dg.Failure(str(error)) from None  # one line, not where it was raised


def _links(spec: RunSpec, dagster_run_id: str) -> dict[str, dg.MetadataValue[Any]]:
    """Return links to the UI's pages of a new run."""
    evaluation = urlencode({"q[0]": f"tag:{STARTED_BY_TAG}={dagster_run_id}"})
    place = urlencode({"view": "partitions", "partition": spec.run_id})
    return {
        "evaluation": dg.MetadataValue.url(f"/runs?{evaluation}"),
        "scores": dg.MetadataValue.url(f"/assets/metrics?{place}"),
    }


@dg.job(
    config={"ops": {_NEW_RUN: {"config": _EXAMPLE}}},
    description="Start a new run: write your model, judges and their addresses over the example in the launchpad.",
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
