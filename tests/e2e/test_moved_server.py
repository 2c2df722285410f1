"""A server that is started again on another port, as whoever runs the commands meets it."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import lake_of, run, run_without_dagster, started
from tests.e2e.conftest import target
from tests.mock_endpoint import MockEndpoint, content_for, running_mock

pytestmark = [pytest.mark.e2e, pytest.mark.long]
_FEW = ("--benchmark", "elyza", "--limit", "3")


@pytest.fixture
def elsewhere() -> Iterator[MockEndpoint]:
    """Another port."""
    with running_mock() as running:
        yield running


def test_the_same_command_at_another_port_asks_nobody_and_says_that_the_address_changed(
    mock: MockEndpoint, elsewhere: MockEndpoint, tmp_path: Path
) -> None:
    lake = lake_of(tmp_path)
    run_without_dagster("run-evals", *target(mock, ("judge-a",)), *_FEW, environment=lake).succeeded()
    calls = mock.stats()["answered"]

    moved = run("run-evals", *target(elsewhere, ("judge-a",)), *_FEW, environment=lake).succeeded()

    assert (calls, elsewhere.stats()["requests"]) == (6, 0)
    assert f"the address of judge judge-a changed from {mock.base_url} to {elsewhere.base_url}" in moved.err
    again = run("run-evals", *target(elsewhere, ("judge-a",)), *_FEW, environment=lake).succeeded()
    assert "changed from" not in again.err
    stale = run("shaberi", "sql", "select count(*) as n from stale", "--format", "json", environment=lake).succeeded()
    assert json.loads(stale.out) == [{"n": 0}]


def test_an_address_without_v1_is_corrected_under_the_same_tag(mock: MockEndpoint, tmp_path: Path) -> None:
    lake, right = lake_of(tmp_path), target(mock, ("judge-a",))
    wrong = [part.removesuffix("/v1") for part in right]
    failed = run("run-evals", *wrong, *_FEW, environment=lake)
    assert "takes no calls of judge-a: HTTP 404" in failed.complaint

    run_without_dagster("run-evals", *right, *_FEW, environment=lake).succeeded()

    assert mock.stats()["answered"] == 6


def test_an_interrupted_run_goes_on_at_another_port_and_repeats_no_call_of_its_journal(
    mock: MockEndpoint, elsewhere: MockEndpoint, tmp_path: Path
) -> None:
    finished = 2

    def script(body: dict[str, object], number: int) -> str:
        if number == finished - 1:
            mock.options.p_hang = 1.0  # from the next request on
        return content_for(body)

    mock.options.script = script
    journals = tmp_path / "warehouse" / "_journal"
    with started("run-evals", *target(mock, ("judge-a",)), *_FEW, without_dagster=True) as process:
        process.wait_until(lambda: sum(path.read_text().count('"ok"') for path in journals.glob("*.jsonl")) >= finished)
        process.send(signal.SIGINT)
        assert process.finished().code == 130

    run_without_dagster("run-evals", *target(elsewhere, ("judge-a",)), *_FEW).succeeded()

    assert (mock.stats()["answered"], elsewhere.stats()["answered"]) == (finished, 6 - finished)
