"""The metrics of a run, rolled up from its scores by SQL, and the run's status."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import ClassVar

import orjson
import polars as pl

from shaberi_dagster.lake.catalog import connect
from shaberi_dagster.lake.store import Keys, Lake
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.stages.base import Stage, StageResult
from shaberi_dagster.runs.stages.scores import Scores, derive, scales
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.tasks.passes.pipeline import BASELINE
from shaberi_dagster.util.checks import Check


class Metrics(Stage):
    """The metrics of a run, rolled up from its scores; they tell the run's status."""

    name = "metrics"
    needs = (Scores,)
    makes_calls = False
    kinds = Scores.kinds
    checks: ClassVar[Mapping[str, str]] = {
        "all_scored": "Every planned sample has a score, is undecided, or is excluded for a reason.",
    }
    graded_checks: ClassVar[Mapping[str, str]] = {
        "no_regression": "The run is not worse than the baseline that was named, as far as a gate could tell."
    }

    def materialize(self) -> list[StageResult]:
        """Derive them all, and set the run's status."""
        spec = self.plan.spec
        own = {"run_id": spec.run_id, "base_tag": spec.base_tag, "run_number": spec.run_number}
        planned = pl.DataFrame(
            [
                own | {"benchmark": name, "n_planned": spec.n_planned(name), "n_questions": spec.n_questions(name)}
                for name in self.benchmarks
            ]
        )
        frame, changed = measure_runs(planned, self.workspace)
        set_status(spec, self.workspace, changed=changed)
        return [_result(spec, name, frame.filter(benchmark=name)) for name in self.benchmarks]


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
    """Store the state of the run.

    It is `complete` when each benchmark has every judge's metrics without failures, and answers that are not all empty.
    An imported benchmark that no one judges here stays in the state that its import left it in.

    Args:
        spec: The run.
        workspace: Where to read and write.
        error: One line about what stopped the run; the state then is `error` where a benchmark is not complete.
        changed: Whether its metrics changed, so that the run's row is written even if its state is the same.

    Returns:
        The run's state: `complete`, `partial`, `decision` (only what decisions asked) or `error`.
    """
    metrics = workspace.lake.read("metrics", {"run_id": spec.run_id, "null_policy": "legacy", "pipeline": BASELINE})
    row = workspace.lake.read("runs", {"run_id": spec.run_id})
    states: dict[str, str] = orjson.loads(row["status_by_benchmark"][0] or "{}")
    silent = silent_benchmarks(workspace.lake, {"run_id": spec.run_id})
    for name in filter(spec.is_made_here, spec.benchmarks):
        judges, strategies = spec.benchmarks[name].judges, spec.benchmarks[name].strategies
        own = metrics.filter(benchmark=name, n_failed=0)
        found = set(own.select("judge", "strategy", "n_planned").iter_rows())
        wanted = {(judge, None, spec.n_planned(name)) for judge in judges} | {
            (judge, strategy, spec.n_questions(name)) for judge in judges for strategy in strategies
        }
        complete = wanted <= found and name not in silent
        states[name] = "complete" if complete else f"error: {error}" if error else "partial"
    done = all(state == "complete" for state in states.values())
    status = "complete" if done else "error" if error else "decision" if spec.is_partial else "partial"
    by_benchmark = orjson.dumps(states).decode()
    reused = _reused_replies(spec.run_id, workspace.lake)
    state = (status, by_benchmark, orjson.dumps(reused).decode() if reused else None)
    if not changed and row.select("status", "status_by_benchmark", "reused_replies").rows() == [state]:
        return status
    now = datetime.now(UTC)
    finished = pl.coalesce("finished_at", pl.lit(now)) if done else pl.lit(None, dtype=pl.Datetime("us", "UTC"))
    row = row.with_columns(
        status=pl.lit(status),
        status_by_benchmark=pl.lit(by_benchmark),
        reused_replies=pl.lit(state[-1], dtype=pl.String),
        updated_at=pl.lit(now),
        finished_at=finished,
    )
    workspace.lake.replace("runs", row, {"run_id": spec.run_id})
    return status


