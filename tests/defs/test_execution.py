"""Runs in this process: what Dagster knows of them when they are interrupted or killed."""

import signal
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import dagster as dg
import pytest

from shaberi_dagster.defs.execution import LOCK_TAG, close_dead_runs, open_instance, prepare_home
from shaberi_dagster.lake.journal.files import JOURNAL_FOLDER
from shaberi_dagster.lake.journal.locks import exclusive_lock
from shaberi_dagster.settings import Settings
from tests.commands import Started, started
from tests.mock_endpoint import MockEndpoint, content_for, running_mock

pytestmark = pytest.mark.integration

_QUESTIONS, _FINISHED = 5, 3


@pytest.fixture
def instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """The instance that commands use as well."""
    with open_instance(settings.dagster_home) as opened:
        yield opened


def test_dagster_home_is_quiet_and_a_changed_configuration_stays(tmp_path: Path) -> None:
    home = tmp_path / "home"
    prepare_home(home)
    written = (home / "dagster.yaml").read_text(encoding="utf-8")
    assert "telemetry: {enabled: false}" in written
    assert "nux: {enabled: false}" in written

    (home / "dagster.yaml").write_text("telemetry: {enabled: true}\n", encoding="utf-8")
    prepare_home(home)

    assert (home / "dagster.yaml").read_text(encoding="utf-8") == "telemetry: {enabled: true}\n"


def test_half_a_configuration_of_ours_is_written_again(tmp_path: Path) -> None:
    prepare_home(tmp_path)
    place = tmp_path / "dagster.yaml"
    written = place.read_text(encoding="utf-8")
    for length in (0, 40):
        place.write_text(written[:length], encoding="utf-8")
        prepare_home(tmp_path)
        assert place.read_text(encoding="utf-8") == written


@pytest.mark.parametrize(
    ("host", "closed"),
    [(socket.gethostname(), True), ("elsewhere", False), (None, False)],
    ids=["this host", "another host", "no command's"],
)
def test_only_runs_of_dead_processes_of_this_host_are_closed(
    host: str | None, closed: bool, instance: dg.DagsterInstance, settings: Settings
) -> None:
    run = instance.create_run_for_job(_some_job, tags={LOCK_TAG: host} if host else {})
    instance.report_engine_event("started", run)
    instance.report_dagster_event(
        dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, job_name=run.job_name), run_id=run.run_id
    )

    with exclusive_lock(settings.dagster_home, f"run-{run.run_id}"):
        assert close_dead_runs(instance) == []
    assert close_dead_runs(instance) == ([run.run_id] if closed else [])
    assert close_dead_runs(instance) == []
    expected = dg.DagsterRunStatus.CANCELED if closed else dg.DagsterRunStatus.STARTED
    assert instance.get_run_by_id(run.run_id).status == expected


@pytest.mark.long
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_is_canceled_keeps_finished_calls_and_goes_on(
    stop: signal.Signals, settings: Settings, instance: dg.DagsterInstance
) -> None:
    with _answering_a_few() as mock:
        with _run_evals(mock) as command:
            command.wait_until(lambda: mock.stats()["answered"] == _FINISHED and _journaled(settings) == _FINISHED)
            command.send(stop)
            stopped = command.finished()

        assert stopped.code == 130
        assert "Go on with:\n  run-evals --model model" in stopped.err
        assert "Traceback" not in stopped.err
        (run,) = instance.get_runs()
        assert run.status == dg.DagsterRunStatus.CANCELED
        assert _journaled(settings) == _FINISHED

        _go_on(mock, instance)


@pytest.mark.long
def test_the_run_of_a_killed_command_is_closed_by_the_next_one(
    settings: Settings, instance: dg.DagsterInstance
) -> None:
    with _answering_a_few() as mock:
        with _run_evals(mock) as command:
            command.wait_until(lambda: mock.stats()["answered"] == _FINISHED and _journaled(settings) == _FINISHED)
            (ran,) = instance.get_runs()
        assert instance.get_run_by_id(ran.run_id).status == dg.DagsterRunStatus.STARTED

        _go_on(mock, instance)

    assert instance.get_run_by_id(ran.run_id).status == dg.DagsterRunStatus.CANCELED


@dg.job
def _some_job() -> None:
    pass


@contextmanager
def _answering_a_few() -> Iterator[MockEndpoint]:
    """An endpoint that answers some requests and lets all others wait."""
    with running_mock() as mock:

        def script(body: dict, _: int) -> str:
            if mock.stats()["answered"] == _FINISHED - 1:
                mock.options.p_hang = 1.0
            return content_for(body)

        mock.options.script = script
        yield mock


def _run_evals(mock: MockEndpoint) -> AbstractContextManager[Started]:
    urls = ["--base-url", mock.base_url, "--judge-base-url", mock.base_url]
    return started("run-evals", "--model", "model", "--judge-model", "judge", *urls, "--benchmark", "elyza")


def _journaled(settings: Settings) -> int:
    """Finished calls in the journals."""
    files = (settings.warehouse / JOURNAL_FOLDER).glob("*.jsonl")
    return sum(line.count('"request_hash"') for path in files for line in path.read_text().splitlines())


def _go_on(mock: MockEndpoint, instance: dg.DagsterInstance) -> None:
    """The same command again finishes the run and pays for nothing twice."""
    mock.options.p_hang = 0.0
    with _run_evals(mock) as again:
        assert again.finished().succeeded().out
    assert mock.stats()["repeated"] == 0
    assert mock.stats()["answered"] == 2 * _QUESTIONS  # answers and judgements
    statuses = [run.status for run in instance.get_runs()]
    assert statuses == [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.CANCELED]
