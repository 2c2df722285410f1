"""Two hosts, each with a mirror of its own, work on one lake in a store and share a database."""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from shaberi_dagster.runs.plan import RunPlan
from shaberi_dagster.runs.spec import CallOptions
from shaberi_dagster.runs.stages.evaluation import materialize
from shaberi_dagster.runs.stages.ordered import calling_stage
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ShaberiError
from tests.example_runs import ask, stored_run
from tests.mock_endpoint import content_for, running_mock
from tests.object_storage import running_store
from tests.postgres import end_other_connections

pytestmark = [pytest.mark.integration, pytest.mark.long]
_ROOT = Path(__file__).resolve().parents[2]
_QUESTIONS = 40
_WORK = """
import sys
from shaberi_dagster.runs.stages.evaluation import materialize
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.runs.spec import CallOptions
from shaberi_dagster.settings import Settings
options = CallOptions(reuse=True)
materialize("answers", sys.argv[1], ["rakuda"], Workspace(Settings.from_environment(), environment={}, options=options))
"""


@pytest.fixture
def here(tmp_path, monkeypatch, database):
    """This host's workspace."""
    with running_store(tmp_path / "store") as store:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("SHABERI_WAREHOUSE", store.uri)
        monkeypatch.setenv("SHABERI_DATABASE_URL", database)
        monkeypatch.setenv("SHABERI_MIRRORS", str(tmp_path / "here"))
        yield Workspace(Settings.from_environment(), environment={}, options=CallOptions(reuse=True))


def _at_work_there(run_id, tmp_path):
    environment = os.environ | {"SHABERI_MIRRORS": str(tmp_path / "there"), "PYTHONPATH": str(_ROOT)}
    return subprocess.Popen([sys.executable, "-c", _WORK, run_id], cwd=_ROOT, env=environment)


def _request(mock, folder, **values):
    lines = (f'{{"question": "question {number}", "category": "a"}}\n' for number in range(_QUESTIONS))
    folder.mkdir(exist_ok=True)
    (folder / "rakuda.jsonl").write_text("".join(lines))
    return ask(mock, benchmarks=["rakuda"], questions=str(folder), **values)


def _wait_until(condition, process):
    until = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, "the process ended too early"
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_run_that_was_killed_on_one_host_goes_on_on_another_and_repeats_only_its_last_calls(here, tmp_path):
    with running_mock(latency=1.0) as mock:
        mock.options.capacity = 8
        spec = stored_run(here, _request(mock, tmp_path / "own"))
        process = _at_work_there(spec.run_id, tmp_path)
        _wait_until(lambda: mock.stats()["answered"] >= 16, process)
        process.send_signal(signal.SIGKILL)
        process.wait()
        _wait_until_idle(mock)
        before = mock.stats()
        mock.options.latency = 0.0
        kept = here.journals.finished_calls(spec.run_id, "answers").keys()
        assert len(kept) >= 8, "those that were answered more than half a second before"

        materialize("answers", spec.run_id, ["rakuda"], here)

        after = mock.stats()
    assert after["repeated"] == before["answered"] - len(kept) <= 2 * 8
    rows, calls = here.lake.read("answers"), here.lake.read("calls", {"status": "ok"})
    assert (rows.height, rows["question_id"].n_unique()) == (_QUESTIONS, _QUESTIONS)
    assert (calls.height, calls["request_hash"].n_unique()) == (_QUESTIONS, _QUESTIONS)
    assert kept <= set(calls["request_hash"])
    assert here.journals.unfinished() == []


def test_two_hosts_with_the_same_requests_at_the_same_time_make_each_once(here, tmp_path):
    with running_mock(latency=0.2) as mock:
        first, second = (stored_run(here, _request(mock, tmp_path / "own", tag=tag)) for tag in ("a", "b"))
        process = _at_work_there(first.run_id, tmp_path)
        _wait_until(lambda: mock.stats()["requests"] >= 8, process)

        materialize("answers", second.run_id, ["rakuda"], here)

        assert process.wait() == 0
        assert mock.stats()["answered"] == _QUESTIONS
    here.lake.refresh()
    rows = here.lake.read("answers").group_by("run_id").len()
    assert sorted(rows.rows()) == [(first.run_id, _QUESTIONS), (second.run_id, _QUESTIONS)]


def test_a_call_that_another_host_paid_for_and_committed_meanwhile_is_found(here, tmp_path):
    with running_mock() as mock:
        first, second = (stored_run(here, _request(mock, tmp_path / "own", tag=tag)) for tag in ("a", "b"))
        stage = calling_stage("answers")(RunPlan(second, ["rakuda"], here))
        survey = stage.survey()
        wanted = [item.request.request_hash for item in stage.items(survey.pending)]
        paid = stage.paid_calls(survey.stored)
        assert paid.find(wanted) == paid.news(wanted[:1]) == {}

        there = Workspace(replace(here.settings, warehouse=tmp_path / "there"), environment={}, options=here.options)
        shutil.copytree(here.settings.warehouse, there.settings.warehouse)
        materialize("answers", first.run_id, ["rakuda"], there)

        assert not here.lake.has_version("calls", 0)
        assert paid.news(wanted[:1]).keys() == {wanted[0]}
        assert paid.news(wanted[1:]).keys() == set(wanted[1:])


def test_a_stage_that_has_lost_the_database_stops_in_one_line_and_goes_on_later(
    workspace, tmp_path, database, monkeypatch
):
    monkeypatch.setenv("SHABERI_DATABASE_URL", database)
    with running_mock() as mock:
        spec = stored_run(workspace, _request(mock, tmp_path / "own"))
        mock.options.script = lambda body, _: _then(mock, database, body)
        with pytest.raises(ShaberiError) as error:
            materialize("answers", spec.run_id, ["rakuda"], workspace)
        assert "\n" not in str(error.value)
        assert "connection to the database lost" in str(error.value)
        assert "run the same command again, finished calls are kept" in str(error.value)
        assert workspace.lake.read("answers").is_empty()

        mock.options.script = None
        materialize("answers", spec.run_id, ["rakuda"], workspace)

    assert workspace.lake.read("answers")["status"].to_list() == ["ok"] * _QUESTIONS


def _then(mock, database, body):
    """An answer, after the server has closed all connections."""
    if mock.stats()["answered"] == _QUESTIONS // 2:
        end_other_connections(database)
    return content_for(body)


def _wait_until_idle(mock):
    until = time.monotonic() + 30
    while mock.stats()["in_flight"]:
        assert time.monotonic() < until
        time.sleep(0.01)
