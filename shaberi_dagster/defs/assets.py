"""The assets: asset key = [stage, benchmark], partition = run, one op per stage."""

from collections.abc import Iterator

import dagster as dg

from shaberi_dagster.benchmarks.registry import BENCHMARKS, get_benchmark
from shaberi_dagster.defs.metadata import column_schema, materialize_result
from shaberi_dagster.defs.partitions import runs
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.evaluation import materialize
from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.outcome import CHECKS
from shaberi_dagster.planning import load_source, store_question_set

OWNERS = ["team:evaluation"]
_UPSTREAM = {"answers": ["questions"], "judgements": ["answers"], "scores": ["answers", "judgements"], "metrics": ["scores"]}
_KINDS = {
    "questions": {"deltalake"},
    "answers": {"openai", "deltalake"},
    "judgements": {"openai", "deltalake"},
    "scores": {"sql", "duckdb", "deltalake"},
    "metrics": {"sql", "duckdb", "deltalake"},
}
Results = Iterator[dg.MaterializeResult[None]]


class JudgementsConfig(dg.Config):
    """Which judges to call."""

    judges: list[str] = []
    """Only these of the run's judges; none means all."""


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
        dg.AssetCheckSpec(check, asset=dg.AssetKey([stage, name]), description=description)
        for name in BENCHMARKS
        for check, description in CHECKS[stage].items()
    ]


def _bring_up_to_date(
    stage: str, context: dg.AssetExecutionContext, resource: WorkspaceResource, judges: list[str] | None = None
) -> Results:
    workspace = resource.workspace(context.log)
    selected = [key for key in (dg.AssetKey([stage, name]) for name in BENCHMARKS) if key in context.selected_asset_keys]
    outcomes = [
        outcome
        for run_id in context.partition_keys
        for outcome in materialize(stage, run_id, [key.path[-1] for key in selected], workspace, judges or [])
    ]
    for key in selected:
        own = [outcome for outcome in outcomes if outcome.benchmark == key.path[-1]]
        yield materialize_result(key, own, list(CHECKS[stage]))


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
            metadata={
                "dagster/row_count": len(found.questions),
                "question_set": found.name,
                "sha256": found.sha256,
                "source": found.source,
            },
        )


_STAGE_OPTIONS = {"can_subset": True, "backfill_policy": dg.BackfillPolicy.single_run()}


@dg.multi_asset(name="answers", specs=specs_of("answers"), check_specs=_checks_of("answers"), **_STAGE_OPTIONS)
def answers(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> Results:
    """Ask the model every question that has no answer yet."""
    yield from _bring_up_to_date("answers", context, workspace)


@dg.multi_asset(name="judgements", specs=specs_of("judgements"), check_specs=_checks_of("judgements"), **_STAGE_OPTIONS)
def judgements(context: dg.AssetExecutionContext, workspace: WorkspaceResource, config: JudgementsConfig) -> Results:
    """Ask every judge about every answer that it has not judged yet."""
    yield from _bring_up_to_date("judgements", context, workspace, config.judges)


@dg.multi_asset(name="scores", specs=specs_of("scores"), check_specs=_checks_of("scores"), **_STAGE_OPTIONS)
def scores(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> Results:
    """Derive scores from judgements; no call is made."""
    yield from _bring_up_to_date("scores", context, workspace)


@dg.multi_asset(name="metrics", specs=specs_of("metrics"), check_specs=_checks_of("metrics"), **_STAGE_OPTIONS)
def metrics(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> Results:
    """Roll scores up into the numbers of the leaderboard."""
    yield from _bring_up_to_date("metrics", context, workspace)


ASSETS = [questions, answers, judgements, scores, metrics]
