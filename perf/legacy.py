"""How fast legacy trees come into the lake, how small they become, and how fast they are asked.

    python perf/legacy.py path/to/tree path/to/other     each folder has data/model_answers and data/judgements

Everything is imported into a lake of its own, which is deleted afterwards. The baseline is a plain loop over the same
judgement files: `json.loads` of each line, and the mean of its scores by judge, benchmark and model.
"""

import argparse
import json
import os
import platform
import re
import resource
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees, named_trees
from shaberi_dagster.lake.catalog import open_catalog, run_query, write_catalog
from shaberi_dagster.lake.compaction import compact_lake
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings

_ANSWER = re.compile(rb'("ModelAnswer": ?"(?:[^"\\]|\\.)*)"')
QUESTIONS = {
    "leaderboard": "from leaderboard",
    "leaderboard over shared judges": "from multi_judge_leaderboard",
    "judges' agreement": "from judge_agreement",
    "duplicates": "from duplicates",
}


def copy(file: Path, source: Path, target: Path, copies: int) -> int:
    """Write all copies of a file.

    Returns:
        Their size in bytes.
    """
    content = file.read_bytes()
    place = target / file.relative_to(source)
    place.parent.mkdir(parents=True, exist_ok=True)
    size = 0
    for number in range(copies):
        own = _ANSWER.sub(rb'\1 [%d]"' % number, content) if number else content
        name = f"{file.stem}.copy{number}.json" if number else file.name
        size += place.with_name(name).write_bytes(own)
    return size


def copied(trees: Mapping[str, Path], folder: Path, copies: int) -> dict[str, Path]:
    """Make trees of copies: those of a model are `{model}.copyN`, and their answers end with ` [N]`."""
    for name, tree in trees.items():
        work = partial(copy, source=tree, target=folder / name, copies=copies)
        with ProcessPoolExecutor() as processes:
            list(processes.map(work, sorted(tree.rglob("*.json")), chunksize=8))
    return {name: folder / name for name in trees}


def naive_means(trees: list[Path]) -> float:
    """Seconds that a loop over all judgement files takes for the means."""
    started = time.perf_counter()
    scores = defaultdict(list)
    for tree in trees:
        for path in tree.rglob("judge_*/*/*.json"):
            with path.open(encoding="utf-8") as lines:
                for line in lines:
                    score = json.loads(line)["score"] if line.strip() else None
                    if isinstance(score, int | float):
                        scores[path.parts[-3:]].append(score)
    means = {key: statistics.fmean(values) for key, values in scores.items()}
    return time.perf_counter() - started if means else 0.0


def query_milliseconds(warehouse: Path, sql: str, repetitions: int) -> float:
    """Least time until the whole result is there."""
    times = []
    with open_catalog(warehouse) as catalog:
        for _ in range(repetitions):
            started = time.perf_counter()
            run_query(catalog, sql).fetchall()
            times.append(time.perf_counter() - started)
    return min(times) * 1000


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="+", help="NAME=FOLDER or FOLDER")
    parser.add_argument("--repetitions", type=int, default=7, help="of each query")
    parser.add_argument("--copies", type=int, default=1, help="of each tree, with other models and answers in each")
    options = parser.parse_args()
    trees = named_trees(options.trees)
    console = Console(width=120)
    console.print(f"{platform.platform()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} at the start")
    with tempfile.TemporaryDirectory() as folder:
        if options.copies > 1:
            trees = copied(trees, Path(folder) / "copies", options.copies)
        workspace = Workspace(Settings.from_environment({"SHABERI_WAREHOUSE": f"{folder}/warehouse"}))
        result = import_trees(ImportRequest(trees), workspace)
        megabytes = result.bytes_read / 1e6
        compact_lake(workspace.lake, retention_hours=0)
        write_catalog(workspace.lake)
        warehouse = workspace.settings.warehouse
        size = sum(path.stat().st_size for path in warehouse.rglob("*.parquet")) / 1e6
        peak = [resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        console.print(
            f"imported {megabytes:,.0f} MB in {result.seconds:.1f} s: {megabytes / result.seconds:.0f} MB/s, "
            f"peak {peak[0]:.0f} + {peak[1]:.0f} MiB, lake {size:.1f} MB = {size / megabytes:.1%}"
        )
        naive = naive_means(list(trees.values()))
        table = Table("question", "ms", "loop / query", title=f"a plain loop takes {naive * 1000:,.0f} ms")
        for name, sql in QUESTIONS.items():
            milliseconds = query_milliseconds(warehouse, sql, options.repetitions)
            table.add_row(name, f"{milliseconds:.0f}", f"{naive * 1000 / milliseconds:.0f}")
        console.print(table)


if __name__ == "__main__":
    main()
