"""What a whole `run-evals` costs: CPU, wall time and peak memory of the command, beside an older checkout in turns.

    python perf/whole_run.py                                    10,000 calls of 50 ms, 64 at once
    python perf/whole_run.py --before ../older --rounds 3       the same, and the ratio to another checkout
    python perf/whole_run.py --calls 50000 --latency 0          memory with many calls
    python perf/whole_run.py --calls 2000 --characters 330000 --latency 0     and with answers of 1 MB
    python perf/whole_run.py --starter --before ../older --rounds 6           42 calls, then nothing to do

Half of the calls are answers of `--characters` characters, half are judgements of them. The endpoint is
`tests/mock_endpoint.py` in a process of its own; each command gets a new lake. An older checkout needs the same
dependencies: it is run by this interpreter with PYTHONPATH, byte code and caches of its own are made first.
"""

import argparse
import compileall
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
_STARTER_CALLS = 42


@dataclass(frozen=True)
class Cost:
    """What one command took: seconds, seconds, MiB."""

    cpu: float
    wall: float
    peak: float


@contextmanager
def endpoint(latency: float, characters: int) -> Iterator[str]:
    """The base URL of a mock endpoint."""
    mock = [sys.executable, ROOT / "tests" / "mock_endpoint.py", "--port", "0"]
    command = [*mock, "--latency", str(latency), "--length", str(characters)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    try:
        yield process.stdout.readline().strip() if process.stdout else ""
    finally:
        process.terminate()
        process.wait()


def write_questions(folder: Path, count: int) -> None:
    """That many questions of about 300 bytes."""
    text = "日本の四季について、それぞれの特徴と代表的な行事を挙げて説明してください。" * 2
    rows = ({"question": f"{number}: {text}", "category": "地理"} for number in range(count))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rakuda.jsonl").write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n")


def measured(checkout: Path, place: str, caches: str, base_url: str, *options: str) -> Cost:
    """Run the command of a checkout once, with its lake and instance in this place.

    Raises:
        RuntimeError: It failed.
    """
    environment = os.environ | {
        "PYTHONPATH": str(checkout),
        "SHABERI_WAREHOUSE": f"{place}/warehouse",
        "SHABERI_MIRRORS": caches,
        "DAGSTER_HOME": f"{place}/dagster",
    }
    command = [
        *(sys.executable, "-c", "from shaberi_dagster.cli.start import run_evals; run_evals()"),
        *("--model", "mock", "--base-url", base_url, "--judge-model", "judge", "--judge-base-url", base_url),
        *options,
    ]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(  # noqa: S603
        command, env=environment, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    peak = _PeakMemory(process.pid)
    _, said = process.communicate()
    if process.returncode:
        raise RuntimeError(said[-2000:])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(cpu, time.perf_counter() - started, peak.mebibytes)


class _PeakMemory:
    """The highest resident size of a process, which Linux keeps until it ends."""

    def __init__(self, pid: int) -> None:
        self._status, self.mebibytes = Path(f"/proc/{pid}/status"), 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            try:
                lines = self._status.read_text().splitlines()
                self.mebibytes = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
            except (OSError, StopIteration):
                return
            time.sleep(0.05)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--characters", type=int, default=700, help="of an answer; Japanese, 3 bytes each")
    parser.add_argument("--latency", type=float, default=0.05, help="seconds of a call")
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--before", type=Path, help="another checkout, run in turns with this one")
    parser.add_argument("--starter", action="store_true", help="the starter sets: 42 calls, and the same once more")
    options = parser.parse_args()
    checkouts = {"this": ROOT} | ({"before": options.before.resolve()} if options.before else {})
    first: dict[str, list[Cost]] = {name: [] for name in checkouts}
    again: dict[str, list[Cost]] = {name: [] for name in checkouts}
    with tempfile.TemporaryDirectory() as folder, endpoint(options.latency, options.characters) as base_url:
        asked: list[str] = []
        if options.starter:
            options.calls = _STARTER_CALLS
        else:
            questions = Path(folder) / "questions"
            write_questions(questions, options.calls // 2)
            asked = ["--benchmark", "rakuda", "--questions", str(questions), "--concurrency", str(options.at_once)]
        for name, checkout in checkouts.items():
            compileall.compile_dir(checkout / "shaberi_dagster", quiet=2)
            with tempfile.TemporaryDirectory() as place:  # what is kept in caches is made
                measured(checkout, place, f"{folder}/{name}", base_url, "--benchmark", "elyza", "--limit", "1")
        for _ in range(options.rounds):
            for name, checkout in checkouts.items():
                with tempfile.TemporaryDirectory() as place:
                    first[name].append(measured(checkout, place, f"{folder}/{name}", base_url, *asked))
                    if options.starter:
                        again[name].append(measured(checkout, place, f"{folder}/{name}", base_url, *asked))
    _print(first, options, "")
    if options.starter:
        _print(again, options, ", with nothing left to do")


def _print(costs: dict[str, list[Cost]], options: argparse.Namespace, what: str) -> None:
    table = Table(
        title=f"{options.calls:,} calls of {options.latency:g} s{what}, {options.at_once} at once, answers of "
        f"{options.characters:,} characters; medians of {options.rounds}; {platform.machine()}, {os.cpu_count()} cores"
    )
    names = ("cpu", "wall", "peak")
    for title in ("", "CPU in s", "CPU in ms a call", "wall in s", "peak in MiB"):
        table.add_column(title, justify="right" if title else "left")
    medians = {
        name: {each: statistics.median(getattr(one, each) for one in own) for each in names}
        for name, own in costs.items()
    }
    for name, one in medians.items():
        milliseconds = one["cpu"] / options.calls * 1000
        table.add_row(name, f"{one['cpu']:.2f}", f"{milliseconds:.2f}", f"{one['wall']:.1f}", f"{one['peak']:.0f}")
    if "before" in medians:
        ratios = [medians["this"][name] / medians["before"][name] for name in names]
        table.add_row("ratio", f"{ratios[0]:.2f}", "", f"{ratios[1]:.2f}", f"{ratios[2]:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
