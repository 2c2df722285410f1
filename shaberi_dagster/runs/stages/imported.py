"""Pass outputs, scores and metrics of imported runs, many runs at once and without a call."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain

import polars as pl

from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.plan import RunPlan
from shaberi_dagster.runs.planning import with_pipeline
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.stages.base import StageResult
from shaberi_dagster.runs.stages.consensus import ConsensusAnswers
from shaberi_dagster.runs.stages.judgements import Judgements
from shaberi_dagster.runs.stages.metrics import Metrics, measure_runs, set_status
from shaberi_dagster.runs.stages.pass_outputs import PassOutputs, examine_imported, passes_of
from shaberi_dagster.runs.stages.scores import Scores, score_runs
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.tasks.passes.pipeline import Passes
from shaberi_dagster.tasks.passes.registry import make_pipeline
from shaberi_dagster.util.errors import ConfigurationError

REMADE = (PassOutputs.name, Scores.name, Metrics.name)
"""The stages that can be made again of an imported run."""
_SPEC = pl.col("spec").str
IS_IMPORTED = (_SPEC.json_path_match("$.origin") == "imported").fill_null(value=False)
"""Condition for an imported row of `runs`."""
OF_TREE = IS_IMPORTED & (_SPEC.json_path_match("$.imported.form") == "tree")
"""Condition for a row of `runs` imported from a legacy tree."""


def imported_among(run_ids: Sequence[str], lake: Lake) -> list[str]:
    """Select the runs that were imported."""
    runs = lake.read("runs", {"run_id": list(run_ids)}, ["run_id", "spec"])
    return runs.filter(IS_IMPORTED)["run_id"].sort().to_list()


def made_together(stage: str, run_ids: Sequence[str], lake: Lake) -> list[str]:
    """Select the runs whose stage `reprocess_imported` makes, all at once, since it takes no call.

    Args:
        stage: One of `stages.ordered.STAGE_NAMES`.
        run_ids: Any runs.
        lake: Where they are.
    """
    imported = imported_among(run_ids, lake)
    if stage == PassOutputs.name:
        specs = _specs(imported, lake).items()
        return [run_id for run_id, spec in specs if not any(own.endpoint for own in chain(*spec.passes))]
    return [] if stage in {ConsensusAnswers.name, Judgements.name} else imported


def add_to_imported(
    run_ids: Sequence[str], passes: Sequence[str], options: Sequence[str], workspace: Workspace
) -> None:
    """Give imported runs one more pipeline, all in one commit.

    Args:
        run_ids: The runs.
        passes: Names of passes, in order.
        options: Settings of these passes, `NAME.SETTING=VALUE`.
        workspace: Where to read and write.

    Raises:
        ConfigurationError: There is no such pass or setting, or a pass asks a model.
    """
    if asking := [examiner.name for examiner in make_pipeline(passes, options) if examiner.asks]:
        raise ConfigurationError(
            f"pass {asking[0]} asks a model, which is paid for one imported run at a time: "
            f"run-evals --model M --tag T --passes {','.join(passes)}"
        )
    before = _specs(run_ids, workspace.lake)
    specs = {run_id: with_pipeline(spec, passes, options) for run_id, spec in before.items()}
    changed = [spec for run_id, spec in specs.items() if spec != before[run_id]]
    if not changed:
        return
    keys = {"run_id": [spec.run_id for spec in changed]}
    now = pl.DataFrame(
        [(spec.run_id, spec.model_dump_json(), spec.spec_hash) for spec in changed],
        ["run_id", "spec", "spec_hash"],
        orient="row",
    )
    rows = workspace.lake.read("runs", keys).update(now, on="run_id").with_columns(updated_at=datetime.now(UTC))
    workspace.lake.replace("runs", rows, keys)


def reprocess_imported(
    stage: str, run_ids: Sequence[str], benchmarks: Sequence[str], workspace: Workspace, *, again: bool = False
) -> list[StageResult]:
    """Make a stage of imported runs again.

    No model is called: what passes that ask a model have found stands.

    Args:
        stage: One of `REMADE`.
        run_ids: The runs; those that were not imported are left out.
        benchmarks: Which of their benchmarks.
        workspace: Where to read and write.
        again: Let today's versions of the passes look at what earlier ones have seen.

    Returns:
        One outcome per run and benchmark.

    Raises:
        ConfigurationError: The stage cannot be made of imported runs.
    """
    if stage not in REMADE:
        raise ConfigurationError(
            f"run {run_ids[0]} was imported and cannot be continued: only its {', '.join(REMADE)} can be made again"
        )
    specs = _specs(run_ids, workspace.lake)
    planned = _planned(specs.values(), benchmarks, workspace.lake)
    names = planned["benchmark"].unique().sort()
    if stage == Metrics.name:
        for name in names:
            measure_runs(planned.filter(benchmark=name).drop("judges"), workspace)
        for spec in specs.values():
            if any(map(spec.is_made_here, spec.benchmarks)):
                set_status(spec, workspace)
    else:
        for some, pipelines in _by_pipelines(specs):
            for name in names:
                own = planned.filter(pl.col("run_id").is_in(some), benchmark=name)
                if own.is_empty():
                    continue
                if stage == PassOutputs.name:
                    plan = RunPlan(specs[some[0]], [name], workspace)
                    examine_imported(own["run_id"].to_list(), plan, pipelines, again=again)
                else:
                    judges = own.select("run_id", "benchmark", judge="judges").explode("judge")
                    score_runs(judges, pipelines, workspace)
    nothing = pl.DataFrame()
    return [
        StageResult(run_id, stage, name, {"rows": n_planned, "judges": judges}, nothing)
        for run_id, name, n_planned, judges in planned.select("run_id", "benchmark", "n_planned", "judges").iter_rows()
    ]


def _specs(run_ids: Sequence[str], lake: Lake) -> dict[str, RunSpec]:
    """Return the specs of the imported ones of these runs."""
    runs = lake.read("runs", {"run_id": list(run_ids)}, ["run_id", "spec"]).filter(IS_IMPORTED)
    return {run_id: RunSpec.read(spec) for run_id, spec in runs.sort("run_id").iter_rows()}


def _planned(specs: Iterable[RunSpec], benchmarks: Sequence[str], lake: Lake) -> pl.DataFrame:
    """run_id, base_tag, run_number, benchmark, n_planned, n_questions and judges, where there is a judge.

    Those of the import count, and all who have judged the run since.
    """
    rows = [
        {
            "run_id": spec.run_id,
            "base_tag": spec.base_tag,
            "run_number": spec.run_number,
            "benchmark": name,
            "n_planned": spec.n_planned(name),
            "n_questions": spec.n_questions(name),
        }
        for spec in specs
        for name in spec.benchmarks
        if name in benchmarks and name in ALL_BENCHMARKS
    ]
    texts = dict.fromkeys(("run_id", "base_tag", "benchmark"), pl.String())
    numbers = dict.fromkeys(("run_number", "n_planned", "n_questions"), pl.Int64())
    planned = pl.DataFrame(rows, schema={**texts, **numbers})
    run_ids = planned["run_id"].unique().to_list()
    judged = (
        lake.scan("judgements", {"run_id": run_ids}, ["run_id", "benchmark", "judge", "superseded"])
        .filter(~pl.col("superseded"))
        .group_by("run_id", "benchmark")
        .agg(judges=pl.col("judge").unique().sort())
        .collect()
    )
    return planned.join(judged, on=["run_id", "benchmark"], maintain_order="left")


def _by_pipelines(specs: Mapping[str, RunSpec]) -> Iterator[tuple[list[str], Sequence[Passes]]]:
    """Yield runs that have the same pipelines, and these."""
    alike: dict[str, list[str]] = defaultdict(list)
    for run_id, spec in specs.items():
        alike[spec.model_dump_json(include={"passes"})].append(run_id)
    for run_ids in alike.values():
        yield run_ids, passes_of(specs[run_ids[0]])
