"""Dagster's SQLite files, as commands keep them open."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import sqlalchemy
import yaml
from dagster._core.instance.ref import InstanceRef
from dagster._core.storage import event_log
from dagster._core.storage.runs import SqliteRunStorage

from shaberi_dagster.defs.doctor.examination import examine
from shaberi_dagster.defs.events import report_materializations
from shaberi_dagster.defs.execution import open_instance
from shaberi_dagster.defs.storage import OpenSqliteStorage, SqliteEventLogStorage, kept_open
from shaberi_dagster.settings import Settings
from tests.migrations import close_databases

pytestmark = pytest.mark.integration

_NORMAL = 1
_DATABASES = ["history/runs.db", "history/runs/index.db", "schedules/schedules.db"]


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


def test_a_table_is_looked_for_until_it_is_there(instance: dg.DagsterInstance, settings: Settings) -> None:
    storage = instance.event_log_storage
    assert isinstance(storage, SqliteEventLogStorage)
    assert storage.has_table("asset_check_executions")
    assert not storage.has_table("later")
    with closing(sqlite3.connect(settings.dagster_home / _DATABASES[1])) as connection:
        connection.execute("create table later (x)")
    assert storage.has_table("later")
    with storage.index_connection():  # Dagster looks for this one while it writes an event
        assert storage.has_table("asset_event_tags")


def test_the_last_materialization_is_looked_for_until_another_is_stored(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    find = event_log.SqlEventLogStorage.fetch_materializations

    def counting(*args: Any) -> dg.EventRecordsResult:
        asked.append(args)
        return find(*args)

    monkeypatch.setattr(event_log.SqlEventLogStorage, "fetch_materializations", counting)

    def last(name: str) -> int:
        key, partitions = dg.AssetKey(name), ["first"]
        (record,) = instance.fetch_materializations(dg.AssetRecordsFilter(key, partitions), limit=1).records
        return record.storage_id

    def store(name: str) -> None:
        instance.report_runless_asset_event(dg.AssetMaterialization(name, partition="first"))

    store("one")
    earlier = last("one")
    assert last("one") == earlier
    assert len(asked) == 1
    store("one")
    assert last("one") > earlier
    report_materializations(instance, [dg.AssetMaterialization("other", partition="first")])
    assert last("other") > last("one")
    assert len(asked) == 4


@pytest.mark.parametrize("has_links", [True, False])
def test_the_file_of_a_run_is_one_that_dagster_itself_would_make(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    if not has_links:
        monkeypatch.setattr("os.link", no_links)
    with open_instance(settings.dagster_home) as instance:
        run = instance.add_run(dg.DagsterRun("job"))
        instance.report_engine_event("begun", run)
    close_databases()
    with dg.DagsterInstance.from_config(str(settings.dagster_home)) as plain:
        other = plain.add_run(dg.DagsterRun("job"))
        plain.report_engine_event("begun", other)
        assert [record.message for record in plain.all_logs(run.run_id)] == ["begun"]
    tables = [
        _made(settings.dagster_home / "history" / "runs" / f"{run_id}.db") for run_id in (run.run_id, other.run_id)
    ]
    assert tables[0] == tables[1]


def _made(database: Path) -> set[tuple[object, ...]]:
    """The tables of a database, and the version that it says it has."""
    with closing(sqlite3.connect(database)) as connection:
        return {
            *connection.execute("select name, sql from sqlite_master"),
            *connection.execute("select * from alembic_version"),
        }


def test_the_file_of_a_run_that_another_process_has_begun_stays(settings: Settings) -> None:
    with open_instance(settings.dagster_home) as first:
        run = first.add_run(dg.DagsterRun("job"))
        first.report_engine_event("begun", run)
        with dg.DagsterInstance.from_config(str(settings.dagster_home)) as plain:
            plain.report_engine_event("by another", run)
    close_databases()
    with open_instance(settings.dagster_home) as again:
        again.report_engine_event("again", run)
        assert [record.message for record in again.all_logs(run.run_id)] == ["begun", "by another", "again"]


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


def _change(database: Path, *statements: str) -> None:
    """Leave a database as another process has left it, which has ended."""
    close_databases()
    with closing(sqlite3.connect(database)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def _said_when_opened(home: Path) -> list[str]:
    said: list[str] = []
    with open_instance(home, said.append) as instance:
        instance.add_dynamic_partitions("runs", ["first"])
        _report(instance, "asset")
        assert instance.get_dynamic_partitions("runs") == ["first"]
        assert instance.all_instigator_state() == []
    close_databases()
    return said


@pytest.mark.parametrize("name", _DATABASES)
@pytest.mark.parametrize("is_empty", [True, False])
def test_a_half_made_database_is_made_again_and_that_is_said_once(
    settings: Settings, name: str, is_empty: bool
) -> None:
    home = settings.dagster_home
    open_instance(home).dispose()
    if is_empty:
        close_databases()
        (home / name).write_bytes(b"")
    else:
        _change(home / name, "drop table alembic_version", "drop table secondary_indexes")
    (said,) = _said_when_opened(home)
    assert said == f"{home / name} was half made by a process that was killed; it held nothing and is made again"
    assert _said_when_opened(home) == []


@pytest.mark.parametrize("is_damaged", [True, False])
def test_a_half_made_or_damaged_database_that_may_hold_runs_is_kept_under_another_name(
    settings: Settings, is_damaged: bool
) -> None:
    home = settings.dagster_home
    database = home / _DATABASES[0]
    with open_instance(home) as instance:
        instance.add_run(dg.DagsterRun("job"))
    if is_damaged:
        close_databases()
        database.write_bytes(b"no database " * 1000)
    else:
        _change(database, "drop table alembic_version")
    before = database.read_bytes()

    (said,) = _said_when_opened(home)

    aside = database.with_name("runs.db.set-aside-1")
    assert said == f"{database} was half made or damaged; what it holds is kept as {aside}, and it is made again"
    assert aside.read_bytes() == before
    assert _said_when_opened(home) == []


def test_a_database_of_another_program_version_stays_as_it_is(settings: Settings) -> None:
    home = settings.dagster_home
    with open_instance(home) as instance:
        instance.add_run(dg.DagsterRun("job"))
    _change(home / _DATABASES[0], "delete from secondary_indexes", "drop table backfill_tags")
    assert _said_when_opened(home) == []
    with closing(sqlite3.connect(home / _DATABASES[0])) as connection:
        assert connection.execute("select count(*) from runs").fetchone() == (1,)


def test_doctor_repairs_a_half_made_database_and_says_so(settings: Settings) -> None:
    database = settings.dagster_home / _DATABASES[1]
    database.parent.mkdir(parents=True)
    database.write_bytes(b"")
    (finding,) = (one for one in examine(settings) if one.what == "Dagster instance")
    assert finding.fine
    assert f"{database} was half made by a process that was killed" in finding.detail
    close_databases()
    assert _said_when_opened(settings.dagster_home) == []


def test_a_database_is_made_aside_and_what_a_killed_process_left_of_that_goes(settings: Settings) -> None:
    home = settings.dagster_home
    left = home / ".new-databases-left" / "history"
    left.mkdir(parents=True)
    open_instance(home).dispose()
    assert {path.name for path in home.iterdir()} == {"_locks", "dagster.yaml", "history", "schedules"}
