"""Files of a good size and order; nobody's rows are lost, whatever others write meanwhile."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from deltalake.exceptions import CommitFailedError

from shaberi_dagster.lake import compaction
from shaberi_dagster.lake.compaction import compact_lake, put_together, surplus_files
from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.lake.store import Lake

pytestmark = pytest.mark.integration

_SIZE = 207_000
_RANDOM = Random(3)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A lake whose files are to be small, so that a few rows are many."""
    monkeypatch.setattr(compaction, "FILE_BYTES", _SIZE)
    monkeypatch.setattr(compaction, "_GROUP_BYTES", 1)
    monkeypatch.setattr(compaction, "_BATCH_ROWS", 10)
    return Lake(tmp_path / "warehouse")


def _answers(model: str, count: int = 10, benchmark: str = "tengu", length: int = 4_000) -> pl.DataFrame:
    """Answers that cannot be compressed."""
    run = {"run_id": f"{model}@@t", "model": model, "run_tag": "t", "benchmark": benchmark, "sample_index": 0}
    run |= {"status": "ok", "created_at": datetime(2026, 7, 1, tzinfo=UTC)}
    return pl.DataFrame(
        [run | {"question_id": f"q{n}", "answer": _RANDOM.randbytes(length // 2).hex()} for n in range(count)]
    )


def _sizes(lake: Lake, table: str = "answers") -> list[int]:
    return [Path(uri).stat().st_size for uri in lake.delta(table).file_uris()]


def _files(lake: Lake) -> list[list[str]]:
    """The runs of each file's rows."""
    return [pl.read_parquet(uri)["run_id"].to_list() for uri in lake.delta("answers").file_uris()]


def _content(lake: Lake, table: str = "answers") -> list[tuple[Any, ...]]:
    return sorted(lake.read(table).rows(), key=repr)


def test_many_small_files_become_few_in_the_order_of_models(lake: Lake) -> None:
    models = [f"model-{number:02}" for number in range(20)]
    for model in Random(1).sample(models, 20):
        lake.append("answers", pl.concat([_answers(model), _answers(model, 1, "elyza")]))
    before = _content(lake)

    compact_lake(lake)

    assert _content(lake) == before
    elyza, *tengu = sorted(_files(lake), key=lambda file: (len(file) != 20, file))
    assert elyza == [f"{model}@@t" for model in models]
    assert [run for file in tengu for run in file] == [f"{model}@@t" for model in models for _ in range(10)]
    assert len(tengu) == 3
    assert max(_sizes(lake)) < _SIZE * 1.5


def test_a_file_that_is_too_large_is_taken_apart_and_good_ones_stay(lake: Lake) -> None:
    lake.append("answers", _answers("large", 200))
    compact_lake(lake)
    good = [uri for uri in lake.delta("answers").file_uris() if Path(uri).stat().st_size >= _SIZE / 2]
    lake.append("answers", _answers("young"))
    lake.append("answers", _answers("younger"))
    before = _content(lake)

    compact_lake(lake)

    assert _content(lake) == before
    assert set(good) < set(lake.delta("answers").file_uris())
    assert max(_sizes(lake)) < _SIZE * 1.5


def test_how_many_files_fewer_there_will_be_is_known_before(lake: Lake) -> None:
    for model in "abcdefgh":
        lake.append("answers", _answers(model))
        lake.append("consensus", _answers(model, 1).drop("sample_index").with_columns(strategy=pl.lit("elo")))
    n_files = sum(len(_sizes(lake, table)) for table in lake.versions())
    surplus = surplus_files(lake)

    compact_lake(lake)

    assert n_files - sum(len(_sizes(lake, table)) for table in lake.versions()) == surplus > 10
    assert surplus_files(lake) == 0


def test_what_is_in_order_is_not_written_again(lake: Lake) -> None:
    for model in "abcdefgh":
        lake.append("answers", _answers(model))
    compact_lake(lake)
    files, version = lake.delta("answers").file_uris(), lake.versions()["answers"]

    compact_lake(lake)

    assert (lake.delta("answers").file_uris(), lake.versions()["answers"]) == (files, version)


def test_to_replace_a_run_few_files_are_written_anew(lake: Lake) -> None:
    for model in range(40):
        lake.append("answers", _answers(f"model-{model:02}"))
    compact_lake(lake)
    before = set(lake.delta("answers").file_uris())

    lake.replace("answers", _answers("model-20"), {"run_id": "model-20@@t"})

    written = set(lake.delta("answers").file_uris()) - before
    assert sum(Path(uri).stat().st_size for uri in written) < 3 * _SIZE < sum(_sizes(lake)) / 2


@pytest.mark.parametrize("table", TABLES)
def test_rows_of_every_table_are_what_they_were(table: str, lake: Lake) -> None:
    schema = TABLES[table].schema
    made = {
        pl.String(): 'an "é" \x00 家',
        pl.Int64(): -3,
        pl.Float64(): 0.1,
        pl.Boolean(): True,
        pl.Datetime("us", "UTC"): datetime(2026, 7, 1, 12, 30, 0, 5, tzinfo=UTC),
        pl.List(pl.String()): ["a", ""],
        pl.List(pl.Int64()): [1, 2],
    }
    row = {name: made.get(kind) for name, kind in schema.items()}
    if "deltas" in schema:
        row["deltas"] = [{"pass": "p", "version": "1", "delta": -0.5, "reason": None}]
    required = {column.name for column in TABLES[table].columns if column.required}
    least = {name: value if name in {*required, *TABLES[table].partition_by} else None for name, value in row.items()}
    for each in (row, least):
        lake.append(table, pl.DataFrame([each], schema=schema))
    before = _content(lake, table)

    compact_lake(lake, retention_hours=0)

    assert len(_sizes(lake, table)) == 1
    assert _content(lake, table) == before
    assert not (lake.folder / "_spill").exists()


def _meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let something happen once, after the files were read and before the commit."""
    row_groups, acts = compaction._row_groups, [act]

    def read(*arguments: Any) -> Any:
        yield from row_groups(*arguments)
        if acts:
            acts.pop()()

    monkeypatch.setattr(compaction, "_row_groups", read)


def test_rows_that_others_add_meanwhile_stay(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for model in "ab":
        lake.append("answers", _answers(model, 2))
    _meanwhile(monkeypatch, lambda: Lake(lake.folder).append("answers", _answers("c", 1)))

    compact_lake(lake)

    assert sorted(lake.read("answers")["run_id"]) == ["a@@t", "a@@t", "b@@t", "b@@t", "c@@t"]


def test_rows_that_others_replace_meanwhile_do_not_come_back(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for model in "ab":
        lake.append("answers", _answers(model, 2))
    replaced = {"run_id": "a@@t"}
    _meanwhile(monkeypatch, lambda: Lake(lake.folder).replace("answers", _answers("a", 1, length=10), replaced))

    compact_lake(lake)

    assert sorted(lake.read("answers")["run_id"]) == ["a@@t", "b@@t", "b@@t"]
    assert len(lake.read("answers", replaced)["answer"].item()) == 10


def test_a_commit_that_fails_leaves_no_file(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for model in "ab":
        lake.append("answers", _answers(model, 2))
    _meanwhile(monkeypatch, lambda: Lake(lake.folder).replace("answers", _answers("a", 1), {"run_id": "a@@t"}))
    there = set(lake.path("answers").rglob("*.parquet"))

    with pytest.raises(CommitFailedError):
        put_together(lake, "answers")

    left = set(lake.path("answers").rglob("*.parquet")) - there
    assert {str(path) for path in left} <= set(lake.delta("answers").file_uris()), "only what the other one wrote"


def test_a_writer_who_began_before_finds_its_rows_after(lake: Lake) -> None:
    for model in "ab":
        lake.append("answers", _answers(model, 2))
    writer = Lake(lake.folder)
    writer.read("answers")

    compact_lake(lake)
    writer.replace("answers", _answers("a", 1), {"run_id": "a@@t"})

    assert sorted(lake.read("answers")["run_id"]) == ["a@@t", "b@@t", "b@@t"]
