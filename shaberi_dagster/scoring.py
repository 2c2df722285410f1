"""The scores and metrics stages: SQL over what a run has in the lake."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from shaberi_dagster.benchmarks.registry import get_benchmark
from shaberi_dagster.lake.catalog import connect, write_catalog
from shaberi_dagster.outcome import Check, Outcome, by_class, complete_check
from shaberi_dagster.runspec import RunSpec
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
    judges = pl.DataFrame({"judge": [judge.model for judge in spec.judges]}, schema={"judge": pl.String})
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
    entries = [get_benchmark(name) for name in benchmarks]
    plan = pl.DataFrame(
        {
            "benchmark": benchmarks,
            "n_planned": [spec.n_planned(name) for name in benchmarks],
            "scale_minimum": [float(entry.scale_minimum) for entry in entries],
            "scale_maximum": [float(entry.scale_maximum) for entry in entries],
            "reported_multiplier": [entry.reported_multiplier for entry in entries],
        }
    )
    parameters = {"base_tag": spec.base_tag, "run_number": spec.run_number}
    frame, changed = _derive(
        "metrics", spec, benchmarks, workspace, sources=["scores"], relations={"plan": plan}, parameters=parameters
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
    parameters: dict[str, Any] | None = None,
) -> tuple[pl.DataFrame, bool]:
    """Run `sql/stages/{table}.sql` over the source tables and put its rows in the place of the run's.

    Returns:
        The rows, and whether they are others than before.
    """
    sql = Path(workspace.settings.sql / "stages" / f"{table}.sql").read_text(encoding="utf-8")
    keys = {"run_id": spec.run_id, "benchmark": list(benchmarks)}
    with connect(workspace.lake, *sources) as connection:
        for name, relation in relations.items():
            connection.register(name, relation)
        bound = {"run_id": spec.run_id, "benchmarks": list(benchmarks)} | (parameters or {})
        derived = pl.DataFrame(connection.sql(sql, params=bound).to_arrow_table())
    frame = derived.with_columns(created_at=pl.lit(datetime.now(UTC)))
    return frame, workspace.lake.update(table, frame, keys)


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
