import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from shaberi_dagster.lake import store
from shaberi_dagster.lake.catalog import connect
from shaberi_dagster.lake.compaction import compact_lake
from shaberi_dagster.lake.formats import write_format
from shaberi_dagster.lake.schemas import ANSWERS, RUNS, TABLES, LakeTable
from shaberi_dagster.lake.store import Lake, conform
from shaberi_dagster.util.errors import ConfigurationError
from tests.sizes import FULL, size

pytestmark = pytest.mark.integration

_WRITERS = size(3, 8)
_ROOT = Path(__file__).parents[2]
_AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
_TEXTS = ["日本語 🗾\r\n", "o'brien/模型 %2F", "nul\0 esc\x1b[31m", "", "'; drop table x --", "NULL", '"\\', "\u2028"]


def _value(dtype: pl.DataType, number: int) -> Any:
    text = _TEXTS[number % len(_TEXTS)]
    deltas: list[list[dict[str, Any]]] = [
        [],
        [{"pass": "lang_mixing", "version": "1", "delta": -0.5, "reason": text}] * 2,
        [{"pass": "repetition", "version": None, "delta": None, "reason": None}],
    ]
    values: dict[Any, Any] = {
        pl.String: text,
        pl.Int64: (-1) ** number * (2**62 + number),
        pl.Float64: 0.1 * number,
        pl.Boolean: number % 2 == 0,
        pl.Datetime: _AT,
        pl.Struct: deltas[number % len(deltas)],
    }
    if isinstance(dtype, pl.List):
        inner = values[dtype.inner.base_type()]
        return inner if isinstance(inner, list) else [inner, inner]
    return values[dtype.base_type()]


def _rows(table: LakeTable, count: int = 9) -> pl.DataFrame:
    """Rows with all kinds of values, and one in which everything is null that may be."""
    rows = [{column.name: _value(column.type, number) for column in table.columns} for number in range(count)]
    rows.append({column.name: _value(column.type, 0) if column.required else None for column in table.columns})
    return pl.DataFrame(rows, schema=table.schema)


def _answers(run: str, count: int = 3, benchmark: str = "elyza", text: str = "答え") -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "run_id": run,
                "model": "m",
                "run_tag": "t",
                "benchmark": benchmark,
                "question_id": f"q{number}",
                "sample_index": 0,
                "answer": text,
                "status": "ok",
                "created_at": _AT,
            }
            for number in range(count)
        ]
    )


@pytest.mark.parametrize("left", [None, "00000000000000000000.json#1", "00000000000000000000.json"])
def test_a_table_that_was_only_begun_is_read_as_missing_and_made_by_who_writes(
    tmp_path: Path, left: str | None
) -> None:
    write_format(tmp_path)
    log = tmp_path / "answers" / "_delta_log"
    log.mkdir(parents=True)
    if left:
        (log / left).touch()
    files = set(tmp_path.rglob("*"))

    lake = Lake(tmp_path)
    assert lake.read("answers").is_empty()
    assert lake.versions() == {}
    assert set(tmp_path.rglob("*")) == files

    lake.append("answers", _answers("run"))
    assert lake.read("answers").height == Lake(tmp_path).read("answers").height == 3


