"""The scores and metrics stages: SQL over what a run has in the lake."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import duckdb
import orjson
import polars as pl

from shaberi_dagster.benchmarks.registry import ALL_BENCHMARKS, get_benchmark
from shaberi_dagster.examination import passes_of
from shaberi_dagster.lake.catalog import connect, write_catalog
from shaberi_dagster.lake.schemas import SCORES
from shaberi_dagster.lake.store import conform
from shaberi_dagster.outcome import Check, Outcome, by_class, complete_check
from shaberi_dagster.passes.pipeline import BASELINE, Passes, pipeline_scores
from shaberi_dagster.runspec import RunSpec
from shaberi_dagster.settings import Settings
from shaberi_dagster.workspace import Workspace

_FINDING_COLUMNS = [
    *("run_id", "benchmark", "question_id", "sample_index", "strategy", "answer_hash"),
    *("pass", "pass_config_hash", "severity", "reason"),
]


def score(spec: RunSpec, benchmarks: Sequence[str], workspace: Workspace) -> list[Outcome]:
    """Derive the scores of a run from its answers, judgements and pass outputs; no call is made.

    Args:
        spec: The run.
        benchmarks: Some of its benchmarks.
        workspace: Where to read and write.

    Returns:
        One outcome per benchmark.
    """
    keys = [(spec.run_id, name, judge) for name in benchmarks for judge in spec.judge_names(get_benchmark(name).grader)]
    judges = pl.DataFrame(keys, schema=dict.fromkeys(("run_id", "benchmark", "judge"), pl.String), orient="row")
    frame = score_runs(judges, passes_of(spec), workspace)
    return [_scores_outcome(spec, name, frame.filter(benchmark=name)) for name in benchmarks]


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
    with connect(workspace.lake, "answers", "consensus", "judgements") as connection:
        frame = derive("scores", connection, {"run_judges": judges}, workspace.settings)
    if pipelines:
        findings = workspace.lake.read("pass_outputs", keys | {"status": "ok"}, _FINDING_COLUMNS)
        scored = conform(SCORES, frame)
        frame = pl.concat([scored, pipeline_scores(scored, findings, pipelines, scales())])
    if workspace.lake.update("scores", frame, keys):
        write_catalog(workspace.lake)
    return frame


def measure(spec: RunSpec, benchmarks: Sequence[str], workspace: Workspace) -> list[Outcome]:
    """Roll the scores of a run up into its metrics, and set the run's status.

    Args:
        spec: The run.
        benchmarks: Some of its benchmarks.
        workspace: Where to read and write.

    Returns:
        One outcome per benchmark.
    """
    own = {"run_id": spec.run_id, "base_tag": spec.base_tag, "run_number": spec.run_number}
    planned = pl.DataFrame(
        [
            own | {"benchmark": name, "n_planned": spec.n_planned(name), "n_questions": spec.n_questions(name)}
            for name in benchmarks
        ]
    )
    frame, changed = measure_runs(planned, workspace)
    set_status(spec, workspace, changed=changed)
    return [_metrics_outcome(spec, name, frame.filter(benchmark=name)) for name in benchmarks]


def measure_runs(planned: pl.DataFrame, workspace: Workspace) -> tuple[pl.DataFrame, bool]:
    """Roll the scores of some runs up into their metrics.

    Args:
        planned: run_id, base_tag, run_number, benchmark, n_planned, n_questions.
        workspace: Where to read and write.

    Returns:
        All rows of these runs and benchmarks, and whether they are others than before.
    """
    keys = {"run_id": planned["run_id"].unique().to_list(), "benchmark": planned["benchmark"].unique().to_list()}
    with connect(workspace.lake, "scores") as connection:
        frame = derive("metrics", connection, {"plan": with_scales(planned)}, workspace.settings)
    return frame, workspace.lake.update("metrics", frame, keys)


def set_status(spec: RunSpec, workspace: Workspace, error: str | None = None, *, changed: bool = False) -> str:
    """Store the state of the run: `complete` when each benchmark has every judge's metrics without failures.

    Args:
        spec: The run.
        workspace: Where to read and write.
        error: One line about what stopped the run; the state then is `error` where a benchmark is not complete.
        changed: Whether its metrics changed, so that the run's row is written even if its state is the same.

    Returns:
        The run's state: `complete`, `partial` or `error`.
    """
    metrics = workspace.lake.read("metrics", {"run_id": spec.run_id, "null_policy": "legacy", "pipeline": BASELINE})
    states: dict[str, str] = {}
    for name in spec.benchmarks:
        judges = spec.judge_names(get_benchmark(name).grader)
        own = metrics.filter(benchmark=name, n_failed=0)
        found = set(own.select("judge", "strategy", "n_planned").iter_rows())
        wanted = {(judge, None, spec.n_planned(name)) for judge in judges} | {
            (judge, strategy, spec.n_questions(name)) for judge in judges for strategy in spec.strategies
        }
        complete = wanted <= found
        states[name] = "complete" if complete else f"error: {error}" if error else "partial"
    done = all(state == "complete" for state in states.values())
    status = "complete" if done else "error" if error else "partial"
    by_benchmark = orjson.dumps(states).decode()
    row = workspace.lake.read("runs", {"run_id": spec.run_id})
    if not changed and row.select("status", "status_by_benchmark").rows() == [(status, by_benchmark)]:
        return status
    now = datetime.now(UTC)
    finished = pl.coalesce("finished_at", pl.lit(now)) if done else pl.lit(None, dtype=pl.Datetime("us", "UTC"))
    row = row.with_columns(
        status=pl.lit(status),
        status_by_benchmark=pl.lit(by_benchmark),
        updated_at=pl.lit(now),
        finished_at=finished,
    )
    workspace.lake.replace("runs", row, {"run_id": spec.run_id})
    write_catalog(workspace.lake)
    return status


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
        connection.register(name, relation)
    run_ids = pl.concat([relation["run_id"] for relation in relations.values()])
    bound = {"first_run_id": run_ids.min(), "last_run_id": run_ids.max()}
    derived = pl.DataFrame(connection.sql(sql, params=bound).to_arrow_table())
    return derived.with_columns(created_at=pl.lit(datetime.now(UTC)))


def with_scales(plan: pl.DataFrame) -> pl.DataFrame:
    """What `metrics` needs to know of each run's benchmarks: the plan's rows with the scales of their benchmarks.

    Args:
        plan: Columns run_id, base_tag, run_number, benchmark, n_planned, n_questions.
    """
    return plan.with_columns(pl.col("run_number").cast(pl.Int64)).join(scales(), on="benchmark")


def scales() -> pl.DataFrame:
    """benchmark, scale_minimum, scale_maximum, reported_multiplier."""
    return pl.DataFrame(
        [
            (name, float(one.scale_minimum), float(one.scale_maximum), one.reported_multiplier)
            for name, one in ALL_BENCHMARKS.items()
        ],
        ["benchmark", "scale_minimum", "scale_maximum", "reported_multiplier"],
        orient="row",
    )


def _scores_outcome(spec: RunSpec, benchmark: str, frame: pl.DataFrame) -> Outcome:
    n_pipelines = frame["pipeline"].n_unique() if frame.height else 1
    judges = spec.judge_names(get_benchmark(benchmark).grader)
    answers = spec.n_planned(benchmark) + spec.n_questions(benchmark) * len(spec.strategies)
    planned = answers * len(judges) * n_pipelines
    scored = frame.filter(pl.col("score").is_not_null())
    means = scored.group_by("pipeline").agg(pl.col("score").mean()).sort("pipeline")
    return Outcome(
        run_id=spec.run_id,
        stage="scores",
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


def _metrics_outcome(spec: RunSpec, benchmark: str, frame: pl.DataFrame) -> Outcome:
    legacy = frame.filter(null_policy="legacy", pipeline=BASELINE).sort("judge", "strategy")
    failed = int(legacy["n_failed"].sum())
    return Outcome(
        run_id=spec.run_id,
        stage="metrics",
        benchmark=benchmark,
        facts={
            "rows": frame.height,
            "scores": dict(legacy.filter(pl.col("strategy").is_null()).select("judge", "score").iter_rows()),
            "n_scored": int(legacy["n_scored"].sum()),
            "n_planned": int(legacy["n_planned"].sum()),
            "n_failed": failed,
            "n_excluded": int(legacy["n_excluded"].sum()),
        },
        preview=legacy.select(
            "judge", "strategy", "score", "sd_questions", "n_scored", "n_planned", "n_failed", "n_excluded"
        ),
        checks=(Check("all_scored", failed == 0, f"{failed} planned samples have no score", severe=False),),
    )
