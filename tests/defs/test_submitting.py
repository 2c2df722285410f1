"""Commands with `--submit` on a cluster at work: looking on, leaving, canceling, killing, and what is in the lake then."""

import json
import re
import shutil
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import EmptyWorkspaceTarget

from perf.same_tables import differences, tables_of
from shaberi_dagster.defs.execution import open_instance
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.settings import Settings
from tests.commands import lake_of, run, run_without_dagster, started
from tests.example_runs import write_questions
from tests.mock_endpoint import MockEndpoint, running_mock
from tests.running_cluster import Cluster, running_cluster

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server"),
]
_N = 12
_LOST_AT_A_KILL = 6
"""Two calls in flight, and those of the half second before, which are not yet in the journal."""


@pytest.fixture(scope="module")
def cluster(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), postgres) as running:
        yield running


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_questions(tmp_path_factory.mktemp("questions"), _N)


@pytest.fixture
def slow() -> Iterator[MockEndpoint]:
    """An endpoint at which a run takes some seconds until a test lets it be quick."""
    with running_mock(latency=0.5) as mock:
        yield mock


def _asked(mock: MockEndpoint, questions: Path, model: str, *more: str) -> list[str]:
    """What `run-evals` is told for a run with answers, judgements and the outputs of a pass."""
    options = {
        "--model": model,
        "--base-url": mock.base_url,
        "--judge-model": f"judge-{model}",
        "--judge-base-url": mock.base_url,
        "--benchmark": "rakuda",
        "--questions": str(questions),
        "--passes": "repetition",
        "--concurrency": "2",
    }
    return [*(word for pair in options.items() for word in pair), *more]


def test_who_stops_looking_on_stops_nothing_and_a_killed_worker_changes_no_cell(
    cluster: Cluster, questions: Path, slow: MockEndpoint, tmp_path: Path
) -> None:
    asked = _asked(slow, questions, "left-alone", "--runs", "2")
    with started("run-evals", *asked, "--submit", environment=cluster.environment) as command:
        command.wait_until_it_says("of left-alone@@default-run1 is at work")
        command.send(signal.SIGINT)
        left = command.finished()
    assert left.code == 130
    assert "the cluster continues what was submitted (Dagster run " in left.err
    assert "the same command looks on again, Terminate in Dagster's UI cancels it" in left.err

    with started("run-evals", *asked, "--submit", environment=cluster.environment) as command:
        command.wait_until(lambda: slow.stats()["answered"] >= 4)
        cluster.kill_worker()
        slow.options.latency = 0.0
        cluster.start_worker()
        again = command.finished().succeeded()
    assert "its worker is gone; another one continues" in again.err
    assert "left-alone" in again.out
    needed = 4 * _N  # each of both runs has its answers judged
    assert needed <= slow.stats()["answered"] <= needed + _LOST_AT_A_KILL

    run_without_dagster("run-evals", *asked, environment=lake_of(tmp_path)).succeeded()

    by_cluster, by_one = _rows_of("left-alone", cluster.environment), _rows_of("left-alone", lake_of(tmp_path))
    assert {"answers", "judgements", "pass_outputs", "scores", "metrics", "calls"} <= by_one.keys()
    assert list(differences(by_cluster, by_one)) == []


def test_terminate_in_the_ui_cancels_a_run_keeps_its_calls_and_the_same_command_goes_on(
    cluster: Cluster, questions: Path, slow: MockEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [*_asked(slow, questions, "ended"), "--submit"]
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    with started("run-evals", *asked) as command, open_instance(Settings.from_environment().dagster_home) as instance:
        command.wait_until(lambda: slow.stats()["answered"] >= 4)
        slow.options.p_hang = 1.0  # else it may be at its end before it is told to stop
        command.wait_until(lambda: slow.stats()["p_hang"] == 2)
        (at_work,) = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))

        _terminate(at_work.run_id, instance)

        canceled = command.finished()
    assert canceled.code == 2
    assert f"Dagster run {at_work.run_id} was canceled; the same command continues it" in canceled.err

    slow.options.latency = slow.options.p_hang = 0.0
    again = run("run-evals", *asked).succeeded()

    assert re.search(r"answers rakuda 12/12, \d+ already there", again.err)
    assert "its worker is gone" not in again.err
    counts = slow.stats()
    assert counts["answered"] == 2 * _N
    assert counts["abandoned"] == 2


