"""What `shaberi doctor` says of the database, the store and the workers."""

from pathlib import Path

import pytest

from shaberi_dagster.defs.examination import examine_workers
from shaberi_dagster.doctor.examination import examine_database, examine_store
from shaberi_dagster.settings import Settings
from tests.object_storage import running_store
from tests.postgres import PASSWORD

pytestmark = pytest.mark.integration


def test_without_a_cluster_it_says_nothing_of_one(settings: Settings) -> None:
    assert [*examine_database(), *examine_store(settings.warehouse), *examine_workers()] == []


def test_the_database_is_named_with_its_version_and_without_its_password(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHABERI_DATABASE_URL", database)
    (found,) = examine_database()
    assert (found.what, found.fine) == ("database", True)
    assert found.detail.startswith("PostgreSQL 1")
    assert PASSWORD not in found.detail

    monkeypatch.setenv("SHABERI_DATABASE_URL", f"postgresql://me:{PASSWORD}@127.0.0.1:1/none")
    (found,) = examine_database()
    assert (found.what, found.fine) == ("database", False)
    assert "cannot be reached" in found.detail
    assert PASSWORD not in found.detail


@pytest.mark.parametrize(
    ("conditional", "said"),
    [(True, "s3://lakes/team/lake, honours If-None-Match"), (False, "ignores If-None-Match")],
)
def test_the_store_is_probed_and_its_mirror_counted(
    conditional: bool, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_store(tmp_path / "store", conditional=conditional) as store:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("SHABERI_WAREHOUSE", store.uri)
        monkeypatch.setenv("SHABERI_MIRRORS", str(tmp_path / "mirrors"))
        probed, mirrored = examine_store(Settings.from_environment().warehouse)

    assert (probed.what, probed.fine) == ("store", conditional)
    assert said in probed.detail
    assert (mirrored.what, mirrored.fine) == ("mirror", True)
    assert "1 files" in mirrored.detail  # that which says what it mirrors


def test_a_broker_that_cannot_be_reached_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHABERI_BROKER_URL", "redis://:secret@127.0.0.1:1/0")

    (found,) = examine_workers()

    assert (found.what, found.fine) == ("workers", False)
    assert found.detail.startswith("redis://127.0.0.1:1/0 cannot be reached: ")
    assert "secret" not in found.detail
    assert "\n" not in found.detail
