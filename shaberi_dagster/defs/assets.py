"""The assets: one for each stage and one op each, partition = run; and how those of other operations are declared."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any

import dagster as dg
import pydantic

from shaberi_dagster.defs.content import refuse_other_content
from shaberi_dagster.defs.execution import canceled_when_interrupted, run_of
from shaberi_dagster.defs.metadata import column_schema, question_sets_metadata, stage_result, with_questions
from shaberi_dagster.defs.options import config_class, part_of
from shaberi_dagster.defs.partitions import QUESTIONS, runs
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.lake.journal.locks import slot
from shaberi_dagster.llm.endpoints import EMBEDDED_URL
from shaberi_dagster.reports import gate
from shaberi_dagster.runs.planning import add_pipeline
from shaberi_dagster.runs.questions import load_source, store_question_set
from shaberi_dagster.runs.spec import CallOptions
from shaberi_dagster.runs.stages.answers import Answers
from shaberi_dagster.runs.stages.base import Stage, StageResult
from shaberi_dagster.runs.stages.consensus import ConsensusAnswers
from shaberi_dagster.runs.stages.evaluation import materialize
from shaberi_dagster.runs.stages.imported import add_to_imported, made_together, reprocess_imported
from shaberi_dagster.runs.stages.judgements import Judgements
from shaberi_dagster.runs.stages.metrics import Metrics
from shaberi_dagster.runs.stages.ordered import CALLING_NAMES, stage_named
from shaberi_dagster.runs.stages.pass_outputs import PassOutputs
from shaberi_dagster.runs.stages.scores import Scores
from shaberi_dagster.runs.stored import stored_spec
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS, get_benchmark
from shaberi_dagster.util.identity import sha256_json
from shaberi_dagster.util.names import check_known


def operation(
    key: str | Sequence[str], *, table: str | None = None, checks: Mapping[str, str] | None = None, **declared: Any
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Make an asset of a function that returns its `dg.MaterializeResult`; an interrupt cancels its Dagster run.

    Args:
        key: Of the asset.
        table: The lake's table that it fills, whose columns the UI shows.
        checks: Descriptions of its checks by name.
        declared: As for `dg.asset`.
    """
    metadata = {"dagster/table_name": table, "dagster/column_schema": column_schema(table)} if table else None
    specs = [dg.AssetCheckSpec(name, asset=key, description=text) for name, text in (checks or {}).items()]

    def made(function: Callable[..., Any]) -> dg.AssetsDefinition:
        @wraps(function)
        def body(context: dg.AssetExecutionContext, *given: Any, **named: Any) -> Any:
            with canceled_when_interrupted(context):
                return function(context, *given, **named)

        declare: Any = dg.asset(key=key, owners=OWNERS, metadata=metadata, check_specs=specs, **declared)
        asset: dg.AssetsDefinition = declare(body)
        return asset

    return made


def import_checks(discrepancies: Sequence[str], left_out: Mapping[str, int]) -> list[dg.AssetCheckResult]:
    """Report whether an import has everything that its files had.

    Args:
        discrepancies: Sums of files and lake that do not agree.
        left_out: What could not be read, by what is said of it ("lines quarantined").
    """
    return [
        dg.AssetCheckResult(
            check_name="reconciled",
            passed=not discrepancies,
            description="; ".join(discrepancies) or "all sums agree",
        ),
        dg.AssetCheckResult(
            check_name="nothing_quarantined",
            passed=not any(left_out.values()),
            severity=dg.AssetCheckSeverity.WARN,
            description=", ".join(f"{count:,} {reason}" for reason, count in left_out.items()),
        ),
    ]


@contextmanager
def endpoint_slots(
    stage: str, run_id: str, workspace: Workspace, context: dg.AssetExecutionContext, judges: Sequence[str] = ()
) -> Iterator[None]:
    """Within this context the process has a slot of each endpoint that the stage calls; waits for them.

    `dagster.yaml` says how many slots there are (`concurrency.pools.default_limit`; without it there is no limit). The
    embedded model is inside each process and has no slots.

    Args:
        stage: One of `stages.ordered.STAGE_NAMES`.
        run_id: A registered run.
        workspace: Where the run is read; its reporter gets a note of a wait, once for each endpoint.
        context: Of the op.
        judges: For `judgements`: only these; none named means all of the run's.

    Raises:
        ConfigurationError: There is no such run.
    """
    limit = context.instance.global_op_concurrency_default_limit
    with ExitStack() as stack:
        if limit and stage in CALLING_NAMES:
            endpoints = stage_named(stage).model_endpoints(stored_spec(run_id, workspace), judges)
            # All runs take them in the same order, so that none waits for one that waits for it.
            for url in sorted({endpoint.base_url for endpoint, _ in endpoints} - {EMBEDDED_URL}):
                said = f"waiting: {limit} other runs call {url} (concurrency in dagster.yaml)"
                name = "endpoint-" + re.sub(r"[^\w.-]+", "_", url.partition("://")[2])
                home = Path(context.instance.root_directory)
                stack.enter_context(slot(home, name, limit, partial(workspace.reporter.note, said), shared="dagster"))
        yield


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


@operation(QUESTIONS, table=QUESTIONS, group_name="evaluation", kinds={"deltalake"})
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
    with canceled_when_interrupted(context):
        judging, asked, gate = part_of(config, _Judges), part_of(config, _Passes), part_of(config, _Gate)
        workspace = resource.workspace(context.log, part_of(config, CallOptions))
        names = part_of(config, _Part).benchmarks or list(ALL_BENCHMARKS)
        check_known("benchmark", names, ALL_BENCHMARKS)
        run_ids = [run_of(key) for key in context.partition_keys]
        together = made_together(stage.name, run_ids, workspace.lake)
        results: list[StageResult] = []
        for run_id in (run_id for run_id in run_ids if run_id not in together):
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
    if len(run_ids) == 1:  # of several runs no texts are shown
        results = [with_questions(result, workspace.lake) for result in results]
    yield stage_result(stage, results)


def _asset_of(stage: type[Stage], description: str, config_type: type[dg.Config]) -> dg.AssetsDefinition:
    """Make the asset of a stage; in a backfill each run has a Dagster run of its own, and fails alone."""

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
        description=f"{description} Click Materialize and choose runs.",
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
