"""A cluster of real processes under fire, its throughput, concurrent commits, and ten million judgements.

    python perf/cluster.py kills            4 workers, 16 runs of 320 questions and 2 judges, 20 times kill -9, 5 % 503
    python perf/cluster.py servers          2 workers, 8 runs; each server, the daemon, a worker killed, three times
    python perf/cluster.py throughput       the same runs by 1 and by 4 workers; 2 s latency, 16 calls at once a run
    python perf/cluster.py commits          50 runs written to a store at the same time
    python perf/cluster.py rows             10 M judgements: the leaderboard, and one run written

With --quick everything in a small size. PostgreSQL, Redis, Dagster's daemon and the workers are those of
`shaberi cluster`, without the UI; the store and the endpoint are those of the tests, which count requests and fail on
demand. Checked after the kills: every run is complete, the endpoint was asked again only for what was in flight at a
kill, and every table is, cell by cell, what one process makes of the same requests in a folder.
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
from urllib.parse import urlsplit

import orjson
import polars as pl

from perf.crash import Endpoint
from perf.history import Size, write_history
from perf.same_tables import differences, tables_of
from shaberi_dagster.defs.cluster.local import running
from shaberi_dagster.lake.catalog import open_catalog, write_catalog
from shaberi_dagster.lake.compaction import compact_lake
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.planning import plan_run
from shaberi_dagster.runs.spec import CallOptions, RunRequest
from shaberi_dagster.runs.stages.evaluation import materialize
from shaberi_dagster.runs.stored import store_run
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ShaberiError
from tests.object_storage import running_store

_BENCHMARK, _STAGES = "rakuda", ("answers", "judgements", "pass_outputs", "scores", "metrics")
_PASSES = ["repetition", "lang_mixing"]
_JUDGES = ["judge-a", "judge-b"]
_MOST_AT_ONCE = 16
_PATIENCE_SECONDS = 3600.0
SERVERS: Any = {
    "workers": 2,
    "runs": 4,
    "questions": 12,
    "killed": ["postgres", "redis", "store", "daemon", "worker"],
    "longest_peace": 2.0,
    "latency": 2.0,
    "compared": True,
}
SERVERS_IN_FULL: Any = SERVERS | {"runs": 8, "questions": 80, "killed": 3 * SERVERS["killed"], "longest_peace": 20.0}
_SETTINGS = ("SHABERI_", "AWS_", "DAGSTER_HOME")


@dataclass
class Outcome:
    """What became of some submitted runs.

    Attributes:
        runs: How many.
        needed: Calls that they need.
        seconds: From the first one's submission to the last one's end.
        kills: Parts of the cluster killed, in order.
        restarts: Parts of the cluster that were started again, in order.
        requests: Calls that the endpoint was asked.
        repeated: Replies that it gave to a request beyond the first.
        abandoned: Requests that were in flight at a kill.
        most_at_once: Requests at once that it saw.
        cells: Cells that were compared with those of one machine.
        violations: What should not be, one sentence each.
    """

    runs: int
    needed: int
    seconds: float = 0.0
    kills: list[str] = field(default_factory=list)
    requests: int = 0
    repeated: int = 0
    abandoned: int = 0
    most_at_once: int = 0
    cells: int = 0
    restarts: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


def evaluate_on_cluster(
    *,
    workers: int,
    runs: int,
    questions: int,
    killed: Sequence[str] = (),
    longest_peace: float = 8.0,
    failing: float = 0.0,
    latency: float,
    compared: bool = False,
    seed: int = 0,
) -> Outcome:
    """Let a cluster make runs, while parts of it are killed.

    Args:
        workers: How many.
        runs: How many; each of a model of its own, so that none can use another one's replies.
        questions: Of each run, judged by two judges and examined by two passes.
        killed: Which parts are killed, one after another, each with its children; of workers a random one.
        longest_peace: Seconds between two kills, at most.
        failing: Share of requests that the store answers with 503; it is none of the cluster's parts, and not killed.
        latency: Seconds until a reply.
        compared: Whether one process makes the same in a folder, to be compared.
        seed: Of the kills' moments.
    """
    outcome = Outcome(runs, needed=runs * questions * (1 + len(_JUDGES)))
    with _folder() as folder, ExitStack() as stack:
        if failing:
            store = stack.enter_context(running_store(folder / "store", failing=failing))
            os.environ.update(store.environment | {"SHABERI_WAREHOUSE": store.uri})
        endpoint = stack.enter_context(Endpoint(latency=latency))
        supervisor = stack.enter_context(running(folder / "cluster", workers))
        requests = _requests(runs, _questions(folder, questions), endpoint.base_url)
        started = time.monotonic()
        submitted = _submit(requests)
        chance, left, next_kill = random.Random(seed), list(killed), 0.0  # noqa: S311
        while not _have_ended(submitted):
            outcome.restarts += supervisor.restarted_parts()
            if left and time.monotonic() > next_kill and endpoint.stats()["in_flight"]:
                _kill(chance.choice([group for name, group in supervisor.groups.items() if name.startswith(left[0])]))
                outcome.kills.append(left.pop(0))
                next_kill = time.monotonic() + chance.uniform(0.5, longest_peace)
            if time.monotonic() - started > _PATIENCE_SECONDS:
                outcome.violations.append("the runs do not come to an end")
                break
            time.sleep(0.5)
        outcome.seconds = time.monotonic() - started
        counters = endpoint.settled()
        outcome.requests, outcome.repeated = counters["requests"], counters["repeated"]
        outcome.abandoned, outcome.most_at_once = counters["abandoned"], counters["most_in_flight"]
        outcome.violations += _violations(outcome, workers)
        outcome.violations += _failures(submitted)
        outcome.violations += [f"the runs had ended before {name} was killed" for name in left]
        if compared:
            made = tables_of(Lake(Settings.from_environment().warehouse))
            stack.close()
            expected = _made_by_one(requests, endpoint.base_url)
            outcome.cells = sum(rows.height * rows.width for rows in expected.values())
            outcome.violations += differences(made, expected)
    return outcome


def _made_by_one(requests: Sequence[RunRequest], base_url: str) -> dict[str, pl.DataFrame]:
    """The tables that one process makes of the requests, in a folder, with journals in files."""
    port = urlsplit(base_url).port or 0
    with _folder() as folder, Endpoint(latency=0.0, port=port):  # at its old address, which is in the requests
        os.environ["SHABERI_WAREHOUSE"] = str(folder / "warehouse")
        workspace = Workspace(Settings.from_environment(), environment={})
        for request in requests:
            spec = plan_run(request, workspace)
            store_run(spec, workspace)
            for stage in _STAGES:
                materialize(stage, spec.run_id, [_BENCHMARK], workspace)
        return tables_of(workspace.lake)


def _violations(outcome: Outcome, workers: int) -> Iterator[str]:
    """What should not be, after the runs have ended."""
    lake = Lake(Settings.from_environment().warehouse)
    lake.refresh()
    runs, calls = lake.read("runs", columns=["model", "status"]), lake.read("calls", {"status": "ok"}, ["request_hash"])
    if unfinished := runs.filter(pl.col("status") != "complete").rows():
        yield f"not complete: {unfinished}"
    if runs["model"].n_unique() != outcome.runs:
        yield f"runs of {runs['model'].n_unique()} models instead of {outcome.runs}"
    if (calls.height, calls["request_hash"].n_unique()) != (outcome.needed,) * 2:
        yield f"{calls.height} calls, {calls['request_hash'].n_unique()} different, not {outcome.needed}"
    again, lost = outcome.requests - outcome.needed, _MOST_AT_ONCE * sum(_runs_lost(outcome.kills, workers))
    if again > lost:
        yield f"{again} requests made again after the kills of {outcome.kills}, with {_MOST_AT_ONCE} at once in a run"
    if outcome.most_at_once > workers * _MOST_AT_ONCE + lost:
        yield f"{outcome.most_at_once} requests at once of {workers} workers with {_MOST_AT_ONCE} each"


def _runs_lost(kills: Sequence[str], workers: int) -> Iterator[int]:
    """How many runs may lose the calls that they have in flight."""
    for name in kills:
        yield {"worker": 1, "postgres": workers, "store": workers}.get(name, 0)


def _requests(runs: int, questions: Path, base_url: str) -> list[RunRequest]:
    urls = {"base_url": base_url, "judge_base_url": base_url, "questions": str(questions)}
    return [
        RunRequest.model_validate(
            urls
            | {"model": model, "benchmarks": [_BENCHMARK], "passes": _PASSES}
            | {"judge_models": [f"{judge}-{model}" for judge in _JUDGES]}
        )
        for model in (f"model-{number}" for number in range(runs))
    ]


def _submit(requests: Sequence[RunRequest]) -> list[str]:
    """Put the runs into the queue, as `run-evals --submit` does."""
    from shaberi_dagster.defs.execution import open_instance
    from shaberi_dagster.defs.jobs import register
    from shaberi_dagster.defs.options import stage_config
    from shaberi_dagster.defs.submission import submit

    workspace = Workspace(Settings.from_environment(), environment={})
    instance = open_instance(workspace.settings.dagster_home)
    submitted = []
    for request in requests:
        spec = register(request, workspace, instance)
        ops = stage_config(CallOptions(concurrency=_MOST_AT_ONCE), _STAGES, [_BENCHMARK])
        submitted.append(submit(spec.run_id, ops, workspace, instance))
    return submitted


def _have_ended(submitted: Sequence[str]) -> bool:
    """Whether all runs have; not while the database is away."""
    from dagster import RunsFilter
    from dagster_postgres.utils import DagsterPostgresException
    from sqlalchemy.exc import DBAPIError

    from shaberi_dagster.defs.execution import open_instance

    try:
        with open_instance(Settings.from_environment().dagster_home) as instance:
            return all(run.is_finished for run in instance.get_runs(RunsFilter(run_ids=list(submitted))))
    except (ShaberiError, DBAPIError, DagsterPostgresException):
        return False


def _failures(submitted: Sequence[str]) -> Iterator[str]:
    """Why Dagster runs have failed, if any have."""
    from dagster import DagsterRunStatus

    from shaberi_dagster.defs.execution import open_instance

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


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):  # it is about to be started again
        os.killpg(group, signal.SIGKILL)


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
        compact_lake(lake)
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
    parser.add_argument("what", choices=("kills", "servers", "throughput", "commits", "rows"))
    parser.add_argument("--quick", action="store_true", help="a small size")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the cluster ends with us
    found: Any
    if asked.what == "kills":
        small = {"workers": 2, "runs": 4, "questions": 40, "killed": 4 * ["worker"]}
        full = {"workers": 4, "runs": 16, "questions": 320, "killed": 20 * ["worker"]}
        found = vars(evaluate_on_cluster(**(small if asked.quick else full), failing=0.05, latency=0.5, compared=True))
    elif asked.what == "servers":
        found = vars(evaluate_on_cluster(**(SERVERS if asked.quick else SERVERS_IN_FULL)))
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
