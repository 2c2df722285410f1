"""How much is written anew to replace one old run of a long history: in large files, and in the compacted ones.

The lake is that of `history.py`. Its answers, judgements and scores of some runs are replaced by the same rows.
"""

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from history import Size, write_history

from shaberi_dagster.lake.compaction import compact_lake
from shaberi_dagster.lake.store import WRITER, Lake

_TABLES = ("answers", "judgements", "scores")
_LARGE_FILE = 100 << 20  # what delta-rs compacts to by itself


@dataclass
class Replaced:
    """What it took to replace some runs in one table, on average.

    Attributes:
        files: Files written.
        megabytes: Of them.
        seconds: Time.
    """

    files: float = 0
    megabytes: float = 0
    seconds: float = 0


def replace_runs(lake: Lake, table: str, runs: list[str], *, large: bool) -> Replaced:
    """Replace the rows of each run by themselves."""
    cost = Replaced()
    for run in runs:
        if large:  # again: what is written has the new size
            merge(lake, table)
        rows, before = lake.read(table, {"run_id": run}), set(lake.delta(table).file_uris())
        started = time.perf_counter()
        lake.replace(table, rows, {"run_id": run})
        cost.seconds += (time.perf_counter() - started) / len(runs)
        written = set(lake.delta(table).file_uris()) - before
        cost.files += len(written) / len(runs)
        cost.megabytes += sum(Path(file).stat().st_size for file in written) / 1e6 / len(runs)
    return cost


def merge(lake: Lake, table: str) -> None:
    """Make files as large as delta-rs does by itself."""
    lake.delta(table).optimize.compact(target_size=_LARGE_FILE, writer_properties=WRITER)


def measure(lake: Lake, n_runs: int, *, large: bool) -> list[str]:
    """Lines of a markdown table: files of each table, and what replacing a run takes."""
    known = sorted(lake.read("runs", columns=["run_id"])["run_id"])
    runs = [known[len(known) * (number + 1) // (n_runs + 1)] for number in range(n_runs)]
    lines = []
    for table in _TABLES:
        if large:
            merge(lake, table)
        sizes = [Path(file).stat().st_size / 1e6 for file in lake.delta(table).file_uris()]
        cost = replace_runs(lake, table, runs, large=large)
        stored = f"{sum(sizes):.0f} MB in {len(sizes)}, largest {max(sizes):.0f} MB"
        title = "up to 100 MB" if large else "16 MB, by model"
        lines.append(f"| {title} | `{table}` | {stored} | {cost.megabytes:.1f} | {cost.seconds:.2f} |")
    return lines


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=560)
    parser.add_argument("--runs", type=int, default=5, help="how many are replaced, one by one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        lake = Lake(Path(scratch) / "warehouse")
        write_history(lake.folder, Size(options.models, seed=1))
        lines = measure(lake, options.runs, large=True)
        for table in _TABLES:
            merge(lake, table)
        started = time.perf_counter()
        compact_lake(lake)
        print(f"compacted in {time.perf_counter() - started:.1f} s\n")  # noqa: T201
        lines += measure(lake, options.runs, large=False)
        print("| files of | table | files | MB written for a run | seconds |\n|---|---|---|--:|--:|")  # noqa: T201
        print("\n".join(lines))  # noqa: T201


if __name__ == "__main__":
    main()
