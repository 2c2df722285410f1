"""The scores of a run, by SQL over its answers, judgements and pass outputs."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import ClassVar

import duckdb
import polars as pl

from shaberi_dagster.lake.catalog import connect
from shaberi_dagster.lake.connections import Streamed, read_frame
from shaberi_dagster.lake.schemas import ANSWERS, CONSENSUS, JUDGEMENTS, SCORES
from shaberi_dagster.lake.store import conform
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.stages.base import Stage, StageResult, by_class, complete_check
from shaberi_dagster.runs.stages.judgements import Judgements
from shaberi_dagster.runs.stages.pass_outputs import PassOutputs, passes_of
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.tasks.passes.pipeline import Passes, pipeline_scores

_FINDING_COLUMNS = [
    *("run_id", "benchmark", "question_id", "sample_index", "strategy", "answer_hash"),
    *("pass", "pass_version", "pass_config_hash", "severity", "reason"),
]


class Scores(Stage):
    """The scores of a run, derived from its answers, judgements and pass outputs; no call is made."""

    name = "scores"
    needs = (Judgements, PassOutputs)
    makes_calls = False
    kinds = frozenset({"sql", "duckdb", "deltalake"})
    checks: ClassVar[Mapping[str, str]] = {
        "complete": "Each judge has a score row for each planned sample, under each pass pipeline.",
    }

    def materialize(self) -> list[StageResult]:
        """Derive them all; they are stored where they are others than before."""
        spec = self.plan.spec
        keys = [(spec.run_id, name, judge) for name in self.benchmarks for judge in spec.benchmarks[name].judges]
        judges = pl.DataFrame(keys, schema=dict.fromkeys(("run_id", "benchmark", "judge"), pl.String), orient="row")
        frame = score_runs(judges, passes_of(spec), self.workspace)
        return [_result(spec, name, frame.filter(benchmark=name)) for name in self.benchmarks]


def score_runs(judges: pl.DataFrame, pipelines: Sequence[Passes], workspace: Workspace) -> pl.DataFrame:
    """Derive the scores of some runs without passes, and under each pipeline.

    Args:
        judges: run_id, benchmark, judge: whose judgements count.
        pipelines: Passes in order, whose findings are in `pass_outputs`.
        workspace: Where to read and write.

    Returns:
        All rows of these runs and benchmarks.
    """
    keys = {"run_id": judges["run_id"].unique().to_list(), "benchmark": judges["benchmark"].unique().to_list()}
    with connect(workspace.lake, ANSWERS.name, CONSENSUS.name, JUDGEMENTS.name) as connection:
        frame = derive("scores", connection, {"run_judges": judges}, workspace.settings)
    if pipelines:
        findings = workspace.lake.read("pass_outputs", keys | {"status": "ok"}, _FINDING_COLUMNS)
        scored = conform(SCORES, frame)
        frame = pl.concat([scored, pipeline_scores(scored, findings, pipelines, scales())])
    workspace.lake.update("scores", frame, keys)
    return frame


def derive(
    table: str, connection: duckdb.DuckDBPyConnection, relations: Mapping[str, pl.DataFrame], settings: Settings
) -> pl.DataFrame:
    """The rows of `sql/stages/{table}.sql`.

    Args:
        table: `scores` or `metrics`.
        connection: With the stage's source tables in schema `lake`.
        relations: What the file says that it needs; rows come out for the runs (`run_id`) and benchmarks in them.
        settings: Where the file is.
    """
    sql = (settings.sql / "stages" / f"{table}.sql").read_text(encoding="utf-8")
    for name, relation in relations.items():
        connection.register(name, Streamed(relation))
    run_ids = pl.concat([relation["run_id"] for relation in relations.values()])
    bound = {"first_run_id": run_ids.min(), "last_run_id": run_ids.max()}
    return read_frame(connection, sql, bound).with_columns(created_at=pl.lit(datetime.now(UTC)))


def scales() -> pl.DataFrame:
    """benchmark, scale_minimum, scale_maximum, reported_multiplier."""
    return pl.DataFrame(
        [
            (name, float(benchmark.scale_minimum), float(benchmark.scale_maximum), benchmark.reported_multiplier)
            for name, benchmark in ALL_BENCHMARKS.items()
        ],
        ["benchmark", "scale_minimum", "scale_maximum", "reported_multiplier"],
        orient="row",
    )


def _result(spec: RunSpec, benchmark: str, frame: pl.DataFrame) -> StageResult:
    n_pipelines = frame["pipeline"].n_unique() if frame.height else 1
    planned = spec.n_answers(benchmark) * len(spec.benchmarks[benchmark].judges) * n_pipelines
    scored = frame.filter(pl.col("score").is_not_null())
    means = scored.group_by("pipeline").agg(pl.col("score").mean()).sort("pipeline")
    return StageResult(
        run_id=spec.run_id,
        stage=Scores.name,
        benchmark=benchmark,
        facts={
            "rows": frame.height,
            "planned": planned,
            "scored": scored.height,
            "without_score_by_class": by_class(frame),
            "mean_score_by_pipeline": dict(means.iter_rows()),
        },
        preview=frame.tail(5).select("judge", "question_id", "status", "pipeline", "baseline_score", "score"),
        checks=(complete_check(frame.height, planned),),
    )
