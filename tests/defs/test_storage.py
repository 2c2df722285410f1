"""Dagster's SQLite files, as commands keep them open."""

import sqlite3
from collections.abc import Iterator

import dagster as dg
import pytest
import sqlalchemy
import yaml
from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.runs import SqliteRunStorage

from shaberi_dagster.defs.execution import open_instance
from shaberi_dagster.defs.storage import OpenSqliteStorage, kept_open
from shaberi_dagster.settings import Settings

pytestmark = pytest.mark.integration

_NORMAL = 1


@pytest.fixture
def instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """The instance as commands open it."""
    with open_instance(settings.dagster_home) as opened:
        yield opened


def _report(instance: dg.DagsterInstance, *names: str) -> None:
    for name in names:
        instance.report_runless_asset_event(dg.AssetMaterialization(name))


def test_a_file_is_opened_once_for_all_events_and_waits_for_no_disk_at_each(instance: dg.DagsterInstance) -> None:
    _report(instance, "first")
    instance.get_runs()
    opened: list[sqlite3.Connection] = []

    def count(connection: sqlite3.Connection, _: object) -> None:
        opened.append(connection)

    sqlalchemy.event.listen(sqlalchemy.Engine, "connect", count)
    try:
        _report(instance, "second", "third")
        instance.get_runs()
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "connect", count)

    assert opened == []
    runs = instance.run_storage
    assert isinstance(runs, SqliteRunStorage)
    with runs.connect() as connection:
        assert connection.execute(sqlalchemy.text("pragma synchronous")).scalar() == _NORMAL


def test_whoever_opens_the_same_files_sees_what_is_written_and_writes_too(
    instance: dg.DagsterInstance, settings: Settings
) -> None:
    with dg.DagsterInstance.from_config(str(settings.dagster_home)) as other:
        for writer, name in ((instance, "ours"), (other, "theirs"), (instance, "ours_again")):
            _report(writer, name)
        for reader in (instance, other):
            assert {key.to_user_string() for key in reader.all_asset_keys()} == {"ours", "theirs", "ours_again"}


def test_only_sqlite_files_are_kept_open(settings: Settings) -> None:
    settings.dagster_home.mkdir()
    place = settings.dagster_home / "dagster.yaml"
    for config, is_kept in (
        ({"storage": {"sqlite": {"base_dir": str(settings.dagster_home / "own")}}}, True),
        ({"storage": {"postgres": {"postgres_url": "postgresql://nobody@localhost/none"}}}, False),
    ):
        place.write_text(yaml.safe_dump(config), encoding="utf-8")
        own = InstanceRef.from_dir(str(settings.dagster_home))
        kept = kept_open(own).storage_data
        assert kept is not None
        assert own.storage_data is not None
        assert kept.config_yaml == own.storage_data.config_yaml
        assert (kept.class_name == OpenSqliteStorage.__name__) == is_kept