def _reused_replies(run_id: str, lake: Lake) -> dict[str, dict[str, int]]:
    """Count the rows of a run that are replies to calls of other runs: by stage and run."""
    own = lake.read("calls", {"run_id": run_id, "status": "ok"}, ["request_hash"])["request_hash"]
    others = {}
    for stage in ("answers", "judgements", "pass_outputs"):
        current = pl.lit(value=True) if stage != "judgements" else ~pl.col("superseded")
        columns = ["request_hash", *(["superseded"] if stage == "judgements" else [])]
        hashes = (
            lake.read(stage, {"run_id": run_id, "status": "ok"}, columns).filter(current)["request_hash"].drop_nulls()
        )
        others[stage] = hashes.filter(~hashes.is_in(own.to_list()))
    wanted = sorted({name for hashes in others.values() for name in hashes})
    if not wanted:
        return {}
    calls = lake.read("calls", {"request_hash": wanted, "status": "ok"}, ["request_hash", "run_id", "created_at"])
    payers = dict(calls.sort("created_at").select("request_hash", "run_id").iter_rows())
    imported = lake.read("answers", {"run_id": run_id, "status": "ok"}, ["request_hash", "source_sha256"]).drop_nulls()
    files = {"source_sha256": imported["source_sha256"].unique().to_list()}
    sources = lake.read("answers", files, ["source_sha256", "run_id", "request_hash"]).filter(
        pl.col("request_hash").is_null()
    )
    payers |= dict(
        imported.join(sources.unique("source_sha256"), on="source_sha256").select("request_hash", "run_id").iter_rows()
    )
    counted = {stage: Counter(payers[name] for name in hashes if name in payers) for stage, hashes in others.items()}
    return {stage: dict(sorted(by_run.items())) for stage, by_run in counted.items() if by_run}


def silent_benchmarks(lake: Lake, keys: Keys) -> list[str]:
    """Return the benchmarks of runs whose answers are all empty, so that nothing of them can be judged."""
    answers = lake.read("answers", keys, ["benchmark", "answer_state"])
    is_empty = pl.col("answer_state").is_in(["empty", "whitespace"]).fill_null(value=False)
    return answers.group_by("benchmark").agg(is_empty.all()).filter("answer_state")["benchmark"].sort().to_list()


def with_scales(plan: pl.DataFrame) -> pl.DataFrame:
    """Add the scales of benchmarks to the plan's rows.

    Args:
        plan: Columns run_id, base_tag, run_number, benchmark, n_planned, n_questions.
    """
    return plan.with_columns(pl.col("run_number").cast(pl.Int64)).join(scales(), on="benchmark")


def _result(spec: RunSpec, benchmark: str, frame: pl.DataFrame) -> StageResult:
    legacy = frame.filter(null_policy="legacy", pipeline=BASELINE).sort("judge", "strategy")
    failed = int(legacy["n_failed"].sum())
    return StageResult(
        run_id=spec.run_id,
        stage=Metrics.name,
        benchmark=benchmark,
        facts={
            "rows": frame.height,
            "scores": dict(legacy.filter(pl.col("strategy").is_null()).select("judge", "score").iter_rows()),
            "n_scored": int(legacy["n_scored"].sum()),
            "n_planned": int(legacy["n_planned"].sum()),
            "n_failed": failed,
            "n_excluded": int(legacy["n_excluded"].sum()),
            "n_undecided": int(legacy["n_undecided"].sum()),
        },
        preview=legacy.select(
            *("judge", "strategy", "score", "score_upper", "sd_questions"),
            *("n_scored", "n_planned", "n_failed", "n_undecided", "n_excluded"),
        ),
        checks=(Check("all_scored", failed == 0, f"{failed} planned samples have no score", severe=False),),
    )
