"""A disk that is full at a commit of a run or while the lake is compacted: one line, and nothing is lost."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perf.same_tables import differences, tables_of
from shaberi_dagster.lake.damage import find_damage
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ShaberiError
from tests.commands import lake_of, run, run_without_dagster
from tests.disks import SmallDisk, mounted_small_disk
from tests.example_runs import ask, materialized, own_engine, stored_run, without_results
from tests.mock_endpoint import MockEndpoint
from tests.sizes import size


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with mounted_small_disk(tmp_path / "small") as disk:
        yield disk


@contextmanager
def _before_commits(told: Callable[[int], object]) -> Iterator[None]:
    """Within this context somebody is told the number of each commit, from 0, before it begins.

    Changes of limits are not counted: how often there are any hangs on how fast the endpoint is.
    """
    writing, number = Lake.writing, 0

    def counted(lake: Lake, table: str) -> Any:
        nonlocal number
        if table != "limit_changes":
            told(number)
            number += 1
        return writing(lake, table)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lake, "writing", counted)
        yield


def _fill_at(disk: SmallDisk, number: int, commit: int) -> None:
    if commit == number:
        disk.fill()


def _files(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.e2e
@pytest.mark.long
@pytest.mark.acceptance
def test_a_disk_that_is_full_at_a_commit_of_a_run_loses_nothing_and_nothing_is_paid_twice(
    mock: MockEndpoint, tmp_path: Path, disk: SmallDisk
) -> None:
    def evaluated(folder: Path) -> Lake:
        settings = Settings.from_environment({"SHABERI_WAREHOUSE": str(folder), "SHABERI_RESULTS": str(tmp_path / "r")})
        workspace = Workspace(settings, environment={})
        materialized(stored_run(workspace, ask(mock)), workspace)
        return workspace.lake

    commits: list[int] = []
    with own_engine({}), without_results():
        with _before_commits(commits.append):
            expected = tables_of(evaluated(tmp_path / "undisturbed"))
        asked = mock.stats()["answered"]
        for number in commits[:: max(1, len(commits) // size(4, len(commits)))]:
            folder = disk.folder / "warehouse"
            fill = partial(_fill_at, disk, number)
            with _before_commits(fill), pytest.raises(ShaberiError) as stopped:
                evaluated(folder)
            assert "No space left on device" in str(stopped.value)
            assert "\n" not in str(stopped.value)
            disk.free()
            assert list(find_damage(folder, thorough=True)) == []

            lake = evaluated(folder)

            assert list(differences(tables_of(lake), expected)) == [], f"at commit {number} of {len(commits)}"
            paid, asked = mock.stats()["answered"] - asked, mock.stats()["answered"]
            assert paid == lake.read("calls").height
            shutil.rmtree(folder)


@pytest.mark.e2e
@pytest.mark.long
def test_a_disk_that_is_full_while_compacting_is_one_line_and_leaves_nothing_behind(
    mock: MockEndpoint, tmp_path: Path, disk: SmallDisk
) -> None:
    place = lake_of(disk.folder) | {"DAGSTER_HOME": str(tmp_path / "dagster"), "SHABERI_RESULTS": str(tmp_path / "r")}
    for model in ("m", "n"):
        run_without_dagster(
            "run-evals",
            *("--model", model, "--base-url", mock.base_url, "--judge-model", "j", "--judge-base-url", mock.base_url),
            *("--benchmark", "elyza,tengu"),
            environment=place,
        ).succeeded()
    folder = disk.folder / "warehouse"
    before, files = tables_of(Lake(folder)), _files(folder)

    disk.fill()
    for _ in range(3):
        line = run("shaberi", "compact", environment=place).complaint
        assert "No space left on device" in line
        assert "free space" in line
        assert _files(folder) - files == set()
    disk.free()

    assert list(differences(tables_of(Lake(folder)), before)) == []
    run("shaberi", "compact", environment=place).succeeded()
    assert list(differences(tables_of(Lake(folder)), before)) == []
    assert len(Lake(folder).files("answers")) == 2
    assert list(find_damage(folder, thorough=True)) == []
