"""A clock that goes back: the newest rows win, and nothing is deleted too early."""

import json
import os
import re
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from deltalake import write_deltalake

from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.lake.store import Lake, arrow_schema
from tests.commands import lake_of, run, run_without_dagster
from tests.mock_endpoint import MockEndpoint

pytestmark = [pytest.mark.e2e, pytest.mark.long]

_AHEAD = timedelta(days=8)  # more than the week that compaction keeps what was replaced
_TIMES = re.compile(r'("(?:timestamp|modificationTime|deletionTimestamp|createdTime)":)(\d+)')


def _put_ahead(folder: Path) -> None:
    """Let a lake be as if it had been written eight days from now: then today's clock has gone back."""
    lake = Lake(folder)
    for name in lake.versions():
        times = [column for column, kind in TABLES[name].schema.items() if isinstance(kind, pl.Datetime)]
        rows = lake.read(name).with_columns(pl.col(times) + _AHEAD).to_arrow().cast(arrow_schema(TABLES[name]))
        write_deltalake(lake.delta(name), rows, mode="overwrite")
    milliseconds = int(_AHEAD.total_seconds() * 1000)
    for entry in folder.glob("*/_delta_log/*.json"):
        entry.write_text(_TIMES.sub(lambda found: f"{found[1]}{int(found[2]) + milliseconds}", entry.read_text()))
    for file in folder.rglob("*"):
        later = file.stat().st_mtime + _AHEAD.total_seconds()
        os.utime(file, (later, later))


def test_after_the_clock_went_back_the_newest_judgements_count_and_compaction_keeps_all(
    mock: MockEndpoint, tmp_path: Path
) -> None:
    place = lake_of(tmp_path) | {"SHABERI_RESULTS": str(tmp_path / "results")}
    asked = ["--model", "m", "--base-url", mock.base_url, "--judge-model", "j", "--judge-base-url", mock.base_url]

    def evaluate(*more: str) -> None:
        run_without_dagster("run-evals", *asked, "--benchmark", "tengu", *more, environment=place).succeeded()

    evaluate()
    folder = tmp_path / "warehouse"
    _put_ahead(folder)
    evaluate("--rejudge")

    assert mock.stats()["requests"] == 15
    judgements = Lake(folder).read("judgements")
    current, earlier = judgements.filter(~pl.col("superseded")), judgements.filter("superseded")
    assert (current.height, earlier.height) == (5, 5)
    assert current["created_at"].max() < earlier["created_at"].min()
    calls = Lake(folder).read("calls", {"stage": "judgements"}).sort("created_at")
    assert set(current["request_hash"]) == set(calls["request_hash"].head(5))
    scores = Lake(folder).read("scores")
    assert scores.join(current, on=["question_id", "score"], how="semi").height == scores.height

    files = {file for file in folder.rglob("*.parquet") if "_delta_log" not in file.parts}
    counts = json.loads(run("shaberi", "compact", "--json", environment=place).succeeded().out)
    assert files <= set(folder.rglob("*.parquet")), counts
    evaluate()
    assert mock.stats()["requests"] == 15
    assert run("shaberi", "doctor", environment=place).succeeded()
