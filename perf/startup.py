"""What one evaluation costs beside its calls: one question through Dagster in-process, measured by part.

Each repetition has a lake and a Dagster instance of its own and runs `run-evals` twice, each time in a process of its
own: `first` makes two calls to an endpoint on this machine, one for the answer and one for the judgement; `again` is
the same command with nothing left to do. Two smaller processes are the scale: an interpreter that imports dagster, and
one that materializes one empty asset on an instance of its own.

The parts are measured with the clock of the main thread. Each moment belongs to one part, the innermost, so the parts
add up to the whole time between the start of the process and its end.
"""

import argparse
import atexit
import contextlib
import functools
import json
import os
import runpy
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_PATIENCE_SECONDS = 60

# Which part a function belongs to: module, name in it, part.
_PROBES = [
    ("shaberi_dagster.runs.planning", "plan_run", "planning"),
    ("shaberi_dagster.runs.stored", "store_run", "planning"),
    ("shaberi_dagster.runs.stored", "code_version", "planning: git"),
    ("shaberi_dagster.defs.execution", "open_instance", "instance: open"),
    ("shaberi_dagster.defs.execution", "close_dead_runs", "instance: open"),
    ("shaberi_dagster.defs.partitions", "add_partition", "instance: partition"),
    ("dagster._core.definitions.definitions_class", "Definitions.resolve_job_def", "definitions"),
    ("dagster._core.definitions.job_definition", "JobDefinition.execute_in_process", "run: Dagster itself"),
    ("dagster._core.storage.event_log.sqlite.sqlite_event_log", "SqliteEventLogStorage.store_event", "run: events"),
    ("shaberi_dagster.runs.stages.evaluation", "materialize", "run: asset bodies"),
    ("shaberi_dagster.runs.stages.evaluation", "check_endpoints", "calls"),
    ("shaberi_dagster.runs.workspace", "EngineThread.run", "calls"),
    ("shaberi_dagster.lake.store", "Lake.read", "lake: reads"),
    ("shaberi_dagster.lake.store", "Lake.append", "lake: commits"),
    ("shaberi_dagster.lake.store", "Lake.replace", "lake: commits"),
    ("shaberi_dagster.lake.catalog", "write_catalog", "lake: catalog"),
    ("shaberi_dagster.defs.plot", "score_distribution", "plots"),
    ("shaberi_dagster.cli.view_scores", "show_scores", "scores shown"),
]
_START, _DEFINITIONS, _REST, _END = "interpreter", "definitions", "rest", "end of the process"
# Packages that cost much to import, without what they import themselves.
_IMPORTS = {
    package: f"import {package}"
    for package in ("dagster", "sqlalchemy", "alembic", "polars", "pyarrow", "duckdb", "openai", "shaberi_dagster")
}
_OTHER_IMPORTS = "import others"
_FIRST, _AGAIN = "first", "again"


