"""The assets: asset key = [stage, benchmark], partition = run, one op per stage."""

from collections.abc import Iterator
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
from shaberi_dagster.reports import gate
from shaberi_dagster.runs.planning import add_pipeline
from shaberi_dagster.runs.questions import load_source, store_question_set
from shaberi_dagster.runs.spec import CallOptions
from shaberi_dagster.stages.answers import Answers
from shaberi_dagster.stages.base import Stage
from shaberi_dagster.stages.consensus import ConsensusAnswers
from shaberi_dagster.stages.evaluation import materialize
from shaberi_dagster.stages.imported import add_to_imported, made_together, reprocess_imported
from shaberi_dagster.stages.judgements import Judgements
from shaberi_dagster.stages.metrics import Metrics
from shaberi_dagster.stages.ordered import STAGE_NAMES, stage_named
from shaberi_dagster.stages.pass_outputs import PassOutputs
from shaberi_dagster.stages.result import StageResult
from shaberi_dagster.stages.scores import Scores

OWNERS = ["team:evaluation"]
_QUESTIONS = "questions"
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


def specs_of(name: str) -> list[dg.AssetSpec]:
    """List the assets of a stage, or of the questions: one for each benchmark."""
    stage = stage_named(name) if name in STAGE_NAMES else None
    upstream = [_QUESTIONS] if stage and not stage.needs else [needed.name for needed in stage.needs] if stage else []
    return [
        dg.AssetSpec(
            [name, benchmark.name],
            deps=[[needed, benchmark.name] for needed in upstream],
            description=f"{benchmark.title}: {TABLES[name].meaning}.",
            group_name=name,
            kinds=set(stage.kinds) if stage else {"deltalake"},
            owners=OWNERS,
            partitions_def=runs if stage else None,
            metadata={
                "dagster/column_schema": column_schema(name),
                "dagster/table_name": name,
                "benchmark": benchmark.description,
                "scale": f"{benchmark.scale_minimum} to {benchmark.scale_maximum}",
            },
        )
        for benchmark in ALL_BENCHMARKS.values()
    ]


def _checks_of(stage: str) -> list[dg.AssetCheckSpec]:
    return [
        dg.AssetCheckSpec(check, asset=dg.AssetKey([stage, name]), description=description, partitions_def=runs)
        for name, benchmark in ALL_BENCHMARKS.items()
        for check, description in stage_named(stage).checks_of(benchmark).items()
    ]


@dg.multi_asset(name=_QUESTIONS, specs=specs_of(_QUESTIONS), can_subset=True)
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


def _bring_up_to_date(
    stage: type[Stage], context: dg.AssetExecutionContext, resource: WorkspaceResource, config: dg.Config
) -> Results:
    judging, asked, gate = part_of(config, _Judges), part_of(config, _Passes), part_of(config, _Gate)
    # Stages, and runs of one command, have one budget.
    spender = context.run.tags.get(COMMAND_TAG, context.run.run_id)
    workspace = resource.workspace(context.log, part_of(config, CallOptions), spender)
    names = [name for name in ALL_BENCHMARKS if dg.AssetKey([stage.name, name]) in context.selected_asset_keys]
    together = made_together(stage.name, context.partition_keys, workspace.lake)
    results: list[StageResult] = []
    with canceled_when_interrupted(context):
        for run_id in (key for key in context.partition_keys if key not in together):
            refuse_other_content(context.run, run_id, workspace)
            if asked.passes:
                add_pipeline(run_id, asked.passes, asked.pass_options, workspace)
            with endpoint_slots(stage.name, run_id, workspace, context, judging.judges):
                made = materialize(stage.name, run_id, names, workspace, judging.judges, reprocess=judging.reprocess)
            results += _gated(made, gate.baseline, workspace.settings.warehouse)
        if together:
            if asked.passes:
                add_to_imported(together, asked.passes, asked.pass_options, workspace)
            results += reprocess_imported(stage.name, together, names, workspace, again=judging.reprocess)
    for name in names:
        own = [result for result in results if result.benchmark == name]
        if len(own) == 1:  # of several no texts are shown
            own = [with_questions(own[0], workspace.lake)]
        checks = stage.checks_of(get_benchmark(name))
        yield materialize_result(dg.AssetKey([stage.name, name]), own, list(checks))


def _asset_of(stage: type[Stage], description: str, config_type: type[dg.Config] | None = None) -> dg.AssetsDefinition:
    """Make the assets of a stage: one op for all benchmarks, and a backfill of many runs is one Dagster run."""

    # Without a return type, which Dagster would take for that of the outputs.
    def without_config(context: dg.AssetExecutionContext, workspace: WorkspaceResource):  # type: ignore[no-untyped-def]  # noqa: ANN202
        return _bring_up_to_date(stage, context, workspace, dg.Config())

    def with_config(  # type: ignore[no-untyped-def]  # noqa: ANN202
        context: dg.AssetExecutionContext,
        workspace: WorkspaceResource,
        config: config_type,  # type: ignore[valid-type]
    ):
        return _bring_up_to_date(stage, context, workspace, config)

    making = dg.multi_asset(
        name=stage.name,
        description=description,
        specs=specs_of(stage.name),
        check_specs=_checks_of(stage.name),
        can_subset=True,
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    return making(with_config if config_type else without_config)


def _gated(results: list[StageResult], baseline: str | None, warehouse: Path) -> list[StageResult]:
    """Add the check `no_regression` to the results of one run, where rules grade and a baseline is named."""
    names = [result.benchmark for result in results if get_benchmark(result.benchmark).has_rule]
    if baseline is None or not names:
        return results
    checks = gate.regression_checks(warehouse, results[0].run_id, baseline, names)
    return [
        replace(result, checks=(*result.checks, checks[result.benchmark])) if result.benchmark in checks else result
        for result in results
    ]


ASSETS = [
    questions,
    _asset_of(Answers, "Ask the model every question that has no answer yet.", AnswersConfig),
    _asset_of(ConsensusAnswers, "Let every strategy make one answer of the samples of each question.", AnswersConfig),
    _asset_of(Judgements, "Ask every judge about every answer that it has not judged yet.", JudgementsConfig),
    _asset_of(
        PassOutputs,
        "Examine every answer by the passes of the run's pipelines; most passes make no call.",
        PassesConfig,
    ),
    _asset_of(Scores, "Derive scores from judgements, without passes and under each pipeline; no call is made."),
    _asset_of(Metrics, "Roll scores up into the numbers of the leaderboard.", MetricsConfig),
]
