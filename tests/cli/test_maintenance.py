"""`shaberi compact` and `shaberi copy-lake` as documents for programs."""

import json
from pathlib import Path

import pytest

from shaberi_dagster.cli import shaberi
from shaberi_dagster.lake.store import Lake
from tests.inspected import N_QUESTIONS, made
from tests.invoked import invoke

pytestmark = pytest.mark.integration


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setenv("SHABERI_WAREHOUSE", str(tmp_path / "lake"))
    return made(tmp_path / "lake")


def _said(*arguments: str) -> str:
    return invoke(shaberi.app, arguments).stdout


@pytest.mark.usefixtures("lake")
def test_compaction_counts_the_files_of_each_table() -> None:
    (answers,) = [line for line in _said("compact").splitlines() if line.startswith("answers: ")]
    counted = json.loads(_said("compact", "--json"))

    assert answers == "answers: 1 files -> 1, 0 deleted"
    assert counted["answers"] == {"files_before": 1, "files_after": 1, "files_deleted": 0}


def test_a_copy_counts_the_rows_of_each_table(lake: Lake, tmp_path: Path) -> None:
    copied = json.loads(_said("copy-lake", str(lake.folder), str(tmp_path / "copy"), "--json"))

    assert copied["target"] == str(tmp_path / "copy")
    assert copied["rows"]["answers"] == 2 * N_QUESTIONS
    assert Lake(tmp_path / "copy").read("answers").height == 2 * N_QUESTIONS