class Parts:
    """Seconds and numbers of the parts of this process's main thread."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.numbers: Counter[str] = Counter()
        self._stack = [_REST]
        self._since = time.monotonic()
        self._thread = threading.get_ident()

    @contextlib.contextmanager
    def within(self, part: str) -> Iterator[None]:
        """Time in this context belongs to the part, except for what belongs to a part within."""
        if threading.get_ident() != self._thread:
            yield
            return
        self.numbers[part] += 1
        self._stack.append(part)
        self._settle(self._stack[-2])
        try:
            yield
        finally:
            self._settle(self._stack.pop())

    def _settle(self, part: str) -> None:
        now = time.monotonic()
        self.seconds[part] += now - self._since
        self._since = now

    def probe(self, module: Any, name: str, part: str) -> None:
        """Let calls of a function belong to a part."""
        *path, last = name.split(".")
        owner = functools.reduce(getattr, path, module)
        function: Callable[..., Any] = getattr(owner, last)

        @functools.wraps(function)
        def probed(*args: Any, **kwargs: Any) -> Any:
            with self.within(part):
                return function(*args, **kwargs)

        setattr(owner, last, probed)

    def watch_imports(self) -> None:
        """Let the execution of modules belong to their packages, and probe functions once their module is there."""
        for loader in (SourceFileLoader, ExtensionFileLoader):
            loader.exec_module = self._watched(loader.exec_module)  # type: ignore[method-assign]

    def _watched(self, execute: Callable[..., None]) -> Callable[..., None]:
        def exec_module(loader: Any, module: Any) -> None:
            name = module.__name__
            package = _IMPORTS.get(name.partition(".")[0], _OTHER_IMPORTS)
            part = _DEFINITIONS if name == "shaberi_dagster.defs.code_location" else package
            with self.within(part):
                execute(loader, module)
            for probed, function, of in _PROBES:
                if probed == name:
                    self.probe(module, function, of)

        return exec_module


def measure_child(arguments: Sequence[str]) -> None:
    """Run a script of this installation and write its parts, for the parent that started this process."""
    started, result, script, *rest = arguments
    parts = Parts()
    parts.seconds[_START] = time.monotonic() - float(started)
    parts.watch_imports()

    @atexit.register  # the first to be registered is the last to be called
    def write() -> None:
        with parts.within(_REST):  # so that the time until now is settled
            pass
        Path(result).write_text(json.dumps([parts.seconds, parts.numbers, time.monotonic()]), encoding="utf-8")

    sys.argv = [script, *rest]
    runpy.run_path(script, run_name="__main__")


def minimal_job() -> None:
    """The least that Dagster can be asked for: one empty asset in this process, on an instance of its own."""
    import dagster as dg

    @dg.asset
    def nothing() -> None:
        pass

    with dg.DagsterInstance.get() as instance:
        dg.materialize([nothing], instance=instance)


@dataclass(frozen=True)
class Measured:
    """One process from its start to its end.

    Attributes:
        wall: Seconds.
        cpu: Seconds of processor time, of all threads.
        seconds: Seconds by part; none for a process without probes.
        numbers: How often each part was entered.
    """

    wall: float
    cpu: float
    seconds: dict[str, float]
    numbers: Counter[str]


def measured_run(url: str, benchmarks: str, limit: int, folder: Path) -> Measured:
    """Run `run-evals` with probes, on the lake in this folder."""
    script, result = Path(sys.executable).with_name("run-evals"), folder / "parts.json"
    options = ["--model", "model", "--base-url", url, "--judge-model", "judge", "--judge-base-url", url]
    options += ["--benchmark", benchmarks, "--limit", str(limit)]
    started = time.monotonic()
    process = measured(folder, __file__, "--child", str(started), str(result), str(script), *options)
    seconds, numbers, ended = json.loads(result.read_text(encoding="utf-8"))
    seconds[_END] = started + process.wall - ended
    return Measured(process.wall, process.cpu, seconds, Counter(numbers))


def measured(folder: Path, *arguments: str) -> Measured:
    """Run a Python process that has its lake and instance in this folder, and keeps its byte code as users do."""
    home = folder / "dagster"
    home.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    own = {"SHABERI_WAREHOUSE": str(folder / "warehouse"), "DAGSTER_HOME": str(home)}
    started, cpu = time.monotonic(), _cpu_of_children()
    finished = subprocess.run([sys.executable, *arguments], env=kept | own, capture_output=True, check=False)  # noqa: S603
    wall = time.monotonic() - started
    if finished.returncode:
        sys.exit(finished.stderr.decode(errors="replace"))
    return Measured(wall, _cpu_of_children() - cpu, {}, Counter())


def _cpu_of_children() -> float:
    """Of those that have ended."""
    times = os.times()
    return times.children_user + times.children_system


@contextlib.contextmanager
def endpoint() -> Iterator[str]:
    """The URL of a chat endpoint in a process of its own, which answers at once."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mock = ROOT / "tests" / "mock_endpoint.py"
    process = subprocess.Popen([sys.executable, mock, "--port", str(port)], stdout=subprocess.DEVNULL)  # noqa: S603
    try:
        end = time.monotonic() + _PATIENCE_SECONDS
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > end:
                sys.exit("the endpoint does not start")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def repetition(url: str, benchmarks: str, limit: int) -> dict[str, Measured]:
    """Everything once, in folders of its own."""
    with tempfile.TemporaryDirectory() as name:
        ours, other = Path(name, "ours"), Path(name, "other")
        return {
            _FIRST: measured_run(url, benchmarks, limit, ours),
            _AGAIN: measured_run(url, benchmarks, limit, ours),
            "`python -c 'import dagster'`": measured(other, "-c", "import dagster"),
            "one empty asset on a fresh instance": measured(other, __file__, "--minimal-job"),
        }


