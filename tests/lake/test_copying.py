"""A lake moved to object storage and back."""

from pathlib import Path

import polars as pl
import pytest

from shaberi_dagster.lake import copying
from shaberi_dagster.lake.copying import copy_lake
from shaberi_dagster.lake.mirror import Mirror
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.util.errors import ConfigurationError, ShaberiError
from tests.lake.test_mirror import answers, counted, machine
from tests.object_storage import Bucket

pytestmark = pytest.mark.integration


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "warehouse")
    for run_id in "abc":
        lake.append("answers", answers(run_id))
    lake.replace("answers", answers("a", "別の答え"), {"run_id": "a"})
    lake.widen("runs")
    return lake


def test_a_lake_goes_to_a_store_and_comes_back_row_by_row_with_its_history(
    lake: Lake, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHABERI_MIRRORS", str(tmp_path / "mirrors"))
    copied = copy_lake(str(lake.folder), bucket.uri)
    assert copied.rows == {"answers": 9, "runs": 0}
    assert counted(machine(bucket, tmp_path / "there")) == 9

    back = tmp_path / "back"
    assert copy_lake(bucket.uri, str(back)).rows == copied.rows
    assert Mirror.of(back) is None
    assert Lake(back).read("answers").equals(lake.read("answers"))
    older = Lake(back).delta("answers")
    older.load_as_version(3)
    assert older.version() == 3


def test_nothing_is_copied_from_nowhere_or_over_another_lake(lake: Lake, bucket: Bucket, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no lake in"):
        copy_lake(str(tmp_path / "nowhere"), str(tmp_path / "new"))
    Lake(machine(bucket, tmp_path / "there")).append("answers", answers("z"))
    for place in (bucket.uri, str(lake.folder)):
        with pytest.raises(ConfigurationError, match="has a lake already"):
            copy_lake(str(lake.folder), place)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="file is no empty folder"):
        copy_lake(str(lake.folder), str(tmp_path / "file"))
    assert counted(machine(bucket, tmp_path / "there")) == 3


def test_a_copy_that_is_not_the_same_is_said(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(source: Path, target: Path) -> None:
        if target.suffix == ".parquet":
            pl.read_parquet(source).with_columns(answer=pl.lit("?")).write_parquet(target)
        else:
            target.write_bytes(source.read_bytes())

    monkeypatch.setattr(copying.shutil, "copyfile", damaged)
    with pytest.raises(ShaberiError, match="the copy of answers is not the same"):
        copy_lake(str(lake.folder), str(tmp_path / "copy"))


@pytest.mark.parametrize("at", [0, 3])
def test_an_unfinished_copy_is_no_lake_and_is_finished_by_the_same_command(
    at: int, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = 0

    def interrupted(source: Path, target: Path) -> None:
        nonlocal copied
        if copied == at:
            raise KeyboardInterrupt
        target.write_bytes(source.read_bytes())
        copied += 1

    place = str(tmp_path / "copy")
    with monkeypatch.context() as context:
        context.setattr(copying.shutil, "copyfile", interrupted)
        with pytest.raises(KeyboardInterrupt):
            copy_lake(str(lake.folder), place)
    with pytest.raises(ConfigurationError, match=f"was not finished: `shaberi copy-lake {lake.folder} "):
        Lake(tmp_path / "copy").append("answers", answers("z"))
    with pytest.raises(ConfigurationError, match="was not finished"):
        copy_lake(place, f"{place}-of-it")
    assert copy_lake(str(lake.folder), place).rows == {"answers": 9, "runs": 0}
    assert Lake(tmp_path / "copy").read("answers").equals(lake.read("answers"))
