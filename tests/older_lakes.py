"""Lakes as older programs left them."""

import json
import shutil

import polars as pl
from deltalake import write_deltalake

from shaberi_dagster.exchange.installation import Installation
from shaberi_dagster.journal.locks import LOCKS_FOLDER
from shaberi_dagster.lake.formats import FORMAT_NAME
from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.plan import RunPlan
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.settings import Settings
from shaberi_dagster.stages.judgements import Judgements

_SINCE_2 = {"runs": "created_by", "judgements": "superseded_at"}


def as_format_2(lake: Lake, spec: RunSpec) -> None:
    """Make the lake what it would be if it had been written while addresses were part of the settings of judges.

    Args:
        lake: Has the judgements of a run.
        spec: The run.
    """
    plan = RunPlan(spec, list(spec.benchmarks), Installation(Settings.from_environment(), environment={}))
    former = {now: before for before, now in Judgements(plan).identity_aliases()["judge_config_hash"].items()}
    for table in ("judgements", "scores", "metrics"):
        rows = lake.read(table, {"run_id": spec.run_id}).with_columns(
            pl.col("judge_config_hash").replace_strict(former)
        )
        lake.replace(table, rows, {"run_id": spec.run_id})
    shutil.rmtree(lake.path("judge_configs"), ignore_errors=True)
    (lake.folder / FORMAT_NAME).write_text(json.dumps({"format": 2}), encoding="utf-8")


def as_format_4(lake: Lake) -> None:
    """Make the lake what it would be if it had been written before scores told their call and judgement."""
    _rewrite(lake, "runs", lake.read("runs").drop("not_sent"))
    _rewrite(lake, "scores", lake.read("scores").drop("call_hash", "judged_at", "out_of_scale"))
    as_format_5(lake)
    (lake.folder / FORMAT_NAME).write_text(json.dumps({"format": 4}), encoding="utf-8")


def as_format_5(lake: Lake) -> None:
    """Make the lake what it would be if it had been written before metrics had the single scores that they are made of."""
    if lake.exists("metrics"):
        _rewrite(lake, "metrics", lake.read("metrics").drop("question_ids", "question_scores"))
    _as_format(lake, 5)


def as_format_6(lake: Lake) -> None:
    """Make the lake what it would be if it had been written while undecided answers were excluded from means."""
    were = lake.read("metrics").with_columns(
        score="score_upper", n_excluded=pl.col("n_excluded") + pl.col("n_undecided")
    )
    _rewrite(lake, "metrics", were.drop("score_upper", "n_undecided", "undecided"))
    _as_format(lake, 6)


def _as_format(lake: Lake, number: int) -> None:
    (lake.folder / FORMAT_NAME).write_text(json.dumps({"format": number}), encoding="utf-8")
    (lake.folder / "catalog.duckdb").unlink(missing_ok=True)
    lake._opened.clear()


def _rewrite(lake: Lake, table: str, rows: pl.DataFrame) -> None:
    shutil.rmtree(lake.path(table))
    write_deltalake(lake.path(table), rows.to_arrow(), partition_by=list(TABLES[table].partition_by) or None)


def as_format_1(lake: Lake) -> Lake:
    """Make the lake what it would be if it had been written before there was a format.

    Returns:
        It, for reading.
    """
    for table, column in _SINCE_2.items():
        if lake.exists(table):
            _rewrite(lake, table, lake.read(table).drop(column))
    for table in ("prompts", "judge_configs"):
        shutil.rmtree(lake.path(table), ignore_errors=True)
    shutil.rmtree(lake.folder / LOCKS_FOLDER, ignore_errors=True)
    for name in (FORMAT_NAME, "catalog.duckdb"):
        (lake.folder / name).unlink(missing_ok=True)
    lake._opened.clear()
    return Lake(lake.folder)
