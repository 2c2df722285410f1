"""Rows that are written while they are made, and all appear at once."""

from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

from shaberi_dagster.lake import writer
from shaberi_dagster.lake.catalog import connect
from shaberi_dagster.lake.compaction import compact_lake
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.lake.writer import RowWriter
from shaberi_dagster.runs.workspace import Workspace

pytestmark = pytest.mark.integration

_KEY = ["run_id", "benchmark", "judge", "question_id"]
_HOSTILE = "rule:mcq+org/模型 é%2F=x?#'\""


def _row(question: str, judge: str = "j", run_id: str = "m@@t", **values: Any) -> dict[str, Any]:
    usual = {"model": "m", "run_tag": "t", "benchmark": "tengu", "question_set": "tengu@5", "sample_index": 0}
    made = {"judge_config_hash": "c", "status": "ok", "superseded": False, "created_at": datetime.now(UTC)}
    return usual | made | {"run_id": run_id, "judge": judge, "question_id": question} | values


def _write(lake: Lake, *rows: dict[str, Any], **options: Any) -> None:
    with RowWriter(lake, "judgements") as rows_of:
        for row in rows:
            rows_of.add(row)
        rows_of.commit(**options)


def _found(lake: Lake, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(lake.read("judgements", columns=list(columns)).rows(), key=repr)


def _keys(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame([{name: row[name] for name in _KEY} for row in rows])


@pytest.fixture
def lake(workspace: Workspace) -> Lake:
    return workspace.lake


def test_rows_appear_at_the_commit_and_not_before(lake: Lake) -> None:
    with RowWriter(lake, "judgements") as rows:
        rows.add(_row("q1", score=3.0))
        assert lake.read("judgements").is_empty()
        rows.commit()
    assert _found(lake, "question_id", "score") == [("q1", 3.0)]


def test_rows_that_are_not_committed_leave_no_file(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_BUFFERED", 1)
    with RowWriter(lake, "judgements") as rows:
        rows.add(_row("q1", judge_output="長い" * 100))
        assert list(lake.path("judgements").rglob("*.parquet"))
    assert not list(lake.path("judgements").rglob("*.parquet"))
    assert lake.read("judgements").is_empty()


@pytest.mark.parametrize("buffered", [1, 1 << 20])
def test_every_judge_has_a_partition_whatever_its_name_and_all_readers_find_it(
    lake: Lake, buffered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_BUFFERED", buffered)
    judges = ["gpt-5.1", "rule:mcq", _HOSTILE, "a b+c", ".", "~"]
    _write(lake, *(_row(f"q{number}", judge) for number in range(3) for judge in judges))
    expected = sorted(((judge, f"q{number}") for number in range(3) for judge in judges), key=repr)
    assert _found(lake, "judge", "question_id") == expected
    with connect(lake, "judgements") as connection:
        rows = connection.sql("select judge, question_id from lake.judgements").fetchall()
    assert sorted(rows, key=repr) == expected
    assert len(lake.delta("judgements").file_uris()) == len(judges)
    compact_lake(lake, retention_hours=0)
    assert _found(lake, "judge", "question_id") == expected
    lake.replace("judgements", pl.DataFrame([_row("q0", _HOSTILE, score=1.0)]), {"judge": _HOSTILE})
    assert lake.read("judgements", {"judge": _HOSTILE})["score"].to_list() == [1.0]


def test_replaced_rows_go_or_are_retired_and_the_others_stay_as_they_are(lake: Lake) -> None:
    first, second, others = _row("q1", score=1.0), _row("q2", score=2.0), _row("q1", run_id="other@@t", score=9.0)
    _write(lake, first, second, others)
    _write(lake, _row("q1", score=5.0), replaced=_keys(first))
    assert _found(lake, "run_id", "question_id", "score") == [
        ("m@@t", "q1", 5.0),
        ("m@@t", "q2", 2.0),
        ("other@@t", "q1", 9.0),
    ]

    def superseded(rows: pl.DataFrame) -> pl.DataFrame:
        return rows.with_columns(superseded=pl.lit(value=True))

    for score in (6.0, 7.0):
        _write(lake, _row("q1", score=score), replaced=_keys(first), supersede=superseded)
    own = [row for row in _found(lake, "run_id", "question_id", "superseded", "score") if row[:2] == ("m@@t", "q1")]
    assert own == [("m@@t", "q1", False, 7.0), ("m@@t", "q1", True, 5.0), ("m@@t", "q1", True, 6.0)]


def test_rows_can_be_put_away_without_new_ones_and_new_ones_may_be_of_other_benchmarks(lake: Lake) -> None:
    gone, stays = _row("q1"), _row("q2")
    _write(lake, gone, stays)
    _write(lake, _row("q3", benchmark="elyza"), replaced=_keys(gone))
    assert _found(lake, "benchmark", "question_id") == [("elyza", "q3"), ("tengu", "q2")]
    _write(lake, replaced=_keys(stays))
    assert _found(lake, "question_id") == [("q3",)]


def test_more_questions_than_a_predicate_names_are_replaced_too(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_LONGEST_LIST", 2)
    rows = [_row(f"q{number}", score=0.0) for number in range(9)]
    _write(lake, *rows)
    _write(lake, *(row | {"score": 1.0} for row in rows[:5]), replaced=_keys(*rows[:5]))
    assert [score for (score,) in _found(lake, "score")] == [0.0] * 4 + [1.0] * 5


def test_nothing_to_write_makes_no_version(lake: Lake) -> None:
    _write(lake, _row("q1"))
    before = lake.versions()
    _write(lake)
    _write(lake, replaced=_keys(_row("q1")).clear())
    assert lake.versions() == before


def test_a_row_without_a_required_value_is_refused_before_it_is_written(lake: Lake) -> None:
    with pytest.raises(ValueError, match="needs values in"):
        _write(lake, {name: value for name, value in _row("q1").items() if name != "status"})
    assert lake.read("judgements").is_empty()
