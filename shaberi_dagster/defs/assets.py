"""The assets: asset key = [stage, benchmark], partition = run, one op per stage."""

from collections.abc import Callable, Iterator

import dagster as dg
import pydantic

from shaberi_dagster.benchmarks.registry import BENCHMARKS, get_benchmark
from shaberi_dagster.defs.interrupts import canceled_when_interrupted
from shaberi_dagster.defs.metadata import column_schema, materialize_result, question_set_metadata
from shaberi_dagster.defs.options import config_class, part_of
from shaberi_dagster.defs.partitions import runs
from shaberi_dagster.defs.pools import endpoint_slots
from shaberi_dagster.defs.resources import COMMAND_TAG, WorkspaceResource
from shaberi_dagster.evaluation import materialize
from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.outcome import CHECKS
from shaberi_dagster.planning import load_source, store_question_set
from shaberi_dagster.runspec import CallOptions

OWNERS = ["team:evaluation"]
_UPSTREAM = {
    "answers": ["questions"],
    "judgements": ["answers"],
    "scores": ["answers", "judgements"],
    "metrics": ["scores"],
}
_KINDS = {
    "questions": {"deltalake"},
    "answers": {"openai", "deltalake"},
    "judgements": {"openai", "deltalake"},
    "scores": {"sql", "duckdb", "deltalake"},
    "metrics": {"sql", "duckdb", "deltalake"},
}
Results = Iterator[dg.MaterializeResult[None]]


class _Judges(pydantic.BaseModel):
    judges: list[str] = pydantic.Field(default=[], description="Only these of the run's judges; none means all.")


AnswersConfig = config_class("AnswersConfig", "How to make calls.", CallOptions)
JudgementsConfig = config_class("JudgementsConfig", "Which judges to call, and how.", _Judges, CallOptions)


def specs_of(stage: str) -> list[dg.AssetSpec]:
    """One asset for each benchmark."""
    return [
        dg.AssetSpec(
            [stage, name],
            deps=[[upstream, name] for upstream in _UPSTREAM.get(stage, [])],
            description=f"{benchmark.title}: {TABLES[stage].meaning}.",
            group_name=stage,
            kinds=_KINDS[stage],
            owners=OWNERS,
            partitions_def=None if stage == "questions" else runs,
            metadata={
                "dagster/column_schema": column_schema(stage),
                "dagster/table_name": stage,
                "benchmark": benchmark.description,
                "scale": f"{benchmark.scale_minimum} to {benchmark.scale_maximum}",
            },
        )
        for name, benchmark in BENCHMARKS.items()
    ]


def _checks_of(stage: str) -> list[dg.AssetCheckSpec]:
    return [
        dg.AssetCheckSpec(check, asset=dg.AssetKey([stage, name]), description=description, partitions_def=runs)
        for name in BENCHMARKS
        for check, description in CHECKS[stage].items()
    ]


def _bring_up_to_date(
    stage: str, context: dg.AssetExecutionContext, resource: WorkspaceResource, config: dg.Config | None = None
) -> Results:
    options = CallOptions(**part_of(config, CallOptions)) if config else CallOptions()
    judges = part_of(config, _Judges).get("judges", []) if config else []
    # Stages, and runs of one command, have one budget.
    workspace = resource.workspace(context.log, options, context.run.tags.get(COMMAND_TAG, context.run.run_id))
    selected = [
        key for key in (dg.AssetKey([stage, name]) for name in BENCHMARKS) if key in context.selected_asset_keys
    ]
    outcomes = []
    with canceled_when_interrupted(context):
        for run_id in context.partition_keys:
            with endpoint_slots(stage, run_id, workspace, context, judges):
                outcomes += materialize(stage, run_id, [key.path[-1] for key in selected], workspace, judges)
    for key in selected:
        own = [outcome for outcome in outcomes if outcome.benchmark == key.path[-1]]
        yield materialize_result(key, own, list(CHECKS[stage]))


def _stage_asset(stage: str) -> Callable[[Callable[..., Results]], dg.AssetsDefinition]:
    """One op for all benchmarks of a stage; a backfill of many runs is one Dagster run."""
    return dg.multi_asset(
        name=stage,
        specs=specs_of(stage),
        check_specs=_checks_of(stage),
        can_subset=True,
        backfill_policy=dg.BackfillPolicy.single_run(),
    )


@dg.multi_asset(name="questions", specs=specs_of("questions"), can_subset=True)
def questions(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> Results:
    """The default question set of each benchmark: the configured folder's, else the starter set."""
    place = workspace.workspace(context.log)
    for key in sorted(context.selected_asset_keys):
        found = load_source(get_benchmark(key.path[-1]), None, None, place)
        store_question_set(place.lake, found)
        yield dg.MaterializeResult(
            asset_key=key,
            data_version=dg.DataVersion(found.sha256),
            metadata=question_set_metadata(found.name, found.sha256, len(found.questions), found.source),
        )


@_stage_asset("answers")
def answers(context: dg.AssetExecutionContext, workspace: WorkspaceResource, config: AnswersConfig) -> Results:  # type: ignore[valid-type]
    """Ask the model every question that has no answer yet."""
    yield from _bring_up_to_date("answers", context, workspace, config)


@_stage_asset("judgements")
def judgements(context: dg.AssetExecutionContext, workspace: WorkspaceResource, config: JudgementsConfig) -> Results:  # type: ignore[valid-type]
    """Ask every judge about every answer that it has not judged yet."""
    yield from _bring_up_to_date("judgements", context, workspace, config)


@_stage_asset("scores")
def scores(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> Results:
    """Derive scores from judgements; no call is made."""
    yield from _bring_up_to_date("scores", context, workspace)


@_stage_asset("metrics")
def metrics(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> Results:
    """Roll scores up into the numbers of the leaderboard."""
    yield from _bring_up_to_date("metrics", context, workspace)


ASSETS = [questions, answers, judgements, scores, metrics]
