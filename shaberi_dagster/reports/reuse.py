"""Sentences on rows of runs that are replies to calls of other runs: they are no evidence of their own."""

from collections.abc import Mapping, Sequence

import duckdb
import orjson

from shaberi_dagster.lake.statements import fetch
from shaberi_dagster.reports.figures import listed


def reuse_remarks(catalog: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> list[str]:
    """Say of each of these runs how many replies of which other runs it uses."""
    return [
        reuse_remark(f"{row['model']} {row['run_tag']}", row["reused_replies"], f" of {row['n_answers'] or 0:,}")
        for row in fetch(catalog, "reused_replies", run_ids=list(run_ids))
    ]


def reuse_remark(run: str, reused: str, of_answers: str = "") -> str:
    """Say how many replies of which other runs a run uses: `m july: 12 of 40 answers are replies of run m@@june`.

    Args:
        run: The run.
        reused: Column `reused_replies` of the table `runs`.
        of_answers: How many answers the run has.
    """
    by_stage: Mapping[str, Mapping[str, int]] = orjson.loads(reused)
    counts = [
        f"{n:,}{of_answers if stage == 'answers' else ''} {stage.replace('_', ' ')} are replies of run {other}"
        for stage, by_run in by_stage.items()
        for other, n in by_run.items()
    ]
    return f"{run}: {listed(counts)}."
