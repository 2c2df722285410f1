"""Sentences on rows of runs that are replies to calls of other runs: they are no evidence of their own."""

from collections.abc import Mapping, Sequence

import duckdb
import orjson

from shaberi_dagster.lake.statements import fetch
from shaberi_dagster.reports.figures import listed


def reuse_remarks(catalog: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> list[str]:
    """Say of each of these runs how many replies of which other runs it uses."""
    rows = fetch(catalog, "reused_replies", run_ids=list(run_ids))
    return [reuse_remark(row["run_id"], row["reused_replies"]) for row in rows]


def reuse_remark(run_id: str, reused: str) -> str:
    """Say how many replies of which other runs a run uses.

    Args:
        run_id: The run.
        reused: Column `reused_replies` of the table `runs`.
    """
    by_stage: Mapping[str, Mapping[str, int]] = orjson.loads(reused)
    counts = [
        f"{n:,} {stage.replace('_', ' ')} of {run}" for stage, by_run in by_stage.items() for run, n in by_run.items()
    ]
    return f"Run {run_id} uses replies of other runs: {listed(counts)}. They are no evidence of its own."
