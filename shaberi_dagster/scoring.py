"""The scores and metrics stages: SQL over what a run has in the lake."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import duckdb
import orjson
import polars as pl

from shaberi_dagster.benchmarks.registry import BENCHMARKS
from shaberi_dagster.lake.catalog import connect, write_catalog
from shaberi_dagster.outcome import Check, Outcome, by_class, complete_check
from shaberi_dagster.runspec import RunSpec
from shaberi_dagster.settings import Settings
from shaberi_dagster.workspace import Workspace


def score(spec: RunSpec, benchmarks: Sequence[str], workspace: Workspace) -> list[Outcome]:
    """Derive the scores of a run from its answers and judgements; no call is made.

    Args:
        spec: The run.
        benchmarks: Some of its benchmarks.
        workspace: Where to read and write.

    Returns:
        One outcome per benchmark.
    """
    keys = [(spec.run_id, name, judge.model) for name in benchmarks for judge in spec.judges]
    judges = pl.DataFrame(keys, schema=dict.fromkeys(("run_id", "benchmark", "judge"), pl.String), orient="row")
    frame, changed = _derive(
        "scores", spec, benchmarks, workspace, sources=["answers", "judgements"], relations={"run_judges": judges}
    )
    if changed:
        write_catalog(workspace.lake)
    return [_scores_outcome(spec, name, frame.filter(benchmark=name)) for name in benchmarks]


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
    planned = pl.DataFrame([own | {"benchmark": name, "n_planned": spec.n_planned(name)} for name in benchmarks])
    frame, changed = _derive(
        "metrics", spec, benchmarks, workspace, sources=["scores"], relations={"plan": with_scales(planned)}
    )
    set_status(spec, workspace, changed=changed)
    return [_metrics_outcome(spec, name, frame.filter(benchmark=name)) for name in benchmarks]


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
    metrics = workspace.lake.read("metrics", {"run_id": spec.run_id, "null_policy": "legacy", "pipeline": "baseline"})
    judges = {judge.model for judge in spec.judges}
    states: dict[str, str] = {}
    for name in spec.benchmarks:
        own = metrics.filter(benchmark=name, n_failed=0, n_planned=spec.n_planned(name))
        complete = judges <= set(own["judge"])
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


def _derive(
    table: str,
    spec: RunSpec,
    benchmarks: Sequence[str],
    workspace: Workspace,
    *,
    sources: Sequence[str],
    relations: dict[str, pl.DataFrame],
) -> tuple[pl.DataFrame, bool]:
    """Put the rows of `derive` in the place of the run's.

    Returns:
        The rows, and whether they are others than before.
    """
    keys = {"run_id": spec.run_id, "benchmark": list(benchmarks)}
    with connect(workspace.lake, *sources) as connection:
        frame = derive(table, connection, relations, workspace.settings)
    return frame, workspace.lake.update(table, frame, keys)


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
        plan: Columns run_id, base_tag, run_number, benchmark, n_planned.
    """
    scales = pl.DataFrame(
        [
            (name, float(one.scale_minimum), float(one.scale_maximum), one.reported_multiplier)
            for name, one in BENCHMARKS.items()
        ],
        ["benchmark", "scale_minimum", "scale_maximum", "reported_multiplier"],
        orient="row",
    )
    return plan.with_columns(pl.col("run_number").cast(pl.Int64)).join(scales, on="benchmark")


def _scores_outcome(spec: RunSpec, benchmark: str, frame: pl.DataFrame) -> Outcome:
    planned = spec.n_planned(benchmark) * len(spec.judges)
    scored = frame.filter(pl.col("score").is_not_null())
    return Outcome(
        run_id=spec.run_id,
        stage="scores",
        benchmark=benchmark,
        facts={
            "rows": frame.height,
            "planned": planned,
            "scored": scored.height,
            "without_score_by_class": by_class(frame),
            "mean_score": scored["score"].mean(),
        },
        preview=frame.head(5).select("judge", "question_id", "status", "baseline_score", "score"),
        checks=(complete_check(frame.height, planned),),
    )


def _metrics_outcome(spec: RunSpec, benchmark: str, frame: pl.DataFrame) -> Outcome:
    legacy = frame.filter(null_policy="legacy").sort("judge")
    failed = int(legacy["n_failed"].sum())
    return Outcome(
        run_id=spec.run_id,
        stage="metrics",
        benchmark=benchmark,
        facts={
            "rows": frame.height,
            "scores": dict(legacy.select("judge", "score").iter_rows()),
            "n_scored": int(legacy["n_scored"].sum()),
            "n_planned": int(legacy["n_planned"].sum()),
            "n_failed": failed,
            "n_excluded": int(legacy["n_excluded"].sum()),
        },
        preview=legacy.select("judge", "score", "sd_questions", "n_scored", "n_planned", "n_failed", "n_excluded"),
        checks=(Check("all_scored", failed == 0, f"{failed} planned samples have no score", severe=False),),
    )
