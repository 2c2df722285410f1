"""A cluster without its servers: its settings, what it refuses, and how its parts end."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shaberi_dagster.defs.cluster import processes
from shaberi_dagster.defs.cluster.folder import alone_in, environment_of
from shaberi_dagster.defs.cluster.local import look_after
from shaberi_dagster.defs.cluster.parts import PARTS, command_of
from shaberi_dagster.defs.cluster.processes import ClusterProcess
from shaberi_dagster.errors import ConfigurationError, ShaberiError
from tests.commands import run

pytestmark = pytest.mark.integration


def test_its_settings_are_made_once_and_for_the_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHABERI_WAREHOUSE")
    made = environment_of(tmp_path / "cluster")

    assert environment_of(tmp_path / "cluster") == made
    assert made["SHABERI_WAREHOUSE"].startswith("s3://")
    assert made["AWS_ENDPOINT_URL"].startswith("http://127.0.0.1:")
    assert stat.S_IMODE((tmp_path / "cluster" / "environment").stat().st_mode) == 0o600


def test_a_lake_that_is_somewhere_else_stays_there_and_shells_are_told_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHABERI_WAREHOUSE", "lake")

    made = environment_of(tmp_path / "cluster")

    assert made["SHABERI_WAREHOUSE"] == str(tmp_path / "lake")
    assert "AWS_ENDPOINT_URL" not in made
    monkeypatch.delenv("SHABERI_WAREHOUSE")
    assert environment_of(tmp_path / "cluster") == made


def test_the_cluster_of_another_lake_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment_of(tmp_path / "cluster")
    monkeypatch.setenv("SHABERI_WAREHOUSE", "s3://bucket/other")

    with pytest.raises(ConfigurationError, match="SHABERI_WAREHOUSE is s3://bucket/other: unset it, or name another"):
        environment_of(tmp_path / "cluster")


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
    assert _ends(child)


def test_a_part_that_has_ended_is_started_anew_without_the_children_it_left(tmp_path: Path) -> None:
    code = "import subprocess, time; print(subprocess.Popen(['sleep', '600']).pid, flush=True); time.sleep(600)"
    part = _part(tmp_path, code)
    part.start()
    assert part.process is not None
    first, child = part.process.pid, int(_said(part))
    part.process.kill()
    part.process.wait()
    told: list[str] = []
    try:
        look_after({"part": part}, told.append)
        assert part.process.pid != first
        assert told == ["part has ended and is started anew"]
        assert _ends(child)
    finally:
        part.end()


def test_what_needs_a_server_is_not_started_anew_before_the_server_answers(tmp_path: Path) -> None:
    server, worker = (_part(tmp_path, "import time; time.sleep(600)", name) for name in ("server", "worker"))
    door = tmp_path / "door"
    server.answers = door.exists
    parts = {"server": server, "worker": worker}
    for part in parts.values():
        part.start()
        assert part.process is not None
        part.process.kill()
        part.process.wait()
    told: list[str] = []
    try:
        look_after(parts, told.append)
        look_after(parts, told.append)
        assert told == ["server has ended and is started anew"]
        door.touch()
        look_after(parts, told.append)
        assert told == ["server has ended and is started anew", "worker has ended and is started anew"]
    finally:
        for part in parts.values():
            part.end()


def test_a_part_that_cannot_start_is_tried_after_growing_pauses_and_then_ends_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(processes.time, "monotonic", lambda: now)
    redis = _part(tmp_path, "print('no memory')", name="redis")
    redis.start()
    told: list[str] = []

    def look_for_a_while() -> None:
        nonlocal now
        while now < 100:
            if redis.process is not None:
                redis.process.wait()
            look_after({"redis": redis}, told.append)
            now += 1.0

    with pytest.raises(ShaberiError, match="redis of the cluster ends each time it is started: no memory"):
        look_for_a_while()

    pauses = [said.removeprefix("redis has ended and is started anew") for said in told]
    assert pauses == ["", " in 1 s", " in 2 s", " in 4 s", " in 8 s"]


_KILLED = """
import os, signal, sys
from pathlib import Path
from shaberi_dagster.defs.cluster import processes
from shaberi_dagster.defs.cluster.folder import alone_in
from shaberi_dagster.defs.cluster.processes import ClusterProcess, Reaper
folder = Path(sys.argv[1])
child = "import os, subprocess, time; print(os.getpid(), subprocess.Popen(['sleep', '600']).pid, flush=True); time.sleep(600)"
with alone_in(folder) as lock, Reaper(lock) as reaper:
    for name, code in (("meek", child), ("hard", child)):
        stop = signal.SIGTERM if name == "meek" else signal.SIGKILL
        log = folder / f"{name}.log"
        ClusterProcess(name, [sys.executable, "-c", code], dict(os.environ), log, stop=stop, reaper=reaper).start()
    for name in ("meek", "hard"):
        while not (folder / f"{name}.log").read_text().endswith("\\n"):
            pass
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.long
def test_kill_9_of_a_cluster_ends_its_parts_with_their_children_before_another_one_begins(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", _KILLED, tmp_path], check=False)
    assert killed.returncode == -signal.SIGKILL
    processes = [int(pid) for log in tmp_path.glob("*.log") for pid in log.read_text(encoding="utf-8").split()]

    with alone_in(tmp_path):
        assert len(processes) == 4
        assert not any(_lives(pid) for pid in processes)


def test_a_second_cluster_in_the_same_folder_is_refused_and_told_of_the_first(tmp_path: Path) -> None:
    with alone_in(tmp_path):
        complaint = run("shaberi", "cluster", "--folder", tmp_path).complaint

    assert (
        complaint
        == f"a cluster is at work in {tmp_path}: Ctrl-C where it was started, or `kill {os.getpid()}`, stops it"
    )


def _part(folder: Path, code: str, name: str = "part") -> ClusterProcess:
    return ClusterProcess(
        name, [sys.executable, "-c", f"{code}\nimport time\n"], dict(os.environ), folder / f"{name}.log"
    )


def _said(part: ClusterProcess) -> str:
    for _ in range(400):
        if text := part.log.read_text(encoding="utf-8"):
            return text
        time.sleep(0.05)
    raise AssertionError("it says nothing")


def _ends(pid: int) -> bool:
    """Wait for a process to end, which a signal does not make it do at once."""
    deadline = time.monotonic() + 10
    while _lives(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not _lives(pid)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
