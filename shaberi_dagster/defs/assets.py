"""The assets: one for each stage and one op each, partition = run."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pydantic

from shaberi_dagster.defs.content import refuse_other_content
from shaberi_dagster.defs.interrupts import canceled_when_interrupted
from shaberi_dagster.defs.metadata import column_schema, question_sets_metadata, stage_result, with_questions
from shaberi_dagster.defs.options import config_class, part_of
from shaberi_dagster.defs.partitions import QUESTIONS, runs
from shaberi_dagster.defs.pools import endpoint_slots
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.reports import gate
from shaberi_dagster.runs.planning import add_pipeline
from shaberi_dagster.runs.questions import load_source, store_question_set
from shaberi_dagster.runs.spec import CallOptions
from shaberi_dagster.runs.stages.answers import Answers
from shaberi_dagster.runs.stages.base import Stage
from shaberi_dagster.runs.stages.consensus import ConsensusAnswers
from shaberi_dagster.runs.stages.evaluation import materialize
from shaberi_dagster.runs.stages.imported import add_to_imported, made_together, reprocess_imported
from shaberi_dagster.runs.stages.judgements import Judgements
from shaberi_dagster.runs.stages.metrics import Metrics
from shaberi_dagster.runs.stages.pass_outputs import PassOutputs
from shaberi_dagster.runs.stages.result import StageResult
from shaberi_dagster.runs.stages.scores import Scores
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS, get_benchmark
from shaberi_dagster.util.identity import sha256_json
from shaberi_dagster.util.names import check_known

OWNERS = ["team:evaluation"]


class _Part(pydantic.BaseModel):
    benchmarks: list[str] = pydantic.Field(default=[], description="Only these benchmarks; none means all of the run.")


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
        default=False, description="Let today's versions of passes look at what earlier ones have seen; no calls."
    )


QuestionsConfig = config_class("QuestionsConfig", "Which questions to read.", _Part)
AnswersConfig = config_class("AnswersConfig", "How to make calls.", _Part, CallOptions)
JudgementsConfig = config_class("JudgementsConfig", "Which judges to call, and how.", _Part, _Judges, CallOptions)
PassesConfig = config_class("PassesConfig", "Which passes to add, and how to make calls.", _Part, _Passes, CallOptions)
ScoresConfig = config_class("ScoresConfig", "What to derive scores of.", _Part)
MetricsConfig = config_class("MetricsConfig", "What to compare the run with.", _Part, _Gate)


@dg.asset(
    name=QUESTIONS,
    group_name="evaluation",
    kinds={"deltalake"},
    owners=OWNERS,
    metadata={"dagster/column_schema": column_schema(QUESTIONS), "dagster/table_name": QUESTIONS},
)
def questions(
    context: dg.AssetExecutionContext,
    workspace: WorkspaceResource,
    config: QuestionsConfig,  # type: ignore[valid-type]
) -> dg.MaterializeResult[None]:
    """The default question set of each benchmark: the configured folder's, else the starter set."""
    place = workspace.workspace(context.log)
    names = part_of(config, _Part).benchmarks or list(ALL_BENCHMARKS)
    found = {name: load_source(get_benchmark(name), None, None, place) for name in names}
    for questions_read in found.values():
        store_question_set(place.lake, questions_read)
    return dg.MaterializeResult(
        data_version=dg.DataVersion(sha256_json({name: one.sha256 for name, one in found.items()})),
        metadata=question_sets_metadata(
            {name: (one.name, one.sha256, len(one.questions), one.source) for name, one in found.items()}
        ),
    )


def _bring_up_to_date(
    stage: type[Stage], context: dg.AssetExecutionContext, resource: WorkspaceResource, config: dg.Config
) -> Iterator[dg.MaterializeResult[None]]:
    judging, asked, gate = part_of(config, _Judges), part_of(config, _Passes), part_of(config, _Gate)
    workspace = resource.workspace(context.log, part_of(config, CallOptions))
    names = part_of(config, _Part).benchmarks or list(ALL_BENCHMARKS)
    check_known("benchmark", names, ALL_BENCHMARKS)
    together = made_together(stage.name, context.partition_keys, workspace.lake)
    results: list[StageResult] = []
    with canceled_when_interrupted(context):
        for run_id in (key for key in context.partition_keys if key not in together):
            refuse_other_content(context.run, run_id, names, workspace)
            if asked.passes:
                add_pipeline(run_id, asked.passes, asked.pass_options, workspace)
            with endpoint_slots(stage.name, run_id, workspace, context, judging.judges):
                made = materialize(stage.name, run_id, names, workspace, judging.judges, reprocess=judging.reprocess)
            results += _gated(made, gate.baseline, workspace.settings.warehouse)
        if together:
            if asked.passes:
                add_to_imported(together, asked.passes, asked.pass_options, workspace)
            results += reprocess_imported(stage.name, together, names, workspace, again=judging.reprocess)
    if len(context.partition_keys) == 1:  # of several runs no texts are shown
        results = [with_questions(result, workspace.lake) for result in results]
    yield stage_result(stage, results)


def _asset_of(stage: type[Stage], description: str, config_type: type[dg.Config]) -> dg.AssetsDefinition:
    """Make the asset of a stage; a backfill of many runs is one Dagster run."""

    # Without a return type, which Dagster would take for that of the output.
    def body(  # type: ignore[no-untyped-def]  # noqa: ANN202
        context: dg.AssetExecutionContext,
        workspace: WorkspaceResource,
        config: config_type,  # type: ignore[valid-type]
    ):
        return _bring_up_to_date(stage, context, workspace, config)

    name = stage.name
    spec = dg.AssetSpec(
        name,
        deps=[needed.name for needed in stage.needs] or [QUESTIONS],
        description=description,
        group_name="evaluation",
        kinds=set(stage.kinds),
        owners=OWNERS,
        partitions_def=runs,
        metadata={"dagster/column_schema": column_schema(name), "dagster/table_name": name},
    )
    checks = {**stage.checks, **stage.graded_checks}
    declare = dg.multi_asset(
        name=name,
        specs=[spec],
        check_specs=[
            dg.AssetCheckSpec(check, asset=name, description=text, partitions_def=runs)
            for check, text in checks.items()
        ],
        can_subset=True,  # so that checks made on request alone need no result
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    return declare(body)


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
    _asset_of(
        Scores, "Derive scores from judgements, without passes and under each pipeline; no call is made.", ScoresConfig
    ),
    _asset_of(Metrics, "Roll scores up into the numbers of the leaderboard.", MetricsConfig),
]
