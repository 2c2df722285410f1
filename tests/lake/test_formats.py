"""The number of a lake's format: a new lake has it, and one of another is refused before anything is written."""

import errno
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from shaberi_dagster.lake import catalog as catalog_module
from shaberi_dagster.lake import store
from shaberi_dagster.lake.catalog import open_as_of, open_catalog
from shaberi_dagster.lake.formats import FORMAT, FORMAT_NAME, check_format, stored_format
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError, ShaberiError
from tests.commands import run

pytestmark = pytest.mark.integration

_AT = datetime(2026, 1, 2, tzinfo=UTC)
_REFUSALS = {
    FORMAT + 1: f"has format {FORMAT + 1} and this program knows only {FORMAT}: update shaberi-dagster",
    FORMAT - 1: f"was made before 1.0 (format {FORMAT - 1}): export it with the version of the tag before-1.0",
    1: "was made before 1.0 (format 1)",
}


def _judgements(run: str) -> pl.DataFrame:
    names = {"run_id": run, "model": "m", "run_tag": "t", "benchmark": "tengu", "judge": "j", "judge_prompt_hash": "p"}
    rows = [{"question_id": f"q{number}", "sample_index": 0, "score": 5.0, "superseded": False} for number in range(3)]
    return pl.DataFrame([names | {"status": "ok", "created_at": _AT} | row for row in rows])


@pytest.fixture
def lake(settings: Settings) -> Lake:
    """A lake with three judgements."""
    lake = Lake(settings.warehouse)
    lake.append("judgements", _judgements("a"))
    return lake


def _give(lake: Lake, number: int) -> None:
    """Let a lake be of a format; the first has no number."""
    if number == 1:
        (lake.folder / FORMAT_NAME).unlink()
    else:
        (lake.folder / FORMAT_NAME).write_text(json.dumps({"format": number}), encoding="utf-8")


def _files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_new_lake_has_todays_format_before_its_first_table(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "warehouse")
    assert stored_format(lake.folder) is None
    assert not lake.folder.exists(), "looking changes nothing"
    lake.append("judgements", _judgements("a"))
    assert stored_format(lake.folder) == FORMAT
    assert json.loads((lake.folder / FORMAT_NAME).read_text(encoding="utf-8")) == {"format": FORMAT}
    assert [path.name for path in lake.folder.iterdir() if path.name.startswith(FORMAT_NAME)] == [FORMAT_NAME]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": "2"}', '{"format": 0}', '{"format": null}'])
def test_a_broken_number_is_refused_and_told(text: str, lake: Lake) -> None:
    (lake.folder / FORMAT_NAME).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=rf"{FORMAT_NAME} does not tell the lake's format: write"):
        check_format(lake.folder)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EPERM])
def test_a_lake_in_a_folder_that_cannot_be_written_is_read(
    number: int, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _files(lake.folder)

    def refused(**_: Any) -> Iterator[str]:
        raise OSError(number, "no")

    monkeypatch.setattr(catalog_module.tempfile, "TemporaryDirectory", refused)
    with open_catalog(lake.folder) as connection:
        assert connection.execute("select count(*) from judgements").fetchall() == [(3,)]
        with pytest.raises(Exception, match="disabled by configuration"):
            connection.execute("copy (select 1) to '/tmp/x.csv'")
    assert _files(lake.folder) == before


def test_a_full_disk_is_not_taken_for_a_folder_that_is_only_to_be_read(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**_: Any) -> Iterator[str]:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(catalog_module.tempfile, "TemporaryDirectory", refused)
    with pytest.raises(OSError, match="no space"):
        open_catalog(lake.folder)


@pytest.mark.parametrize("number", _REFUSALS)
def test_a_lake_of_another_format_is_refused_by_all_ways_in_and_not_touched(number: int, lake: Lake) -> None:
    _give(lake, number)
    before = _files(lake.folder)
    for way in (
        lambda: open_catalog(lake.folder),
        lambda: open_as_of(lake.folder, datetime.now(UTC)),
        lambda: Lake(lake.folder),
        lambda: lake.append("judgements", _judgements("b")),  # opened before another program wrote it
    ):
        with pytest.raises(ConfigurationError) as refused:
            way()
        assert _REFUSALS[number] in str(refused.value)
    assert _files(lake.folder) == before


@pytest.mark.e2e
@pytest.mark.parametrize("number", [FORMAT - 1, FORMAT + 1])
@pytest.mark.parametrize(
    "command",
    [
        ("shaberi", "sql", "select 1"),
        ("view-scores",),
        ("shaberi", "compact"),
        ("shaberi", "export"),
        ("run-evals", "--model", "m", "--base-url", "http://127.0.0.1:9/v1"),
    ],
    ids=lambda command: "-".join(command[:2]),
)
def test_a_command_on_a_lake_of_another_format_says_so_in_one_line(
    command: tuple[str, ...], number: int, lake: Lake, tmp_path: Path
) -> None:
    _give(lake, number)
    before = _files(lake.folder)
    results = tmp_path / "results"
    finished = run(*command, environment={"SHABERI_WAREHOUSE": lake.folder, "SHABERI_RESULTS": results})
    assert _REFUSALS[number] in finished.complaint
    assert _files(lake.folder) == before
    assert not results.exists()


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(store, "write_format", refused)
    with pytest.raises(ShaberiError, match=r"the lake in .* cannot be written: Permission denied"):
        Lake(tmp_path / "warehouse").append("judgements", _judgements("b"))
