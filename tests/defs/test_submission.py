"""Runs given to workers: what is in the queue, what the one who looks on is told, and who refuses to make them.

A worker here is a thread of the test that takes the run out of the queue as a worker's process does.
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._cli.api import _execute_run_command_body
from sqlalchemy.exc import OperationalError

from shaberi_dagster.defs import submission
from shaberi_dagster.defs.execution import open_instance
from shaberi_dagster.defs.submission import ByWorkers, follow, submit, submitted
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError, EndpointError, ShaberiError
from shaberi_dagster.util.folders import project_folder
from tests.commands import run
from tests.mock_endpoint import MockEndpoint
from tests.stages_alone import ELYZA_OPS

pytestmark = pytest.mark.integration

_NAMES = ["elyza"]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "_POLL_SECONDS", 0.05)


@pytest.fixture
def instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    with open_instance(settings.dagster_home) as opened:
        yield opened


@pytest.fixture
def given(workspace: Workspace, instance: dg.DagsterInstance) -> Callable[[RunSpec], str]:
    """Submits a registered run."""
    return lambda spec: submit(spec.run_id, ELYZA_OPS, workspace, instance)


def test_a_submitted_run_waits_in_the_queue_and_is_found_until_it_has_ended(
    registered: Callable[..., RunSpec], given: Callable[[RunSpec], str], instance: dg.DagsterInstance
) -> None:
    spec = registered(benchmarks=_NAMES)

    dagster_run_id = given(spec)

    waiting = instance.get_run_by_id(dagster_run_id)
    assert waiting is not None
    assert (waiting.status, waiting.job_name) == (dg.DagsterRunStatus.QUEUED, "evaluate")
    assert submitted(spec.run_id, instance) == [dagster_run_id]
    assert submitted("other@@default", instance) == []
    instance.report_run_canceled(waiting)
    assert submitted(spec.run_id, instance) == []
    with pytest.raises(ShaberiError, match="was canceled; the same command continues it"):
        follow(dagster_run_id, instance, lambda _: None)


def test_who_looks_on_is_told_what_the_stages_tell_and_the_end(
    registered: Callable[..., RunSpec], given: Callable[[RunSpec], str], instance: dg.DagsterInstance
) -> None:
    spec, told = registered(benchmarks=_NAMES), []
    dagster_run_id = given(spec)

    _look_on_at(dagster_run_id, instance, told.append)

    assert any(line.endswith("waits in the queue") for line in told)
    assert {"answers elyza 3/3", "judgements elyza (judge) 3/3"} <= {line.partition(",")[0] for line in told}


@pytest.mark.parametrize(
    ("trouble", "error", "words"),
    [
        ("other prompts", ConfigurationError, r"^this worker has another prompt \S+ \(generation\) than the run was"),
        ("a broken prompt", ConfigurationError, r"user\.jinja"),  # an error of another room
        ("no such endpoint", EndpointError, "127.0.0.1"),
    ],
)
def test_what_stops_a_worker_is_raised_where_somebody_looks_on(  # noqa: PLR0917
    trouble: str,
    error: type[Exception],
    words: str,
    registered: Callable[..., RunSpec],
    given: Callable[[RunSpec], str],
    instance: dg.DagsterInstance,
    mock: MockEndpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dagster_run_id = given(registered(benchmarks=_NAMES))
    if "prompt" in trouble:
        added = "\nAnswer briefly." if trouble == "other prompts" else "{{"
        template = project_folder("prompts") / "generation" / "user.jinja"
        mine = tmp_path / "prompts" / "generation" / "user.jinja"
        mine.parent.mkdir(parents=True)
        mine.write_text(template.read_text(encoding="utf-8") + added, encoding="utf-8")
        monkeypatch.setenv("SHABERI_PROMPTS", str(tmp_path / "prompts"))
    else:
        mock.options.key = "another key"

    with pytest.raises(error, match=words):
        _look_on_at(dagster_run_id, instance, lambda _: None)

    assert mock.stats()["answered"] == 0


def test_who_looks_on_while_the_database_goes_for_good_is_told_in_one_line(
    registered: Callable[..., RunSpec],
    workspace: Workspace,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = registered(benchmarks=_NAMES)
    look_on = ByWorkers(workspace, instance)
    look_on.begin(spec, ELYZA_OPS)

    def lost(*_: object) -> None:
        raise OperationalError("select", {}, Exception("server closed the connection"))

    monkeypatch.setattr(submission, "follow", lost)

    with pytest.raises(
        ShaberiError, match=r"^the database of the cluster does not come back; .* the same command looks on again$"
    ):
        look_on(spec.run_id, ELYZA_OPS)


def test_without_a_cluster_submitting_is_refused_before_anything_is_planned() -> None:
    said = run("run-evals", "--model", "model", "--judge-model", "judge", "--submit").complaint

    assert said.startswith("this needs a cluster: set SHABERI_DATABASE_URL and SHABERI_BROKER_URL")


def _look_on_at(dagster_run_id: str, instance: dg.DagsterInstance, note: Callable[[str], object]) -> None:
    """Follow a run that a worker takes as soon as it was seen in the queue."""
    seen = threading.Event()

    def told(line: str) -> None:
        note(line)
        seen.set()

    def work() -> None:
        seen.wait(60)
        starting = dg.DagsterEvent(dg.DagsterEventType.RUN_STARTING.value, job_name="evaluate")  # as the daemon has it
        instance.report_dagster_event(starting, run_id=dagster_run_id)
        _execute_run_command_body(dagster_run_id, instance, lambda _: None, set_exit_code_on_failure=True)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        follow(dagster_run_id, instance, told)
    finally:
        worker.join()
