"""A cluster of real processes under fire, its throughput, concurrent commits, and ten million judgements.

    python perf/cluster.py kills            4 workers, 16 runs of 320 questions and 2 judges, 20 times kill -9, 5 % 503
    python perf/cluster.py throughput       the same runs by 1 and by 4 workers; 2 s latency, 16 calls at once a run
    python perf/cluster.py commits          50 runs written to a store at the same time
    python perf/cluster.py rows             10 M judgements: the leaderboard, and one run written

With --quick everything in a small size. PostgreSQL, Redis, Dagster's daemon and the workers are those of
`shaberi cluster`, without the UI; the store and the endpoint are those of the tests, which count requests and fail on
demand. Checked after the kills: every run is complete, no row is missing or twice, and the endpoint was asked again
only for what was in flight at a kill.
"""

import argparse
import json
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from perf.crash import Endpoint
from perf.history import Size, write_history
from shaberi_dagster.cli.cluster import Part, look_after, running
from shaberi_dagster.lake.catalog import open_catalog, write_catalog
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.settings import Settings
from tests.object_storage import running_store

_BENCHMARK, _STAGES = "rakuda", ("answers", "judgements", "scores", "metrics")
_JUDGES = ["judge-a", "judge-b"]
_MOST_AT_ONCE = 16
_PATIENCE_SECONDS = 3600.0
_SETTINGS = ("SHABERI_", "AWS_", "DAGSTER_HOME")


@dataclass
class Outcome:
    """What became of some submitted runs.

    Attributes:
        runs: How many.
        needed: Calls that they need.
        seconds: From the first one's submission to the last one's end.
        kills: Workers killed.
        requests: Calls that the endpoint was asked.
        repeated: Replies that it gave to a request beyond the first.
        abandoned: Requests that were in flight at a kill.
        most_at_once: Requests at once that it saw.
        violations: What should not be, one sentence each.
    """

    runs: int
    needed: int
    seconds: float = 0.0
    kills: int = 0
    requests: int = 0
    repeated: int = 0
    abandoned: int = 0
    most_at_once: int = 0
    violations: list[str] = field(default_factory=list)


def evaluate_on_cluster(
    *, workers: int, runs: int, questions: int, kills: int = 0, failing: float = 0.0, latency: float, seed: int = 0
) -> Outcome:
    """Let a cluster make runs, while workers are killed.

    Args:
        workers: How many.
        runs: How many; each of a model of its own, so that none can use another one's replies.
        questions: Of each run, judged by two judges.
        kills: How often a random worker, with all its children, is killed.
        failing: Share of requests that the store answers with 503.
        latency: Seconds until a reply.
        seed: Of the kills.
    """
    outcome = Outcome(runs, needed=runs * questions * (1 + len(_JUDGES)))
    with _folder() as folder, ExitStack() as stack:
        store = stack.enter_context(running_store(folder / "store", failing=failing))
        os.environ.update(store.environment | {"SHABERI_WAREHOUSE": store.uri})
        endpoint = stack.enter_context(Endpoint(latency=latency))
        parts = stack.enter_context(running(folder / "cluster", workers))
        models = [f"model-{number}" for number in range(runs)]
        started = time.monotonic()
        submitted = _submit(models, _questions(folder, questions), endpoint.base_url)
        chance, next_kill = random.Random(seed), time.monotonic() + 5.0  # noqa: S311
        while not _have_ended(submitted):
            look_after(parts)
            if outcome.kills < kills and time.monotonic() > next_kill and endpoint.stats()["requests"]:
                _kill(chance.choice([part for name, part in parts.items() if name.startswith("worker")]))
                outcome.kills += 1
                next_kill = time.monotonic() + chance.uniform(1, 8)
            if time.monotonic() - started > _PATIENCE_SECONDS:
                outcome.violations.append("the runs do not come to an end")
                break
            time.sleep(0.5)
        outcome.seconds = time.monotonic() - started
        counters = endpoint.settled()
        outcome.requests, outcome.repeated = counters["requests"], counters["repeated"]
        outcome.abandoned, outcome.most_at_once = counters["abandoned"], counters["most_in_flight"]
        outcome.violations += _violations(outcome, models, questions, workers)
        outcome.violations += _failures(submitted)
    return outcome


