"""Where things are, as the environment says."""

import getpass
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


def test_the_user_is_the_one_that_is_named_or_else_logged_in(monkeypatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "somebody")

    assert Settings.from_environment({}).user == "somebody"
    assert Settings.from_environment({"SHABERI_USER": ""}).user == "somebody"
    assert Settings.from_environment({"SHABERI_USER": "評価 チーム"}).user == "評価 チーム"


@pytest.mark.parametrize("error", [KeyError("uid not found"), OSError("no username")])
def test_a_user_without_a_name_is_unknown(monkeypatch, error: Exception) -> None:
    def nobody() -> str:
        raise error

    monkeypatch.setattr(getpass, "getuser", nobody)

    assert Settings.from_environment({}).user is None
