"""A judge's endpoint that dies in the middle: what there is counts, is written down, and one command does the rest."""

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.commands import run_without_dagster, started
from tests.mock_endpoint import MockEndpoint
from tests.results_tree import assert_valid_tree

pytestmark = [pytest.mark.e2e, pytest.mark.long]

_ROOT = Path(__file__).resolve().parents[2]
_PATIENCE_SECONDS = 120


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _judge_at(port: int, latency: float) -> Iterator[subprocess.Popen[bytes]]:
    """A judge in a process of its own, killed in the end."""
    command = [sys.executable, "-m", "tests.mock_endpoint", "--port", str(port), "--latency", str(latency)]
    judge = subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.DEVNULL)
    try:
        _wait_until(lambda: _stats(port) is not None)
        yield judge
    finally:
        judge.kill()
        judge.wait()


def _stats(port: int) -> dict[str, Any] | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/stats", timeout=5) as reply:
            return json.load(reply)
    except OSError:
        return None


def _wait_until(true: Any) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_rest_is_scored_and_one_command_finishes_the_run(mock: MockEndpoint, tmp_path: Path) -> None:
    port = _free_port()
    arguments = [
        *("--model", "m", "--base-url", mock.base_url, "--judge-model", "judge"),
        *("--judge-base-url", f"http://127.0.0.1:{port}/v1", "--benchmark", "elyza,rakuda"),
        *("--limit", "2", "--concurrency", "2"),  # the last two wait together for the judge to come back
    ]
    with _judge_at(port, latency=0.4) as judge, started("run-evals", *arguments) as command:
        command.wait_until(lambda: _stats(port)["answered"] >= 2)
        judge.kill()
        ended = command.finished()

    assert ended.code == 3, ended.err
    assert "Traceback" not in ended.err
    results = tmp_path / "results"
    assert_valid_tree(results)
    manifest = orjson.loads((results / "m" / "default" / "manifest.json").read_bytes())
    assert manifest["status"] == "partial"
    judged = {name: part["judgements"]["judge"] for name, part in manifest["benchmarks"].items()}
    assert sum(part["ok"] for part in judged.values()) in {2, 3}
    assert manifest["benchmarks"]["rakuda"]["incomplete_parts"] == ["judgements judge"]
    assert manifest["benchmarks"]["rakuda"]["answers"]["status"] == "complete"
    assert "2/2" in ended.out, "the benchmark that was judged has its score"

    with _judge_at(port, latency=0.0):
        run_without_dagster("run-evals", *arguments).succeeded()
        finished = _stats(port)
    assert finished["requests"] == 4 - sum(part["ok"] for part in judged.values())
    assert orjson.loads((results / "m" / "default" / "manifest.json").read_bytes())["status"] == "complete"
    assert_valid_tree(results)


def test_an_endpoint_that_is_gone_between_two_stages_costs_only_what_needs_it(mock: MockEndpoint) -> None:
    """The judge is there when the command begins, and dead when the judgements begin."""
    port = _free_port()
    mock.options.latency = 1.0
    arguments = [
        *("--model", "m", "--base-url", mock.base_url, "--judge-model", "judge"),
        *("--judge-base-url", f"http://127.0.0.1:{port}/v1", "--benchmark", "elyza", "--limit", "2"),
    ]
    alone = started("run-evals", *arguments, without_dagster=True)
    with _judge_at(port, latency=0.0) as judge, alone as command:
        command.wait_until(lambda: mock.stats()["requests"] >= 2)
        judge.kill()
        ended = command.finished()

    assert ended.code == 3, ended.err
    assert "cannot be reached" in ended.err
    assert "0/2" in ended.out