def _violations(outcome: Outcome, models: Sequence[str], questions: int, workers: int) -> Iterator[str]:
    """What should not be, after the runs have ended."""
    lake = Lake(Settings.from_environment().warehouse)
    lake.refresh()
    runs = lake.read("runs", columns=["model", "status"])
    if unfinished := runs.filter(pl.col("status") != "complete").rows():
        yield f"not complete: {unfinished}"
    if sorted(runs["model"]) != sorted(models):
        yield f"{runs.height} runs instead of {len(models)}"
    for table, keys, per_run in (
        ("answers", ["run_id", "question_id"], questions),
        ("judgements", ["run_id", "question_id", "judge"], questions * len(_JUDGES)),
        ("calls", ["request_hash"], questions * (1 + len(_JUDGES))),
    ):
        rows = lake.read(table, {"status": "ok"}, keys)
        if (rows.height, rows.n_unique()) != (len(models) * per_run,) * 2:
            yield f"{table}: {rows.height} rows, {rows.n_unique()} different, not {len(models) * per_run}"
    again = outcome.requests - outcome.needed
    if again > outcome.kills * _MOST_AT_ONCE:
        yield f"{again} requests made again after {outcome.kills} kills of workers with {_MOST_AT_ONCE} at once"
    if outcome.most_at_once > workers * _MOST_AT_ONCE + outcome.kills * _MOST_AT_ONCE:
        yield f"{outcome.most_at_once} requests at once of {workers} workers with {_MOST_AT_ONCE} each"


def _submit(models: Sequence[str], questions: Path, base_url: str) -> list[str]:
    """Put a run of each model into the queue, as `run-evals --submit` does."""
    from shaberi_dagster.defs.execution import open_instance  # noqa: PLC0415
    from shaberi_dagster.defs.jobs import register, submit_evaluation  # noqa: PLC0415
    from shaberi_dagster.defs.submission import content_tag  # noqa: PLC0415
    from shaberi_dagster.runs.spec import CallOptions, RunRequest  # noqa: PLC0415
    from shaberi_dagster.runs.workspace import Workspace  # noqa: PLC0415

    workspace = Workspace(Settings.from_environment(), environment={})
    instance = open_instance(workspace.settings.dagster_home)
    submitted = []
    for model in models:
        urls = {"base_url": base_url, "judge_base_url": base_url, "questions": str(questions)}
        asked = RunRequest.model_validate(
            urls | {"model": model, "benchmarks": [_BENCHMARK], "judge_models": [f"{one}-{model}" for one in _JUDGES]}
        )
        spec = register(asked, workspace, instance)
        tags = content_tag(spec, [_BENCHMARK], workspace)
        options = CallOptions(concurrency=_MOST_AT_ONCE)
        submitted.append(
            submit_evaluation(spec.run_id, [_BENCHMARK], instance, stages=_STAGES, options=options, tags=tags)
        )
    return submitted


def _have_ended(submitted: Sequence[str]) -> bool:
    from dagster import RunsFilter  # noqa: PLC0415

    from shaberi_dagster.defs.execution import open_instance  # noqa: PLC0415

    with open_instance(Settings.from_environment().dagster_home) as instance:
        return all(run.is_finished for run in instance.get_runs(RunsFilter(run_ids=list(submitted))))


def _failures(submitted: Sequence[str]) -> Iterator[str]:
    """Why Dagster runs have failed, if any have."""
    from dagster import DagsterRunStatus  # noqa: PLC0415

    from shaberi_dagster.defs.execution import open_instance  # noqa: PLC0415

    with open_instance(Settings.from_environment().dagster_home) as instance:
        for run_id in submitted:
            run = instance.get_run_by_id(run_id)
            if run is None or run.status != DagsterRunStatus.SUCCESS:
                said = [one.event_log_entry for one in instance.get_records_for_run(run_id, ascending=False).records]
                last = [f"{one.step_key or ''} {one.message[:300]}" for one in said if one.message][:12]
                errors = [
                    one.get_dagster_event().step_failure_data.error
                    for one in said
                    if one.is_dagster_event and one.get_dagster_event().is_step_failure
                ]
                yield f"Dagster run {run_id} {run and run.status}: {errors} {last}"


def _kill(worker: Part) -> None:
    assert worker.process is not None  # noqa: S101
    with suppress(ProcessLookupError):
        os.killpg(worker.process.pid, signal.SIGKILL)
    worker.process.wait()