@pytest.mark.acceptance
@pytest.mark.parametrize("name", ["scores", "metrics"])
def test_an_update_writes_only_rows_that_are_others_than_before(name: str, lake: Lake) -> None:
    table = TABLES[name]
    rows = _rows(table).with_columns(run_id=pl.lit("a"))
    keys = {"run_id": "a"}
    assert lake.update(name, rows, keys)
    version = lake.versions()[name]

    assert not lake.update(name, rows.reverse().with_columns(created_at=pl.lit(datetime.now(UTC))), keys)
    assert lake.versions()[name] == version

    others = [column for column in table.columns if column.name not in {"run_id", "created_at"}]
    if not FULL:  # one of each type
        others = list({str(column.type): column for column in others}.values())
    changed = rows
    for column in others:
        changed = changed.with_columns(pl.lit(_value(column.type, 10), dtype=column.type).alias(column.name))
        assert lake.update(name, changed, keys), column.name
    assert lake.update(name, changed.head(5), keys)
    assert lake.versions()[name] == version + len(others) + 1


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_every_value_of_every_type_comes_back_as_it_was_written(
    table: LakeTable, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = _rows(table)
    lake.append(table.name, rows)
    assert sorted(lake.read(table.name).rows(), key=repr) == sorted(rows.rows(), key=repr)
    assert lake.read(table.name).schema == table.schema
    monkeypatch.setattr(store, "_FEW_FILES", 0)
    assert sorted(lake.read(table.name).rows(), key=repr) == sorted(rows.rows(), key=repr)
    assert lake.read(table.name).schema == table.schema
    with connect(lake) as connection:
        seen = pl.DataFrame(connection.sql(f"from lake.{table.name}").to_arrow_table())
    assert sorted(seen.rows(), key=repr) == sorted(rows.rows(), key=repr)


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_every_delta_column_carries_its_description(table: LakeTable, lake: Lake) -> None:
    fields = {field.name: field.metadata for field in lake.delta(table.name).schema().fields}
    assert {name: data["comment"] for name, data in fields.items()} == {
        column.name: column.description for column in table.columns
    }
    assert all(column.meaning for column in table.columns)


def test_replace_touches_only_the_rows_of_its_keys(lake: Lake) -> None:
    for run in ("a", "b"):
        for benchmark in ("elyza", "tengu", "rakuda"):
            lake.replace("answers", _answers(run, benchmark=benchmark), {"run_id": run, "benchmark": benchmark})
    fresh = pl.concat([_answers("a", 2, "elyza", "新"), _answers("a", 1, "tengu", "新")])
    lake.replace("answers", fresh, {"run_id": "a", "benchmark": ["elyza", "tengu"]})
    counts = lake.read("answers").group_by("run_id", "benchmark", "answer").len().sort(pl.all()).rows()
    assert counts == [
        ("a", "elyza", "新", 2),
        ("a", "rakuda", "答え", 3),
        ("a", "tengu", "新", 1),
        ("b", "elyza", "答え", 3),
        ("b", "rakuda", "答え", 3),
        ("b", "tengu", "答え", 3),
    ]


def test_replacing_by_nothing_deletes(lake: Lake) -> None:
    lake.append("answers", pl.concat([_answers("a"), _answers("b")]))
    lake.replace("answers", _answers("a").clear(), {"run_id": "a"})
    assert lake.read("answers")["run_id"].unique().to_list() == ["b"]


def test_rows_that_do_not_match_the_keys_are_refused_and_nothing_changes(lake: Lake) -> None:
    lake.append("answers", _answers("a"))
    with pytest.raises(DeltaError, match="3 rows failed validation"):
        lake.replace("answers", _answers("b"), {"run_id": "a"})
    assert lake.read("answers")["run_id"].to_list() == ["a"] * 3


@pytest.mark.parametrize(
    "judge", [*(text for text in _TEXTS if "\0" not in text), "a=b", "a*?[x]", "12", "a b", "模" * 22]
)
def test_hostile_partition_values_are_kept_replaced_and_found(judge: str, lake: Lake) -> None:
    def row(score: float, name: str) -> pl.DataFrame:
        columns = {"judge": pl.lit(name), "score": pl.lit(score), "superseded": pl.lit(value=False)}
        return _answers("a", 1).drop("answer").with_columns(**columns)

    lake.replace("judgements", row(1.0, "other"), {"run_id": "a", "judge": "other"})
    lake.replace("judgements", row(2.0, judge), {"run_id": "a", "judge": judge})
    lake.replace("judgements", row(3.0, judge), {"run_id": "a", "judge": judge})
    assert lake.read("judgements", {"judge": judge}, ["judge", "score"]).rows() == [(judge, 3.0)]
    with connect(lake) as connection:
        found = connection.execute("select judge, score from judgements where judge = $1", [judge]).fetchall()
        assert found == [(judge, 3.0)]
        assert connection.execute("select count(*) from judgements").fetchone() == (2,)


@pytest.mark.parametrize("folder", ["with space", "評価 結果", "a#b?c&d;e", "o'x", "~x"])
def test_the_warehouse_may_lie_in_an_unusual_folder(folder: str, tmp_path: Path) -> None:
    lake = Lake(tmp_path / folder / "warehouse")
    lake.append("answers", _answers("a"))
    lake.replace("answers", _answers("a"), {"run_id": "a"})
    assert lake.read("answers").height == 3
    assert all(Path(uri).is_file() for uri in lake.delta("answers").file_uris())
    with connect(lake) as connection:
        assert connection.execute("select count(*) from answers").fetchone() == (3,)


@pytest.mark.parametrize("folder", ["[x]", "a%20b", "a^b", "a|b", "a\\b"])
def test_a_folder_that_delta_lake_cannot_use_is_refused_with_the_variable_to_set(folder: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="SHABERI_WAREHOUSE"):
        Lake(tmp_path / folder)


@pytest.mark.long
@pytest.mark.acceptance
def test_no_write_of_several_processes_is_lost(lake: Lake) -> None:
    """Each process makes its tables with the others and replaces its own runs over and over."""
    script = """
import sys
from pathlib import Path
import polars as pl
from shaberi_dagster.lake.store import Lake
lake, own = Lake(Path(sys.argv[1])), sys.argv[2]
rows = pl.read_parquet(sys.argv[3])
for turn in range(4):
    for run in ("x", "y"):
        name = f"{own}-{run}"
        frame = rows.with_columns(run_id=pl.lit(name), answer=pl.lit(f"turn {turn}"))
        lake.replace("answers", frame, {"run_id": name, "benchmark": "elyza"})
    calls = pl.DataFrame({"request_hash": [f"{own}{turn}"], "run_id": own, "stage": "answers", "model": "m",
        "base_url": "u", "status": "ok", "created_at": rows["created_at"][0]})
    lake.append("calls", calls, transaction=f"{own}-{turn}")
"""
    rows = lake.folder.parent / "rows.parquet"
    _answers("any").write_parquet(rows)
    command = [sys.executable, "-c", script, str(lake.folder)]
    writers = [
        subprocess.Popen([*command, f"w{number}", str(rows)], cwd=_ROOT, stderr=subprocess.PIPE)
        for number in range(_WRITERS)
    ]
    failures = [writer.communicate()[1].decode() for writer in writers if writer.wait()]
    assert not failures, failures[0][-2000:]
    counts = lake.read("answers").group_by("run_id", "answer").len()
    assert sorted(counts.rows()) == sorted(
        (f"w{number}-{run}", "turn 3", 3) for number in range(_WRITERS) for run in "xy"
    )
    assert sorted(lake.read("calls")["request_hash"]) == sorted(
        f"w{n}{turn}" for n in range(_WRITERS) for turn in range(4)
    )
    assert all(lake.committed("calls", f"w{n}-{turn}") for n in range(_WRITERS) for turn in range(4))


def test_a_table_that_is_open_shows_what_others_wrote_and_compacted_since(lake: Lake) -> None:
    lake.replace("answers", _answers("a"), {"run_id": "a"})
    other = Lake(lake.folder)
    other.replace("answers", _answers("b", 5), {"run_id": "b"})
    assert lake.read("answers").height == 8
    compact_lake(other)
    assert len(lake.delta("answers").file_uris()) == 1
    lake.replace("answers", _answers("a", 1), {"run_id": "a"})
    assert sorted(other.read("answers")["run_id"]) == ["a", "b", "b", "b", "b", "b"]


def test_a_table_that_is_open_shows_what_others_wrote_also_where_the_beginning_of_the_log_was_deleted(
    lake: Lake,
) -> None:
    lake.append("answers", _answers("a"))
    opened = lake.delta("answers").version()
    other = Lake(lake.folder)
    for name in "bc":
        other.append("answers", _answers(name))
    other.delta("answers").create_checkpoint()
    for version in range(opened + 2):
        (lake.path("answers") / "_delta_log" / f"{version:020}.json").unlink()
    assert set(lake.read("answers")["run_id"]) == {"a", "b", "c"}


@pytest.mark.parametrize("older", [False, True])
def test_a_log_is_read_from_its_last_ten_versions_on_also_that_of_a_table_of_an_older_program(
    older: bool, lake: Lake
) -> None:
    if older:
        lake.widen("runs")  # so that the lake has today's format
        DeltaTable.create(lake.path("answers"), store.arrow_schema(ANSWERS), partition_by=[*ANSWERS.partition_by])
    lake.append("answers", _answers("first"))
    while lake.delta("answers").version() < 21:
        lake.append("answers", _answers(f"{lake.delta('answers').version()}"))
    log, kept = lake.path("answers") / "_delta_log", lake.read("answers")
    assert sorted(path.name for path in log.glob("*.checkpoint.parquet")) == [
        f"{version:020}.checkpoint.parquet" for version in (9, 19)
    ]
    for version in range(19):
        (log / f"{version:020}.json").unlink()
    assert Lake(lake.folder).read("answers").sort("run_id").equals(kept.sort("run_id"))


def test_a_transaction_is_known_once_its_rows_are_in(lake: Lake) -> None:
    assert not lake.committed("answers", "one")
    lake.append("answers", _answers("a"), transaction="one")
    lake.append("answers", _answers("b"))
    assert lake.committed("answers", "one")
    assert not lake.committed("answers", "two")
    compact_lake(lake)
    assert lake.committed("answers", "one")


def test_a_column_that_the_table_has_not_is_refused() -> None:
    with pytest.raises(ValueError, match=r"answers has no columns.*surprise"):
        conform(ANSWERS, _answers("a").with_columns(surprise=pl.lit(1)))


@pytest.mark.parametrize("column", [column.name for column in ANSWERS.columns if column.required])
def test_null_in_a_required_column_is_refused(column: str) -> None:
    with pytest.raises(ValueError, match=f"needs values in.*{column}"):
        conform(ANSWERS, _answers("a").with_columns(pl.lit(None).alias(column)))
    with pytest.raises(ValueError, match=f"needs values in.*{column}"):
        conform(ANSWERS, _answers("a").drop(column))


def test_columns_that_are_missing_become_null_and_types_are_the_tables() -> None:
    row = {"run_id": "r", "model": "m", "run_tag": "t", "spec": "{}", "spec_hash": "h", "status": "running"}
    conformed = conform(RUNS, pl.DataFrame([row | {"created_at": _AT, "updated_at": _AT, "run_number": 3}]))
    assert conformed.schema == RUNS.schema
    assert conformed.select("run_number", "finished_at").row(0) == (3, None)


def test_compaction_keeps_files_that_younger_readers_may_need(lake: Lake) -> None:
    for number in range(3):
        lake.append("answers", _answers(f"r{number}"))
    old = lake.delta("answers").file_uris()
    assert compact_lake(lake)["answers"]["files_deleted"] == 0
    assert all(Path(uri).is_file() for uri in old)


@pytest.fixture
def older(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A lake whose answers were written when the table had fewer columns."""
    new = {"generation", "raw_answer", "answered_at"}
    before = replace(ANSWERS, columns=tuple(column for column in ANSWERS.columns if column.name not in new))
    with monkeypatch.context() as patch:
        patch.setattr(store, "TABLES", TABLES | {"answers": before})
        lake.replace("answers", _answers("old"), {"run_id": "old"})
    return Lake(lake.folder)


@pytest.mark.parametrize("few_files", [0, 32])
def test_columns_that_a_table_did_not_have_are_read_as_nulls(
    older: Lake, few_files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_FEW_FILES", few_files)
    version = older.delta("answers").version()
    rows = older.read("answers", {"run_id": "old"})
    assert rows.schema == ANSWERS.schema
    assert rows["generation"].null_count() == rows.height == 3
    assert older.read("answers", columns=["answered_at"]).schema == {"answered_at": ANSWERS.schema["answered_at"]}
    with connect(older, "answers") as connection:
        assert connection.execute("select count(*), count(generation) from lake.answers").fetchone() == (3, 0)
    assert Lake(older.folder).delta("answers").version() == version, "reading changed the table"


def test_columns_are_added_when_a_table_is_written(older: Lake) -> None:
    older.append("answers", _answers("new", 2).with_columns(generation=pl.lit(2)))
    older.replace("answers", _answers("other", 1).with_columns(generation=pl.lit(3)), {"run_id": "other"})
    expected = [("new", 2), ("new", 2), ("old", None), ("old", None), ("old", None), ("other", 3)]
    assert sorted(older.read("answers").select("run_id", "generation").rows(), key=str) == expected
    with connect(older, "answers") as connection:
        rows = connection.execute("select run_id, generation from lake.answers").fetchall()
    assert sorted(rows, key=str) == expected


def test_files_without_a_column_are_known_until_they_are_compacted(older: Lake) -> None:
    older.append("answers", _answers("new").with_columns(generation=pl.lit(2)))
    assert older.lacks_columns("answers")
    compact_lake(older)
    assert not older.lacks_columns("answers")
    assert sorted(set(older.read("answers")["generation"]), key=str) == [2, None]


def test_a_lake_as_of_a_time_shows_what_was_committed_until_then(lake: Lake) -> None:
    before = datetime.now(UTC)
    lake.replace("answers", _answers("a"), {"run_id": "a"})
    between = datetime.now(UTC)
    lake.replace("answers", _answers("a", 5), {"run_id": "a"})
    assert Lake(lake.folder, before).read("answers").is_empty()
    assert Lake(lake.folder, between).read("answers").height == 3
    assert Lake(lake.folder, datetime.now(UTC)).read("answers").height == 5
    earlier = Lake(lake.folder, between)
    assert earlier.read("answers").height == earlier.read("answers").height == 3
