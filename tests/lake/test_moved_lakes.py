"""Lakes that were renamed, copied elsewhere or lie where nobody can write: all that only reads works as before."""

import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import polars as pl
import pytest

from shaberi_dagster.cli.sql import run_sql
from shaberi_dagster.cli.view_scores import show_scores
from shaberi_dagster.lake.catalog import CATALOG_NAME, connect, open_catalog, run_query, write_catalog
from shaberi_dagster.lake.compaction import compact_lake
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.reports.requests import ScoreSelection
from shaberi_dagster.settings import Settings
from tests.permissions import read_only

pytestmark = pytest.mark.integration

_RUN = {"run_id": "m@@t", "model": "m", "run_tag": "t", "benchmark": "tengu", "created_at": datetime.now(UTC)}


def _store(lake: Lake, count: int) -> None:
    """So many answers, of a run whose mean is that number."""
    answer = _RUN | {"sample_index": 0, "answer": "答え", "status": "ok"}
    lake.append("answers", pl.DataFrame([answer | {"question_id": f"q{number}"} for number in range(count)]))
    metric = _RUN | {"base_tag": "t", "judge": "j", "question_set": "tengu@5", "pipeline": "baseline"}
    metric |= {"null_policy": "legacy", "score": float(count), "n_planned": 5, "n_scored": 5}
    metric |= {"question_ids": [], "question_scores": [], "n_undecided": 0}
    lake.append("metrics", pl.DataFrame([metric | {"n_failed": 0, "n_excluded": 0, "reported_multiplier": 1.0}]))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with its catalog, which no test changes."""
    lake = Lake(tmp_path_factory.mktemp("made") / "warehouse")
    _store(lake, 2)
    write_catalog(lake)
    return lake.folder


@pytest.fixture
def moved(made: Path, tmp_path: Path) -> Iterator[Path]:
    """The lake at another place, where it can only be read; there is none where it was."""
    first, moved = tmp_path / "first", tmp_path / "moved lake"
    shutil.copytree(made, first)
    open_catalog(first).close()
    first.rename(moved)
    with read_only(moved):
        yield moved


def _asked(catalog: str | Path, sql: str = "select (select count(*) from answers), score from leaderboard") -> object:
    """What any DuckDB client says that opens the catalog."""
    with duckdb.connect(catalog, read_only=True) as connection:
        return connection.sql(sql).fetchall()


@pytest.mark.parametrize(
    ("place", "name"), [("/", "{}/catalog.duckdb"), ("{}", CATALOG_NAME), ("{}/..", "moved lake/catalog.duckdb")]
)
def test_duckdb_finds_the_tables_beside_the_catalog(
    place: str, name: str, moved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.format(moved))

    assert _asked(name.format(moved)) == [(2, 2.0)]


def test_a_copy_shows_what_is_in_it_whatever_became_of_the_first(made: Path, tmp_path: Path) -> None:
    first, copy = tmp_path / "first", tmp_path / "copy"
    shutil.copytree(made, first)
    write_catalog(Lake(first))
    shutil.copytree(first, copy)
    Lake(first).replace("answers", pl.DataFrame(schema=Lake(first).read("answers").schema), {"run_id": "m@@t"})
    compact_lake(Lake(first), retention_hours=0)

    assert _asked(copy / CATALOG_NAME) == [(2, 2.0)]


def test_a_catalog_that_is_attached_or_spills_elsewhere_finds_the_place_that_it_was_made_for(
    made: Path, tmp_path: Path
) -> None:
    shutil.copytree(made, tmp_path / "warehouse")
    catalog = write_catalog(Lake(tmp_path / "warehouse"))

    with duckdb.connect() as connection:
        connection.execute(f"attach '{catalog}' as history (read_only)")
        assert connection.sql("select count(*) from history.answers").fetchall() == [(2,)]
    with duckdb.connect(catalog, read_only=True) as connection:
        connection.execute(f"set temp_directory = '{tmp_path}/not{CATALOG_NAME}.tmp'")
        assert connection.sql("select count(*) from answers").fetchall() == [(2,)]


def test_reading_commands_work_where_nothing_can_be_written(
    moved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHABERI_WAREHOUSE", str(moved))
    before = sorted(moved.rglob("*"))
    with pytest.raises(PermissionError):
        (moved / "x").touch()

    run_sql(Settings.from_environment(), "select count(*) as n from answers", [], "json", None)
    assert json.loads(capsys.readouterr().out) == [{"n": 2}]
    show_scores(moved, ScoreSelection(), "csv")
    assert "2.0" in capsys.readouterr().out
    assert sorted(moved.rglob("*")) == before


def test_large_results_are_spilled_where_something_can_be_written(moved: Path) -> None:
    with open_catalog(moved) as connection:
        (spill,) = run_query(connection, "select current_setting('temp_directory')").fetchone() or ("",)
    assert not Path(spill).is_relative_to(moved)
    assert os.access(Path(spill).parent, os.W_OK)


def test_any_folder_can_be_that_of_a_lake(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "a 家 & b" / "warehouse")
    _store(lake, 3)

    assert lake.files("answers")[0].startswith("answers/benchmark=tengu/")
    assert all((lake.folder / file).is_file() for file in lake.files("answers"))
    with connect(lake) as connection:
        assert connection.sql("select count(*) from answers").fetchall() == [(3,)]
