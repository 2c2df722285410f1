"""How long passes take over a long history, and whether they leave every number without passes as it was.

    python perf/passes.py path/to/tree [path/to/other …] --copies 16

The trees are imported `--copies` times, each time under other model names (the files are linked, not copied), into a
lake of its own, which is deleted afterwards. The baseline of the ratio is reading all answer texts once.
"""

import argparse
import os
import platform
import resource
import tempfile
import time
from pathlib import Path

import polars as pl

from shaberi_dagster.benchmarks.registry import BENCHMARKS
from shaberi_dagster.exchange.installation import Installation
from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees, named_trees
from shaberi_dagster.lake.catalog import open_catalog, run_query
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.stages.imported import REMADE, add_to_imported, all_imported, reprocess_imported


def multiplied(trees: list[Path], copies: int, folder: Path) -> dict[str, Path]:
    """Trees with every model as often as there are copies."""
    for tree in trees:
        for file in tree.rglob("*.json"):
            place = folder / tree.name / file.relative_to(tree).parent
            place.mkdir(parents=True, exist_ok=True)
            for number in range(copies):
                (place / f"{file.stem}.copy{number}.json").hardlink_to(file)
    return named_trees([f"{tree.name}={folder / tree.name}" for tree in trees])


def baseline(workspace: Workspace) -> pl.DataFrame:
    """Every number without passes."""
    rows = workspace.lake.read("metrics", {"pipeline": "baseline"}).drop("created_at")
    return rows.sort("run_id", "benchmark", "judge", "null_policy")


def main() -> None:
    """Run it and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--copies", type=int, default=16)
    parser.add_argument("--passes", default="lang_mixing,repetition,format_validation")
    options = parser.parse_args()
    machine = f"{platform.platform()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} at the start"
    with tempfile.TemporaryDirectory(prefix="passes-") as scratch:
        folder = Path(scratch)
        workspace = Installation(Settings.from_environment({"SHABERI_WAREHOUSE": str(folder / "warehouse")}))
        import_trees(ImportRequest(multiplied(options.trees, options.copies, folder / "trees")), workspace)
        before = baseline(workspace)
        started = time.perf_counter()
        texts = workspace.lake.read("answers", columns=["run_id", "benchmark", "question_id", "answer"])
        reading = time.perf_counter() - started
        run_ids = all_imported(workspace.lake)["run_id"].to_list()
        passes = options.passes.split(",")
        lines = [machine, f"{texts.height:,} answers, {before.height:,} metrics, {len(run_ids)} runs"]
        del texts
        whole = time.perf_counter()
        add_to_imported(run_ids, passes, (), workspace)
        for stage in REMADE:
            started = time.perf_counter()
            reprocess_imported(stage, run_ids, list(BENCHMARKS), workspace)
            lines.append(f"{stage}: {time.perf_counter() - started:.1f} s")
        seconds = time.perf_counter() - whole
        examined = workspace.lake.read("pass_outputs", columns=["pass"]).height
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        lines += [
            f"all: {seconds:.1f} s for {examined:,} examinations; peak memory {peak:,.0f} MiB",
            f"reading the texts alone: {reading:.2f} s, ratio {seconds / reading:.0f}",
            f"numbers without passes unchanged: {baseline(workspace).equals(before)}",
        ]
        started = time.perf_counter()
        add_to_imported(run_ids, passes[::-1], (), workspace)
        reprocess_imported("pass_outputs", run_ids, list(BENCHMARKS), workspace)
        lines.append(f"another order, examined again: {time.perf_counter() - started:.1f} s")
        with open_catalog(workspace.settings.warehouse) as catalog:
            run_query(catalog, "from leaderboard").fetchall()
            started = time.perf_counter()
            rows = run_query(catalog, "from leaderboard").fetchall()
            lines.append(f"leaderboard of {len(rows):,} rows: {1000 * (time.perf_counter() - started):.0f} ms")
    print("\n".join(lines))  # noqa: T201


if __name__ == "__main__":
    main()
