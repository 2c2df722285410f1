"""Two commands for the same run at the same time."""

from pathlib import Path

import pytest

from tests.commands import run, started
from tests.e2e.conftest import target
from tests.mock_endpoint import MockEndpoint

pytestmark = pytest.mark.e2e


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
    run("run-evals", *arguments).succeeded()
    assert mock.stats()["requests"] == 3 + 3 + 3
    assert not list((tmp_path / "warehouse" / "_journal").iterdir())
