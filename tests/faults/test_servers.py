"""Each server of a cluster, its daemon and its workers, killed while runs are at work: nobody submits anything again."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from perf.cluster import SERVERS, SERVERS_IN_FULL, evaluate_on_cluster
from tests.commands import started
from tests.example_runs import write_questions
from tests.mock_endpoint import running_mock
from tests.postgres import POSTGRES
from tests.running_cluster import started_cluster
from tests.sizes import FULL

pytestmark = [
    pytest.mark.integration,
    pytest.mark.acceptance,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("redis-server") is None or not POSTGRES.is_dir(), reason="no Redis or PostgreSQL"),
]


def test_runs_of_killed_servers_complete_by_themselves_and_change_no_cell() -> None:
    outcome = evaluate_on_cluster(**(SERVERS_IN_FULL if FULL else SERVERS))

    assert outcome.violations == []
    assert outcome.cells
    restarted = {
        name for name in ("postgres", "redis", "store", "daemon", "worker") for said in outcome.restarts if name in said
    }
    assert restarted == {"postgres", "redis", "store", "daemon", "worker"}
    assert outcome.requests == outcome.needed + outcome.abandoned + outcome.repeated


def test_who_looks_on_at_a_submitted_run_waits_for_the_database_and_looks_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHABERI_WAREHOUSE")
    questions = write_questions(tmp_path / "questions", 12)
    asked = ["--model", "model", "--judge-model", "judge", "--benchmark", "rakuda", "--questions", questions]
    with started_cluster() as (cluster, folder, settings), running_mock(latency=0.5) as mock:
        asked += ["--base-url", mock.base_url, "--judge-base-url", mock.base_url, "--concurrency", "2"]
        with started("run-evals", *asked, "--submit", environment=settings) as command:
            command.wait_until(lambda: mock.stats()["answered"] >= 4)
            pid = (folder / "postgres" / "data" / "postmaster.pid").read_text(encoding="utf-8").split()[0]
            os.kill(int(pid), signal.SIGKILL)
            finished = command.finished().succeeded()
        assert cluster.err.count("postgres has ended and is started again") == 1
    assert finished.err.count("the database of the cluster is gone") == 1
    assert "its worker is gone; another one continues" in finished.err
    assert "Retrying" not in finished.err
