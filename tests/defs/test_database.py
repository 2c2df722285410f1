"""Dagster in PostgreSQL: one instance for all hosts, and locks that hold across them."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml

from shaberi_dagster.defs.execution import LOCK_TAG, close_dead_runs, open_instance, prepare_home
from shaberi_dagster.defs.jobs import run_in_process
from shaberi_dagster.defs.leases import is_leased
from shaberi_dagster.lake.journal.locks import exclusive_lock
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError
from tests.postgres import PASSWORD, leased
from tests.stages_alone import ELYZA_OPS

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("results_left_out")]


@pytest.fixture(autouse=True)
def url(database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SHABERI_DATABASE_URL", database)
    return database


@pytest.fixture
def instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """As commands open it."""
    with open_instance(settings.dagster_home) as opened:
        yield opened


@pytest.mark.long
def test_a_run_is_seen_from_another_host_and_nothing_on_disk_has_the_password(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance, workspace: Workspace, settings: Settings
) -> None:
    spec = registered(benchmarks=["elyza"])
    run_in_process(spec.run_id, ELYZA_OPS, instance, workspace)

    with open_instance(settings.dagster_home.with_name("elsewhere")) as other:
        (run,) = other.get_runs()
        assert (run.status, run.tags["dagster/partition"]) == (dg.DagsterRunStatus.SUCCESS, spec.run_id)
    files = [path for path in settings.dagster_home.parent.rglob("*") if path.is_file()]
    assert settings.dagster_home / "dagster.yaml" in files
    assert not [path for path in files if PASSWORD.encode() in path.read_bytes()]


def test_the_configuration_follows_the_settings_until_somebody_changes_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = settings.dagster_home / "dagster.yaml"
    written = []
    for broker in ("", "redis://localhost:1/0"):
        monkeypatch.setenv("SHABERI_BROKER_URL", broker)
        prepare_home(settings.dagster_home)
        written.append(yaml.safe_load(path.read_text(encoding="utf-8")))
    path.write_text(path.read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")
    monkeypatch.delenv("SHABERI_BROKER_URL")
    prepare_home(settings.dagster_home)

    assert [one["storage"] for one in written] == [{"postgres": {"postgres_url": {"env": "SHABERI_DATABASE_URL"}}}] * 2
    assert ["run_launcher" in one for one in written] == [False, True]
    assert path.read_text(encoding="utf-8").endswith("# mine\n")


def test_a_broker_without_a_database_is_refused(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHABERI_DATABASE_URL")
    monkeypatch.setenv("SHABERI_BROKER_URL", "redis://localhost:1/0")

    with pytest.raises(ConfigurationError, match="needs SHABERI_DATABASE_URL as well"):
        open_instance(settings.dagster_home)


def test_a_lease_is_seen_by_all_given_once_and_ends_with_its_process(url: str) -> None:
    assert not is_leased("some-run", url)
    with leased("some-run", url) as is_ours, leased("some-run", url) as is_theirs:
        assert (is_ours, is_theirs) == (True, False)
        assert is_leased("some-run", url)
        assert not is_leased("other-run", url)
    _wait_until(lambda: not is_leased("some-run", url))  # the server has yet to see that its client has gone

    with _holding("killed-run") as holder:
        assert is_leased("killed-run", url)
        holder.kill()
        holder.wait()
        _wait_until(lambda: not is_leased("killed-run", url))


def test_the_run_of_a_dead_process_is_closed_from_any_host_and_that_of_a_living_one_is_not(
    instance: dg.DagsterInstance,
) -> None:
    runs = [instance.create_run_for_job(_some_job, tags={LOCK_TAG: "another host"}) for _ in range(2)]
    dead, living = (run.run_id for run in runs)

    with exclusive_lock(Path(instance.root_directory), f"run-{living}", shared="dagster"):
        assert close_dead_runs(instance) == [dead]
    assert close_dead_runs(instance) == [living]


def test_a_host_without_the_database_closes_no_run_of_the_cluster(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance.create_run_for_job(_some_job, tags={LOCK_TAG: "host"})
    monkeypatch.delenv("SHABERI_DATABASE_URL")

    assert close_dead_runs(instance) == []


@dg.job
def _some_job() -> None:
    pass


def _holding(run_id: str) -> subprocess.Popen[str]:
    """Another process that has the lease of a run."""
    code = (
        "import os, sys; from tests.postgres import leased\n"
        "with leased(sys.argv[1], os.environ['SHABERI_DATABASE_URL']): print('held', flush=True); input()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, run_id], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def _wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(100):
        if condition():
            return
        threading.Event().wait(0.05)
    pytest.fail("it never came")
