"""Where things are, as the environment says."""

from pathlib import Path

import pytest

from shaberi_dagster.settings import Settings

pytestmark = pytest.mark.unit


def test_without_an_environment_everything_is_in_the_working_directory(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)

    settings = Settings.from_environment({})

    assert (settings.warehouse, settings.results) == (tmp_path / "warehouse", tmp_path / "results")
    assert settings.dagster_home == tmp_path / ".dagster"


def test_what_is_not_named_is_beside_the_warehouse() -> None:
    settings = Settings.from_environment({"SHABERI_WAREHOUSE": "/disk/lake"})

    assert (settings.results, settings.run_specs) == (Path("/disk/results"), Path("/disk/runspecs"))


def test_the_results_can_be_elsewhere_and_their_path_is_absolute(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)

    settings = Settings.from_environment({"SHABERI_WAREHOUSE": "/disk/lake", "SHABERI_RESULTS": "out/all"})

    assert settings.results == tmp_path / "out" / "all"
