"""The assets: asset key = [stage, benchmark], partition = run, one op per stage."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pydantic

from shaberi_dagster.benchmarks.registry import ALL_BENCHMARKS, get_benchmark
from shaberi_dagster.defs.content import refuse_other_content
from shaberi_dagster.defs.interrupts import canceled_when_interrupted
from shaberi_dagster.defs.metadata import column_schema, materialize_result, question_set_metadata, with_questions
from shaberi_dagster.defs.options import config_class, part_of
from shaberi_dagster.defs.partitions import runs
from shaberi_dagster.defs.pools import endpoint_slots
from shaberi_dagster.defs.resources import COMMAND_TAG, WorkspaceResource
from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.runs.planning import add_pipeline, load_source, store_question_set
from shaberi_dagster.runs.spec import CallOptions
from shaberi_dagster.stages.evaluation import materialize
from shaberi_dagster.stages.imported import add_to_imported, made_together, reprocess_imported
from shaberi_dagster.stages.result import StageResult, checks_of

OWNERS = ["team:evaluation"]
_UPSTREAM = {
    "answers": ["questions"],
    "consensus": ["answers"],
    "judgements": ["answers", "consensus"],
    "pass_outputs": ["answers", "consensus"],
    "scores": ["judgements", "pass_outputs"],
    "metrics": ["scores"],
}
_KINDS = {
    "questions": {"deltalake"},
    "answers": {"openai", "deltalake"},
    "consensus": {"openai", "deltalake"},
    "judgements": {"openai", "deltalake"},
    "pass_outputs": {"python", "deltalake"},
    "scores": {"sql", "duckdb", "deltalake"},
    "metrics": {"sql", "duckdb", "deltalake"},
}
Results = Iterator[dg.MaterializeResult[None]]


class _Judges(pydantic.BaseModel):
    judges: list[str] = pydantic.Field(default=[], description="Only these of the run's judges; none means all.")
    reprocess: bool = pydantic.Field(
        default=False, description="Find the scores in the stored outputs again; call no judge."
    )


class _Gate(pydantic.BaseModel):
    baseline: str | None = pydantic.Field(
        default=None, description="Check that the run is not worse than this baseline; none: there is no such check."
    )


class _Passes(pydantic.BaseModel):
    passes: list[str] = pydantic.Field(
        default=[], description="One more pipeline, in order; the run's own pipelines are brought up to date anyway."
    )
    pass_options: list[str] = pydantic.Field(default=[], description="Settings, as NAME.SETTING=VALUE.")
    reprocess: bool = pydantic.Field(
        default=False, description="Let today's versions of passes look at what earlier ones have seen; call nobody."
    )


AnswersConfig = config_class("AnswersConfig", "How to make calls.", CallOptions)
JudgementsConfig = config_class("JudgementsConfig", "Which judges to call, and how.", _Judges, CallOptions)
MetricsConfig = config_class("MetricsConfig", "What to compare the run with.", _Gate)
PassesConfig = config_class("PassesConfig", "Which passes to add, and how to make calls.", _Passes, CallOptions)


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
        for name, benchmark in ALL_BENCHMARKS.items()
    ]


def _checks_of(stage: str) -> list[dg.AssetCheckSpec]:
    return [
        dg.AssetCheckSpec(check, asset=dg.AssetKey([stage, name]), description=description, partitions_def=runs)
        for name, benchmark in ALL_BENCHMARKS.items()
        for check, description in checks_of(stage, benchmark).items()
    ]


def _bring_up_to_date(
    stage: str, context: dg.AssetExecutionContext, resource: WorkspaceResource, config: dg.Config | None = None
) -> Results:
    options = CallOptions(**part_of(config, CallOptions)) if config else CallOptions()
    judging = _Judges(**part_of(config, _Judges)) if config else _Judges()  # `reprocess` is of passes as well
    asked = _Passes(**part_of(config, _Passes)) if config else _Passes()
    gate = _Gate(**part_of(config, _Gate)) if config else _Gate()
    # Stages, and runs of one command, have one budget.
    workspace = resource.workspace(context.log, options, context.run.tags.get(COMMAND_TAG, context.run.run_id))
    names = [name for name in ALL_BENCHMARKS if dg.AssetKey([stage, name]) in context.selected_asset_keys]
    together = made_together(stage, context.partition_keys, workspace.lake)
    outcomes = []
    with canceled_when_interrupted(context):
        for run_id in (one for one in context.partition_keys if one not in together):
            refuse_other_content(context.run, run_id, workspace)
            if asked.passes:
                add_pipeline(run_id, asked.passes, asked.pass_options, workspace)
            with endpoint_slots(stage, run_id, workspace, context, judging.judges):
                made = materialize(stage, run_id, names, workspace, judging.judges, reprocess=judging.reprocess)
            outcomes += _gated(made, gate.baseline, workspace.settings.warehouse)
        if together:
            if asked.passes:
                add_to_imported(together, asked.passes, asked.pass_options, workspace)
            outcomes += reprocess_imported(stage, together, names, workspace, anew=judging.reprocess)
    for name in names:
        own = [outcome for outcome in outcomes if outcome.benchmark == name]
        if len(own) == 1:  # of several no texts are shown
            own = [with_questions(own[0], workspace.lake)]
        yield materialize_result(dg.AssetKey([stage, name]), own, list(checks_of(stage, get_benchmark(name))))


def _gated(outcomes: list[StageResult], baseline: str | None, warehouse: Path) -> list[StageResult]:
    """The outcomes of one run; compared with a baseline, metrics that rules grade have the check `no_regression`."""
    names = [one.benchmark for one in outcomes if "no_regression" in checks_of(one.stage, get_benchmark(one.benchmark))]
    if baseline is None or not names:
        return outcomes
    # It brings SciPy, 17 MB that other runs need not have.
    from shaberi_dagster.reports.gate import regression_checks  # noqa: PLC0415

    checks = regression_checks(warehouse, outcomes[0].run_id, baseline, names)
    return [
        replace(one, checks=(*one.checks, checks[one.benchmark])) if one.benchmark in checks else one
        for one in outcomes
    ]


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


@_stage_asset("consensus")
def consensus(context: dg.AssetExecutionContext, workspace: WorkspaceResource, config: AnswersConfig) -> Results:  # type: ignore[valid-type]
    """Let every strategy make one answer of the samples of each question."""
    yield from _bring_up_to_date("consensus", context, workspace, config)


@_stage_asset("judgements")
def judgements(context: dg.AssetExecutionContext, workspace: WorkspaceResource, config: JudgementsConfig) -> Results:  # type: ignore[valid-type]
    """Ask every judge about every answer that it has not judged yet."""
    yield from _bring_up_to_date("judgements", context, workspace, config)


@_stage_asset("pass_outputs")
def pass_outputs(context: dg.AssetExecutionContext, workspace: WorkspaceResource, config: PassesConfig) -> Results:  # type: ignore[valid-type]
    """Examine every answer by the passes of the run's pipelines; most passes make no call."""
    yield from _bring_up_to_date("pass_outputs", context, workspace, config)


@_stage_asset("scores")
def scores(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> Results:
    """Derive scores from judgements, without passes and under each pipeline; no call is made."""
    yield from _bring_up_to_date("scores", context, workspace)


@_stage_asset("metrics")
def metrics(context: dg.AssetExecutionContext, workspace: WorkspaceResource, config: MetricsConfig) -> Results:  # type: ignore[valid-type]
    """Roll scores up into the numbers of the leaderboard."""
    yield from _bring_up_to_date("metrics", context, workspace, config)


ASSETS = [questions, answers, consensus, judgements, pass_outputs, scores, metrics]