def test_quick_eval_is_made_by_a_worker_as_well(cluster: Cluster, mock: MockEndpoint) -> None:
    what = ["--datasets", "gsm8k", "--sample", "2", "--ensemble", "2", "--strategy", "plurality"]
    asked = ["--model", "quick", "--base-url", mock.base_url, *what, "--json"]

    made = run("quick-eval", *asked, "--submit", environment=cluster.environment).succeeded()

    result = json.loads(made.out)
    assert (result["status"], result["calls_made"]["answers"]) == ("complete", 6)
    assert "of quick@@" in made.err
    assert "did not yield" not in made.err  # as Dagster says of a metric that is compared with nothing


def test_what_a_worker_would_refuse_to_send_is_said_before_anything_is_queued(
    cluster: Cluster, mock: MockEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = {"MY_KEY": "sk-canary-0123456789abcdef"}
    asked = ["--model", "keyed", "--base-url", mock.base_url, "--api-key-variable", "MY_KEY", "--benchmark", "elyza"]
    asked += ["--limit", "1", "--judge-model", "judge", "--judge-base-url", mock.base_url, "--submit"]
    command = cluster.environment | key
    place = mock.base_url.removesuffix("/v1").removeprefix("http://")
    unbound = f"MY_KEY is not bound to http://{place}: if the key belongs there, start the worker with "

    for of_worker, said in (
        ({}, f"MY_KEY is not set there: start it with the API key for {mock.base_url}"),
        (key, f'{unbound}SHABERI_KEY_HOSTS="MY_KEY={place}"'),
    ):
        for name, value in of_worker.items():
            monkeypatch.setitem(cluster.environment, name, value)
            cluster.kill_worker()
            cluster.start_worker()
        _wait_for_a_worker(cluster.environment)
        refused = run("run-evals", *asked, environment=command)
        assert refused.code == 2
        assert re.fullmatch(rf"error: worker \S+ refuses: {re.escape(said)}", refused.err.splitlines()[-1])
        assert "Dagster run" not in refused.err
        assert all(rows.is_empty() for rows in _rows_of("keyed", cluster.environment).values())
    assert mock.stats()["requests"] == 0

    cluster.kill_worker()
    with started("run-evals", *asked, environment=command) as looking_on:
        looking_on.wait_until_it_says("no worker could be asked whether it has the keys")
        looking_on.wait_until_it_says("of keyed@@default waits in the queue")
        monkeypatch.setitem(cluster.environment, "SHABERI_KEY_HOSTS", f"MY_KEY={place}")
        cluster.start_worker()
        looking_on.finished().succeeded()
    sent = {
        body["model"]: headers.get("Authorization") for body, headers in zip(mock.bodies, mock.headers, strict=True)
    }
    assert sent == {"keyed": f"Bearer {key['MY_KEY']}", "judge": None}


def _wait_for_a_worker(environment: Mapping[str, str]) -> None:
    while "workers: 1 answer" not in run("shaberi", "doctor", environment=environment).out:
        pass  # each look takes two seconds, and the test has an end


_TERMINATE = 'mutation { terminateRun(runId: "%s") { __typename } }'


def _terminate(dagster_run_id: str, instance: dg.DagsterInstance) -> None:
    """What the UI's Terminate asks the webserver for."""
    from dagster_graphql.schema import create_schema

    with WorkspaceProcessContext(instance, EmptyWorkspaceTarget()) as process:
        answer = create_schema().execute(_TERMINATE % dagster_run_id, context=process.create_request_context())
    assert answer.data == {"terminateRun": {"__typename": "TerminateRunSuccess"}}, answer


def _rows_of(model: str, environment: Mapping[str, str]) -> dict[str, pl.DataFrame]:
    """What a lake has of a model's runs, without what may differ."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        tables = tables_of(Lake(Settings.from_environment().warehouse))
    own = pl.col("run_id").str.starts_with(f"{model}@@")
    found = {name: rows.filter(own) for name, rows in tables.items() if "run_id" in rows.columns}
    # Either of two runs may make a call that both need.
    return {name: rows.drop("run_id") if name == "calls" else rows for name, rows in found.items()}
