"""Runs in this process: what Dagster knows of them when they are interrupted or killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import dagster as dg
import pytest

from shaberi_dagster.defs.execution import PROCESS_TAG, close_dead_runs, open_instance, prepare_home, process_name
from shaberi_dagster.defs.jobs import Materialization, run_in_process
from shaberi_dagster.errors import EndpointError
from shaberi_dagster.journal.files import JOURNAL_FOLDER
from shaberi_dagster.runs.spec import RunSpec
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


@pytest.mark.long
def test_a_run_in_process_is_a_successful_partitioned_run_that_names_its_process(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance
) -> None:
    spec = registered(benchmarks=["elyza"])

    run_in_process(Materialization(spec.run_id, ["elyza"], tags={"asked": "here"}), instance)

    (run,) = instance.get_runs()
    assert run.status == dg.DagsterRunStatus.SUCCESS
    assert run.tags["dagster/partition"] == spec.run_id
    assert run.tags["asked"] == "here"
    assert run.tags[PROCESS_TAG] == process_name(os.getpid())


def test_what_an_asset_raises_arrives_and_the_run_is_a_failure(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance, mock: MockEndpoint
) -> None:
    spec = registered(benchmarks=["elyza"])
    mock.options.key = "another key"

    with pytest.raises(EndpointError, match=mock.base_url):
        run_in_process(Materialization(spec.run_id, ["elyza"]), instance)

    assert [run.status for run in instance.get_runs()] == [dg.DagsterRunStatus.FAILURE]


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


def test_a_process_is_told_apart_from_dead_ones_and_later_ones() -> None:
    living = process_name(os.getpid())
    assert living.split(":")[1] == str(os.getpid())

    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    before = process_name(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    zombie = process_name(child.pid)
    child.wait()

    assert before
    assert before != living
    assert zombie == ""
    assert process_name(child.pid) == ""


@pytest.mark.parametrize(
    ("process", "closed"),
    [
        (lambda: process_name(os.getpid()), False),
        (lambda: process_name(os.getpid()) + "9", True),  # the number went to another process since
        (lambda: "elsewhere:1:1", False),  # nobody here can tell
        (lambda: None, False),  # the daemon's own; it watches them itself
    ],
    ids=["this process", "a reused number", "another host", "no process of ours"],
)
def test_only_runs_of_dead_processes_of_this_host_are_closed(
    process: Callable[[], str | None], closed: bool, instance: dg.DagsterInstance
) -> None:
    name = process()
    run = instance.create_run_for_job(_some_job, tags={PROCESS_TAG: name} if name else {})
    instance.report_engine_event("started", run)
    instance.report_dagster_event(
        dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, job_name=run.job_name), run_id=run.run_id
    )

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
def test_the_run_of_a_killed_command_is_closed_with_its_slots_by_the_next_one(
    settings: Settings, instance: dg.DagsterInstance
) -> None:
    instance.event_log_storage.set_concurrency_slots("judge", 1)
    with _answering_a_few() as mock:
        with _run_evals(mock) as command:
            command.wait_until(lambda: mock.stats()["answered"] == _FINISHED and _journaled(settings) == _FINISHED)
            (ran,) = instance.get_runs()
            claim = instance.event_log_storage.claim_concurrency_slot("judge", ran.run_id, "judgements")
        assert claim.is_claimed
        assert instance.get_run_by_id(ran.run_id).status == dg.DagsterRunStatus.STARTED

        _go_on(mock, instance)

    assert instance.get_run_by_id(ran.run_id).status == dg.DagsterRunStatus.CANCELED
    assert instance.event_log_storage.get_concurrency_info("judge").active_slot_count == 0


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
