"""`shaberi cluster` without its processes: its settings, what it refuses, and that a part ends with its children."""

import os
import signal
import stat
import sys
import time
from pathlib import Path

import pytest

from shaberi_dagster.cli.cluster import PARTS, Part, command_of, environment_of, look_after
from shaberi_dagster.errors import ShaberiError
from tests.commands import run

pytestmark = pytest.mark.integration


def test_its_settings_are_made_once_and_for_the_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHABERI_WAREHOUSE")
    made = environment_of(tmp_path / "cluster")

    assert environment_of(tmp_path / "cluster") == made
    assert made["SHABERI_WAREHOUSE"].startswith("s3://")
    assert made["AWS_ENDPOINT_URL"].startswith("http://127.0.0.1:")
    assert stat.S_IMODE((tmp_path / "cluster" / "environment").stat().st_mode) == 0o600


def test_a_lake_that_is_somewhere_else_stays_there(tmp_path: Path) -> None:
    assert not {"SHABERI_WAREHOUSE", "AWS_ENDPOINT_URL"} & environment_of(tmp_path / "cluster").keys()


def test_an_unknown_part_and_a_missing_cluster_are_refused_in_one_line() -> None:
    assert run("shaberi", "cluster", "queen").complaint == (
        "no part 'queen' of a cluster: there are worker, daemon, web"
    )
    assert "set SHABERI_DATABASE_URL and SHABERI_BROKER_URL" in run("shaberi", "cluster", "worker").complaint


def test_every_part_has_a_command_of_this_environment() -> None:
    assert {command_of(part)[0] for part in PARTS} == {sys.executable}


def test_a_part_ends_with_its_children(tmp_path: Path) -> None:
    part = _part(tmp_path, "import subprocess, sys, time; print(subprocess.Popen(['sleep', '600']).pid, flush=True)")
    part.start()
    child = int(_said(part))

    part.end()

    assert part.has_ended()
    for _ in range(100):
        if not _lives(child):
            break
        time.sleep(0.05)
    assert not _lives(child)


def test_a_worker_that_has_ended_is_started_anew_and_another_part_is_missed(tmp_path: Path) -> None:
    worker = _part(tmp_path, "import time; print('here', flush=True); time.sleep(600)", name="worker-1")
    worker.start()
    assert worker.process is not None
    first = worker.process.pid
    os.killpg(first, signal.SIGKILL)
    worker.process.wait()
    try:
        look_after({"worker-1": worker})
        assert worker.process.pid != first
    finally:
        worker.end()

    redis = _part(tmp_path, "print('no memory')", name="redis")
    redis.start()
    assert redis.process is not None
    redis.process.wait()
    with pytest.raises(ShaberiError, match="redis of the cluster has ended: no memory"):
        look_after({"redis": redis})


def _part(folder: Path, code: str, name: str = "part") -> Part:
    return Part(name, [sys.executable, "-c", f"{code}\nimport time\n"], dict(os.environ), folder / f"{name}.log")


def _said(part: Part) -> str:
    for _ in range(400):
        if text := part.log.read_text(encoding="utf-8"):
            return text
        time.sleep(0.05)
    raise AssertionError("it says nothing")


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
