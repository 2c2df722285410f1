"""Kill the answers stage with -9 at random moments, and see that nothing is lost, doubled or paid for again.

Each run is a real one: questions from a folder, `evaluation.materialize` in a process of its own, a chat endpoint in
another one, Delta tables on disk. The stage is killed and started again several times, then left to finish. Moments are
chosen by what can be seen from outside: time since the start, the size of the journal, a new file of a table, a new
version in its log, the journal's removal. What had happened by then is read from the disk after each kill.

Checked after each kill: calls that the endpoint was asked and that are in no journal and no table are no more than
the limiter lets run at once. Checked after each run: one `ok` row for each question and for each request hash, the
reply in both is the same, the endpoint was asked again only for what was in flight at a kill, every table and view
can be read, no journal is left.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import orjson
import polars as pl

from shaberi_dagster.lake.catalog import open_catalog, run_query
from shaberi_dagster.lake.journal.files import FileJournals
from shaberi_dagster.runs.planning import plan_run
from shaberi_dagster.runs.spec import CallOptions, RunRequest
from shaberi_dagster.runs.stored import store_run
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
_PATIENCE_SECONDS = 300
_BENCHMARK, _STAGE = "rakuda", "answers"
_VICTIM = """
import sys
from shaberi_dagster.runs.stages.evaluation import materialize
from shaberi_dagster.runs.spec import CallOptions
from shaberi_dagster.settings import Settings
from shaberi_dagster.runs.workspace import Workspace
run_id, stage, benchmark, options = sys.argv[1:]
options = CallOptions.model_validate_json(options)
materialize(stage, run_id, [benchmark], Workspace(Settings.from_environment(), environment={}, options=options))
"""

BEFORE, CALLING, ANSWERED, CALLS_IN, ANSWERS_IN, ENDED = (
    "before its journal is open",
    "while calls are made",
    "all calls made, none in the lake",
    "calls in the lake, answers not",
    "answers in the lake, journal still there",
    "journal gone",
)
_PHASES = (BEFORE, CALLING, ANSWERED, CALLS_IN, ANSWERS_IN, ENDED)
# What can be seen of the commit, as patterns of new files in the warehouse; None: the journal disappears.
_COMMIT_EVENTS: tuple[str | None, ...] = (
    "limit_changes/*.parquet",
    "limit_changes/_delta_log/*.json",
    "calls/*/*.parquet",
    "calls/_delta_log/*.json",
    "answers/*/*.parquet",
    "answers/_delta_log/*.json",
    ".catalog-*",
    None,
)
_LONGEST_START_SECONDS, _LONGEST_DELAY_SECONDS = 3.0, 0.02
_JOURNAL_BYTES_PER_CALL = 1000
_MOST_KILLS_OF_A_RUN = 6


@dataclass(frozen=True)
class Kill:
    """One kill -9.

    Attributes:
        phase: How far the stage was.
        in_flight: Requests that the endpoint had not answered yet.
        unread: Answers that it had sent and that are in no journal: they were on their way.
        torn: Whether the journal ends in half a record.
    """

    phase: str
    in_flight: int
    unread: int
    torn: bool


@dataclass
class KilledRun:
    """One run with its kills.

    Attributes:
        needed: Calls that it needs.
        kills: In their order.
        requests: Calls that the endpoint was asked in all.
        repeated: Answers that it gave a second time.
        leftovers: What kills left in the warehouse that nobody reads: scratch folders, files of no version.
        violations: What should not be, one sentence each.
    """

    needed: int
    kills: list[Kill] = field(default_factory=list)
    requests: int = 0
    repeated: int = 0
    leftovers: int = 0
    violations: list[str] = field(default_factory=list)


class Endpoint:
    """The mock endpoint in a process of its own; a context manager.

    Args:
        latency: Seconds until an answer.
        port: Where it listens; 0 finds a free one.
    """

    def __init__(self, latency: float, port: int = 0) -> None:
        program, options = str(ROOT / "tests" / "mock_endpoint.py"), ["--port", str(port), "--latency", str(latency)]
        self._process = subprocess.Popen([sys.executable, program, *options], stdout=subprocess.PIPE, text=True)  # noqa: S603
        assert self._process.stdout is not None  # noqa: S101
        self.base_url = self._process.stdout.readline().strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def stats(self) -> dict[str, Any]:
        """Its counters."""
        url = self.base_url.removesuffix("/v1") + "/stats"
        with urllib.request.urlopen(url, timeout=_PATIENCE_SECONDS) as reply:  # noqa: S310
            counters: dict[str, Any] = json.load(reply)
            return counters

    def settled(self) -> dict[str, Any]:
        """Its counters once it has noticed that nobody waits for it any more."""
        end, before = time.monotonic() + _PATIENCE_SECONDS, self.stats()
        while time.monotonic() < end:
            time.sleep(0.02)
            now = self.stats()
            if now["in_flight"] == 0 and now["requests"] == before["requests"]:
                return now
            before = now
        raise TimeoutError("the endpoint does not come to rest")


class Stage:
    """The answers stage of a run of its own, in a warehouse of its own.

    Args:
        folder: Empty; becomes the warehouse.
        endpoint: Who is asked.
        questions: Number of questions.
        options: How calls are made.
    """

    def __init__(self, folder: Path, endpoint: Endpoint, questions: int, options: CallOptions) -> None:
        self.warehouse, self.needed = folder / "warehouse", questions
        self.most_at_once = options.concurrency or options.max_concurrency
        self._endpoint, self._options, self._errors = endpoint, options, folder / "stderr"
        self._environment = os.environ | {"SHABERI_WAREHOUSE": str(self.warehouse)}
        self.workspace = Workspace(Settings.from_environment(self._environment), environment={})
        (folder / f"{_BENCHMARK}.jsonl").write_bytes(
            b"".join(
                orjson.dumps({"question": f"質問{number}は何ですか。", "category": "地理"}) + b"\n"
                for number in range(questions)
            )
        )
        url = endpoint.base_url
        request = RunRequest(
            model="mock",
            base_url=url,
            benchmarks=[_BENCHMARK],
            questions=str(folder),
            judge_models=["judge"],
            judge_base_url=url,
        )
        spec = plan_run(request, self.workspace)
        store_run(spec, self.workspace)
        self.run_id = spec.run_id
        self.journal = FileJournals(self.workspace.settings.warehouse).path(self.run_id, _STAGE)

    def start(self) -> subprocess.Popen[bytes]:
        """Start it, or go on with it, in a process of its own."""
        options = self._options.model_dump_json()
        with self._errors.open("wb") as errors:
            return subprocess.Popen(  # noqa: S603
                [sys.executable, "-c", _VICTIM, self.run_id, _STAGE, _BENCHMARK, options],
                cwd=ROOT,
                env=self._environment,
                stderr=errors,
            )

    def failure(self, process: subprocess.Popen[bytes]) -> str | None:
        """Why a process that was not killed failed; None when it did not."""
        code = process.wait(timeout=_PATIENCE_SECONDS)
        errors = self._errors.read_text(encoding="utf-8", errors="replace").strip()
        return f"exit code {code}: {errors[-2000:]}" if code else None

    def recorded(self) -> set[str]:
        """Request hashes of the calls that are in the journal or in the lake."""
        calls = self.workspace.lake.read("calls", {"status": "ok"}, ["request_hash"])["request_hash"]
        return set(calls) | {line["request_hash"] for line in self._journal_lines() if line.get("status") == "ok"}

    def phase(self, process: subprocess.Popen[bytes]) -> str:
        """How far the killed process was."""
        lake = self.workspace.lake
        all_answers = lake.read("answers", columns=["status"]).height == self.needed
        if not self.journal.exists():
            return ENDED if all_answers else BEFORE
        if all(line.get("opened_by") != process.pid for line in self._journal_lines()):
            return BEFORE
        if len(self.recorded()) < self.needed:
            return CALLING
        if lake.read("calls", columns=["status"]).height < self.needed:
            return ANSWERED
        return ANSWERS_IN if all_answers else CALLS_IN

    def journal_size(self) -> int:
        """Bytes; 0 when there is none."""
        with contextlib.suppress(FileNotFoundError):
            return self.journal.stat().st_size
        return 0

    def torn(self) -> bool:
        """Whether the journal ends in half a record."""
        written = self.journal.read_bytes() if self.journal.exists() else b""
        return written != b"" and not written.endswith(b"\n")

    def _journal_lines(self) -> list[dict[str, Any]]:
        if not self.journal.exists():
            return []
        return [orjson.loads(line) for line in self.journal.read_bytes().split(b"\n")[:-1]]

    def violations(self) -> Iterator[str]:
        """What should not be, now that the stage has finished."""
        lake = self.workspace.lake
        for name in lake.versions():
            lake.read(name)
        with contextlib.closing(open_catalog(self.warehouse)) as catalog:
            views = run_query(catalog, "select view_name from duckdb_views() where not internal").fetchall()
            for (name,) in views:
                run_query(catalog, f'select * from "{name}"').fetchall()
        answers, calls = lake.read("answers"), lake.read("calls")
        ok = answers.filter(status="ok")
        if (answers.height, ok["question_id"].n_unique()) != (self.needed, self.needed):
            yield f"{answers.height} answers, {ok['question_id'].n_unique()} questions answered, of {self.needed}"
        paid = calls.filter(status="ok")
        if (calls.height, paid["request_hash"].n_unique()) != (self.needed, self.needed):
            yield f"{calls.height} calls, {paid['request_hash'].n_unique()} request hashes, of {self.needed}"
        same = ok.join(paid, on="request_hash").filter(pl.col("answer") == pl.col("content")).height
        if same != self.needed:
            yield f"{same} answers are what a call of theirs replied, of {self.needed}"
        changes = lake.read("limit_changes")
        if changes.n_unique() != changes.height:
            yield f"{changes.height - changes.n_unique()} limit changes are doubled"
        if left := [path.name for path in self.journal.parent.iterdir()]:
            yield f"left in the journal's folder: {left}"

    def leftovers(self) -> int:
        """Scratch folders, and Parquet files that belong to no version."""
        lake = self.workspace.lake
        active = sum(len(lake.delta(name).file_uris()) for name in lake.versions())
        files = sum(1 for _ in self.warehouse.glob("*/**/*.parquet"))
        return files - active + sum(1 for _ in self.warehouse.glob(".catalog-*"))


def kill_and_finish(folder: Path, questions: int, latency: float, most_kills: int, rng: random.Random) -> KilledRun:
    """One run that is killed up to so many times, at moments of its own choice."""
    run = KilledRun(questions)
    with Endpoint(latency) as endpoint:
        stage = Stage(folder, endpoint, questions, CallOptions())
        for _ in range(most_kills):
            process = stage.start()
            delay = rng.choice([0.0, rng.uniform(0.0, _LONGEST_DELAY_SECONDS)])
            if not kill_when(process, random_moment(stage, rng), delay):
                break
            run.kills.append(_look(stage, process, endpoint, run))
        else:
            process = stage.start()
        finish(stage, process, endpoint, run)
    return run


def kill_when(process: subprocess.Popen[bytes], due: Callable[[], bool], delay: float = 0.0) -> bool:
    """Kill the process with -9 as soon as something is the case; whether it still lived then."""
    while process.poll() is None:
        if due():
            time.sleep(delay)
            process.kill()
            return process.wait() == -signal.SIGKILL
        time.sleep(0.0005)
    return False


def random_moment(stage: Stage, rng: random.Random) -> Callable[[], bool]:
    """A condition that is the case at some moment of the stage: half of them while it commits."""
    drawn = rng.random()
    if drawn < 0.1:  # noqa: PLR2004
        end = time.monotonic() + rng.uniform(0.0, _LONGEST_START_SECONDS)
        return lambda: time.monotonic() >= end
    if drawn < 0.5:  # noqa: PLR2004
        size = rng.uniform(stage.journal_size(), stage.needed * _JOURNAL_BYTES_PER_CALL)
        return lambda: stage.journal_size() > size
    event = rng.choice(_COMMIT_EVENTS)
    if event is None:
        opened: list[bool] = []

        def removed() -> bool:
            there = stage.journal.exists()
            opened.append(there)
            return not there and any(opened)

        return removed
    before = _number_of(stage, event)
    return lambda: _number_of(stage, event) > before


def _number_of(stage: Stage, pattern: str) -> int:
    return sum(1 for _ in stage.warehouse.glob(pattern))


def _look(stage: Stage, process: subprocess.Popen[bytes], endpoint: Endpoint, run: KilledRun) -> Kill:
    """What a kill met."""
    counters, before = endpoint.settled(), run.kills
    lost = counters["requests"] - len(stage.recorded()) - sum(kill.in_flight + kill.unread for kill in before)
    in_flight = counters["abandoned"] - sum(kill.in_flight for kill in before)
    kill = Kill(stage.phase(process), in_flight, lost - in_flight, stage.torn())
    if not 0 <= kill.in_flight <= lost <= stage.most_at_once:
        run.violations.append(f"{lost} calls were begun and not recorded, {in_flight} of them unanswered: {kill}")
    return kill


def finish(stage: Stage, process: subprocess.Popen[bytes], endpoint: Endpoint, run: KilledRun) -> None:
    """Let the last process come to its end and check everything."""
    if failure := stage.failure(process):
        run.violations.append(failure)
        return
    counters = endpoint.settled()
    run.requests, run.repeated = counters["requests"], counters["repeated"]
    lost = sum(kill.in_flight + kill.unread for kill in run.kills)
    if run.requests != run.needed + lost:
        run.violations.append(f"{run.requests} requests for {run.needed} questions and {lost} calls in flight at kills")
    if run.repeated != sum(kill.unread for kill in run.kills):
        run.violations.append(f"{run.repeated} answers were given again: {run.kills}")
    if len(counters["keys"]) != run.needed:
        run.violations.append(f"{len(counters['keys'])} different requests for {run.needed} questions")
    run.violations += stage.violations()
    run.leftovers = stage.leftovers()


def crash(kills: int, questions: int, latency: float, seed: int, say: Callable[[str], object]) -> list[KilledRun]:
    """Runs until there were so many kills.

    Args:
        kills: In all runs together.
        questions: Of each run.
        latency: Of the endpoint, in seconds.
        seed: Of all random choices.
        say: Told about progress.
    """
    runs: list[KilledRun] = []
    rng, done = random.Random(seed), 0  # noqa: S311
    while done < kills:
        with tempfile.TemporaryDirectory() as folder:
            runs.append(kill_and_finish(Path(folder), questions, latency, min(kills - done, _MOST_KILLS_OF_A_RUN), rng))
        done += len(runs[-1].kills)
        say(f"run {len(runs)}: {done} of {kills} kills, {sum(len(run.violations) for run in runs)} violations")
    return runs


def report(runs: list[KilledRun]) -> str:
    """A Markdown table of the kills by phase, and the sums."""
    kills = [kill for run in runs for kill in run.kills]
    lines = ["| killed | times | in flight | most | sent, not read |", "|---|--:|--:|--:|--:|"]
    lines += [_row(phase, [kill for kill in kills if kill.phase == phase]) for phase in _PHASES]
    needed, requests = sum(run.needed for run in runs), sum(run.requests for run in runs)
    per_run = dict(sorted(Counter(len(run.kills) for run in runs).items()))
    violations = [text for run in runs for text in run.violations]
    lines += [
        _row("**all**", kills),
        "",
        f"{len(runs)} runs, {needed:,} calls needed, {requests:,} made, {requests - needed:,} of them again.",
        f"Runs by their number of kills: {per_run}; torn records: {sum(kill.torn for kill in kills)};",
        f"files left that nobody reads: {sum(run.leftovers for run in runs)}; violations: {len(violations)}",
    ]
    return "\n".join(lines + [f"- {text}" for text in violations])


def _row(name: str, kills: list[Kill]) -> str:
    in_flight, unread = sum(kill.in_flight for kill in kills), sum(kill.unread for kill in kills)
    most = max((kill.in_flight + kill.unread for kill in kills), default=0)
    return f"| {name} | {len(kills)} | {in_flight} | {most} | {unread} |"


def half(calls: int, latency: float, connections: int) -> tuple[str, list[str]]:
    """One kill at half of the calls: a row to compare with other tools, and violations."""
    with tempfile.TemporaryDirectory() as folder, Endpoint(latency) as endpoint:
        stage = Stage(Path(folder), endpoint, calls, CallOptions(concurrency=connections))
        run, process = KilledRun(calls), stage.start()
        # Half a latency later, the replies of one wave have been read and those of the next are not sent yet.
        if not kill_when(process, lambda: endpoint.stats()["answered"] >= calls // 2, delay=latency / 2):
            run.violations.append("it ended before it could be killed")
        answered = endpoint.settled()["answered"]
        run.kills.append(kill := _look(stage, process, endpoint, run))
        finish(stage, stage.start(), endpoint, run)
    repeated = run.requests - calls
    numbers = [answered, kill.in_flight, calls, run.requests, repeated, repeated - kill.in_flight]
    lines = [
        "| answered at kill | in flight | calls needed | calls started in all | repeated | of them lost |",
        "|--:|--:|--:|--:|--:|--:|",
        f"| {' | '.join(f'{number:,}' for number in numbers)} |",
    ]
    return "\n".join(lines), run.violations


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="in all (default 200)")
    parser.add_argument("--questions", type=int, default=500, help="of each run (default 500)")
    parser.add_argument("--latency", type=float, default=0.1, help="of the endpoint in seconds (default 0.1)")
    parser.add_argument("--seed", type=int, default=0, help="of all random choices")
    parser.add_argument("--half", action="store_true", help="only: 2,000 calls of 500 ms, 64 at once, killed at half")
    options = parser.parse_args()
    if options.half:
        table, violations = half(2000, 0.5, 64)
        print("\n".join([table, *violations]))  # noqa: T201
        sys.exit(bool(violations))
    runs = crash(
        options.kills,
        options.questions,
        options.latency,
        options.seed,
        lambda text: print(text, file=sys.stderr),  # noqa: T201
    )
    print(report(runs))  # noqa: T201
    sys.exit(any(run.violations for run in runs))


if __name__ == "__main__":
    main()