def _questions(folder: Path, number: int) -> Path:
    place = folder / "questions"
    place.mkdir()
    lines = (orjson.dumps({"question": f"質問{one}は何ですか。", "category": "地理"}) + b"\n" for one in range(number))
    (place / f"{_BENCHMARK}.jsonl").write_bytes(b"".join(lines))
    return place


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder that PostgreSQL's own user can enter; the settings are afterwards what they were."""
    before = dict(os.environ)
    for name in list(os.environ):
        if name.startswith(_SETTINGS):
            del os.environ[name]
    with tempfile.TemporaryDirectory(prefix="cluster-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        try:
            yield Path(name)
        finally:
            os.environ.clear()
            os.environ.update(before)


# ------------------------------------------------------------------------------------------------ commits, rows


def commit_concurrently(runs: int, processes: int) -> dict[str, float]:
    """Write answers of several runs to a store from several processes at the same time.

    Returns:
        `rows`, `expected` and `seconds`.
    """
    with _folder() as folder, running_store(folder / "store") as store:
        os.environ.update(store.environment | {"SHABERI_WAREHOUSE": store.uri})
        os.environ["SHABERI_MIRRORS"] = str(folder / "own")
        Lake(Settings.from_environment().warehouse).widen("answers")
        started = time.monotonic()
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            pool.starmap(_commit, [(number, str(folder / "mirrors")) for number in range(runs)], chunksize=1)
        seconds = time.monotonic() - started
        lake = Lake(Settings.from_environment().warehouse)
        lake.refresh()
        return {"rows": lake.read("answers", columns=["run_id"]).height, "expected": 20 * runs, "seconds": seconds}


def _commit(number: int, mirrors: str) -> None:
    os.environ["SHABERI_MIRRORS"] = f"{mirrors}/{os.getpid()}"  # as if each process were on another machine
    lake = Lake(Settings.from_environment().warehouse)
    run = {"run_id": f"model-{number}@@default", "model": f"model-{number}", "run_tag": "default"}
    of_all = {"benchmark": _BENCHMARK, "sample_index": 0, "status": "ok", "created_at": datetime.now(UTC)}
    rows = pl.DataFrame([run | of_all | {"question_id": str(question)} for question in range(20)])
    lake.replace("answers", rows, {"run_id": run["run_id"]})


def many_rows(judgements: int) -> dict[str, float]:
    """How long the leaderboard takes over so many judgements, and writing one more run beside them.

    The rows are those of `history.py`, again and again under other names, and without the judges' texts, which a
    leaderboard does not read.

    Returns:
        `judgements`, `leaderboard_ms`, `write_ms` and `memory_mb`.
    """
    with _folder() as folder:
        os.environ["SHABERI_WAREHOUSE"] = str(folder / "warehouse")
        warehouse = Settings.from_environment().warehouse
        write_history(warehouse, Size(models=200, seed=1))
        lake = Lake(warehouse)
        first = {name: lake.read(name) for name in ("runs", "judgements", "metrics")}
        first["judgements"] = first["judgements"].with_columns(judge_output=pl.lit(None, pl.String))
        copies = -(-judgements // first["judgements"].height)
        for number in range(1, copies):
            for name, rows in first.items():
                lake.append(name, _under_other_names(rows, number))
        lake.compact()
        write_catalog(lake)
        one = first["runs"]["run_id"][0]
        own = {name: _under_other_names(rows.filter(run_id=one), copies) for name, rows in first.items()}
        write_ms = _milliseconds(lambda: [_replace(lake, name, rows) for name, rows in own.items()])
        write_catalog(lake)
        with open_catalog(warehouse) as catalog:
            taken = [_milliseconds(lambda: catalog.execute("from leaderboard").fetchall()) for _ in range(5)]
        height = lake.read("judgements", columns=["judge"]).height
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"judgements": height, "leaderboard_ms": min(taken), "write_ms": write_ms, "memory_mb": memory}


def _under_other_names(rows: pl.DataFrame, number: int) -> pl.DataFrame:
    names = [name for name in ("run_id", "run_tag", "base_tag") if name in rows.columns]
    return rows.with_columns(pl.col(names) + f"-{number}")


def _replace(lake: Lake, table: str, rows: pl.DataFrame) -> None:
    lake.replace(table, rows, {"run_id": rows["run_id"][0]})


def _milliseconds(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return 1000 * (time.monotonic() - started)


# ------------------------------------------------------------------------------------------------ the command


def main() -> None:
    """Measure what is asked for, and print it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("kills", "throughput", "commits", "rows"))
    parser.add_argument("--quick", action="store_true", help="a small size")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the cluster ends with us
    found: Any
    if asked.what == "kills":
        small = {"workers": 2, "runs": 4, "questions": 40, "kills": 4}
        full = {"workers": 4, "runs": 16, "questions": 320, "kills": 20}
        found = vars(evaluate_on_cluster(**(small if asked.quick else full), failing=0.05, latency=0.5))
    elif asked.what == "throughput":
        runs, questions = (4, 40) if asked.quick else (16, 320)
        by_workers = {
            number: evaluate_on_cluster(workers=number, runs=runs, questions=questions, latency=2.0)
            for number in (1, 4)
        }
        one, four = (outcome.seconds for outcome in by_workers.values())
        found = {"seconds of 1": one, "seconds of 4": four, "times as fast": one / four}
    elif asked.what == "commits":
        found = commit_concurrently(*((8, 2) if asked.quick else (50, 4)))
    else:
        found = many_rows(1_000_000 if asked.quick else 10_000_000)
    json.dump(found, sys.stdout, indent=2, default=str)
    print()  # noqa: T201


if __name__ == "__main__":
    main()