def report(repetitions: Sequence[dict[str, Measured]]) -> str:
    """Markdown tables: minimum and median seconds of each part, and of the whole against the baselines."""
    columns = {name: [one[name] for one in repetitions] for name in repetitions[0]}
    commands = [columns[name] for name in (_FIRST, _AGAIN)]
    parts = sorted({part for column in commands for run in column for part in run.seconds}, key=_place)
    lines = [f"| seconds, min / median of {len(repetitions)} | {_FIRST} | times | {_AGAIN} | times |"]
    lines.append("|---|--:|--:|--:|--:|")
    for part in parts:
        cells = [
            f"{_spread([run.seconds.get(part, 0) for run in column])} | {column[0].numbers[part] or ''}"
            for column in commands
        ]
        lines.append(f"| {part} | {' | '.join(cells)} |")
    for title, value in (("**all**", "wall"), ("**processor time**", "cpu")):
        lines.append(f"| {title} | {' | '.join(f'{_spread(_values(column, value))} | ' for column in commands)} |")
    lines += ["", f"| for scale | wall | {_FIRST}, times as long | {_AGAIN} | processor time | {_FIRST} | {_AGAIN} |"]
    lines.append("|---|--:|--:|--:|--:|--:|--:|")
    for name, column in columns.items():
        if column not in commands:
            cells = [cell for value in ("wall", "cpu") for cell in _ratios(column, commands, value)]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _ratios(baseline: Sequence[Measured], commands: Sequence[Sequence[Measured]], value: str) -> list[str]:
    own = _values(baseline, value)
    times = [statistics.median(_values(command, value)) / statistics.median(own) for command in commands]
    return [_spread(own), *(f"{one:.1f}" for one in times)]


def _values(runs: Sequence[Measured], value: str) -> list[float]:
    return [getattr(run, value) for run in runs]


def _place(part: str) -> int:
    """Where a part stands in the table: as in the life of the process."""
    order = [_START, *_IMPORTS.values(), _OTHER_IMPORTS, _DEFINITIONS, *(part for *_, part in _PROBES), _REST, _END]
    return order.index(part)


def _spread(values: Sequence[float]) -> str:
    return f"{min(values):.2f} / {statistics.median(values):.2f}"


def main() -> None:
    """Entry point, also of the processes that are measured."""
    if sys.argv[1:2] == ["--child"]:
        measure_child(sys.argv[2:])
        return
    if sys.argv[1:2] == ["--minimal-job"]:
        minimal_job()
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5, help="of everything; one more comes first, to warm up")
    parser.add_argument("--benchmark", default="elyza", help="as for run-evals: one benchmark, several, or all")
    parser.add_argument("--limit", type=int, default=1, help="questions of each benchmark")
    options = parser.parse_args()
    with endpoint() as url:
        repetition(url, options.benchmark, options.limit)
        repetitions = [repetition(url, options.benchmark, options.limit) for _ in range(options.repetitions)]
    print(report(repetitions))  # noqa: T201


if __name__ == "__main__":
    main()
