"""Two commands for the same run at the same time."""

import json
import signal
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Started, run, run_without_dagster, started
from tests.e2e.conftest import target
from tests.mock_endpoint import MockEndpoint, content_for

pytestmark = [pytest.mark.e2e, pytest.mark.long]


def test_the_second_is_told_at_once_who_is_at_work_and_the_first_goes_on(mock: MockEndpoint, tmp_path: Path) -> None:
    mock.options.p_hang = 1.0
    arguments = [*target(mock, ("judge-a",)), "--benchmark", "rakuda", "--limit", "3"]
    with started("run-evals", *arguments) as first:
        first.wait_until(lambda: mock.stats()["requests"] == 3)

        second = run("run-evals", *arguments)

    complaint = second.err.splitlines()[-1]
    assert second.code == 2
    assert "Traceback" not in second.err
    assert f"error: answers of run org__model@@default is being worked on by process {first.pid} on " in complaint
    assert complaint.endswith("wait for it or stop it")
    assert mock.stats()["requests"] == 3
    mock.options.p_hang = 0.0
    run_without_dagster("run-evals", *arguments).succeeded()
    assert mock.stats()["requests"] == 3 + 3 + 3
    assert not list((tmp_path / "warehouse" / "_journal").iterdir())


def _alone(mock: MockEndpoint, tag: str, *more: str) -> AbstractContextManager[Started]:
    """One of several runs with the same questions: what they know of each other is not from Dagster."""
    return started("run-evals", *_same_questions(mock, tag), *more, without_dagster=True)


def _same_questions(mock: MockEndpoint, tag: str) -> list[str]:
    return [*target(mock, ("judge-a",)), "--benchmark", "rakuda", "--limit", "3", "--tag", tag, "--reuse"]


def _times_asked(mock: MockEndpoint) -> list[int]:
    return [one["asked"] for one in mock.stats()["keys"].values()]


def test_two_runs_with_the_same_requests_at_the_same_time_make_each_once(mock: MockEndpoint) -> None:
    mock.options.latency = 0.5
    with _alone(mock, "a") as first, _alone(mock, "b") as second:
        first.finished().succeeded()
        second.finished().succeeded()
    assert _times_asked(mock) == [1] * (3 + 3)
    calls = run("shaberi", "sql", "select count(*), count(distinct request_hash) from calls", "--format", "csv")
    assert calls.out.splitlines()[1] == "6,6"


def test_when_the_one_that_makes_a_call_is_killed_the_other_one_makes_it(mock: MockEndpoint, tmp_path: Path) -> None:
    mock.options.p_hang = 1.0
    with _alone(mock, "a") as first:
        first.wait_until(lambda: mock.stats()["requests"] == 3)
        with _alone(mock, "b") as second:
            second.wait_until((tmp_path / "warehouse" / "_journal" / "org__model@@b.answers.jsonl").exists)
            second.wait_until(lambda: mock.stats()["model_lists"] >= 2)
            assert mock.stats()["requests"] == 3
            mock.options.p_hang = 0.0
            first.send(signal.SIGKILL)
            second.finished().succeeded()
    assert sorted(_times_asked(mock)) == [1, 1, 1, 2, 2, 2]  # judgements, and answers that the first one never got


def test_what_a_killed_run_has_paid_for_counts_for_another_one(mock: MockEndpoint, tmp_path: Path) -> None:
    mock.options.script = lambda body, number: _hanging(mock, body, after=number == 1)
    with _alone(mock, "a", "--concurrency", "1") as first:
        first.wait_until(lambda: mock.stats()["requests"] == 3)
        first.send(signal.SIGKILL)
        first.finished()
    mock.options.p_hang = 0.0
    assert (tmp_path / "warehouse" / "_journal" / "org__model@@a.answers.jsonl").exists()

    plan = json.loads(run("run-evals", *_same_questions(mock, "b"), "--dry-run", "--json").succeeded().out)
    run_without_dagster("run-evals", *_same_questions(mock, "b")).succeeded()

    assert sorted(_times_asked(mock)) == [1, 1, 1, 1, 1, 2]
    assert {row["stage"]: row["calls"] for row in plan["rows"]} == {"answers": 1, "judgements": 3}


def _hanging(mock: MockEndpoint, body: dict[str, Any], *, after: bool) -> str:
    if after:
        mock.options.p_hang = 1.0
    return content_for(body)
