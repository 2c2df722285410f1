"""A cluster: its settings, what it refuses, and how its parts start and end."""

import json
import multiprocessing
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from shaberi_dagster.defs.cluster.folder import alone_in, environment_of
from shaberi_dagster.defs.cluster.parts import PARTS, command_of
from shaberi_dagster.defs.cluster.supervisor import command_line, supervised
from shaberi_dagster.util.errors import ConfigurationError, ShaberiError
from shaberi_dagster.util.ports import free_ports
from tests.commands import run
from tests.postgres import POSTGRES
from tests.running_cluster import running_redis, started_cluster

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

    with pytest.raises(ConfigurationError, match="SHABERI_WAREHOUSE is s3://bucket/other: unset it"):
        environment_of(tmp_path / "cluster")


def test_an_unknown_part_and_a_missing_cluster_are_refused_in_one_line() -> None:
    assert run("shaberi", "cluster", "queen").complaint == (
        "no part 'queen' of a cluster: there are worker, daemon, web"
    )
    assert "set SHABERI_DATABASE_URL and SHABERI_BROKER_URL" in run("shaberi", "cluster", "worker").complaint


def test_every_part_has_a_command_of_this_environment() -> None:
    assert {command_of(part)[0] for part in PARTS} == {sys.executable}


def test_a_part_ends_with_its_children(tmp_path: Path) -> None:
    with supervised(tmp_path, [_parts("part")]):
        processes = _processes(tmp_path, "part")

    assert len(processes) == 2
    assert not any(_lives(pid) for pid in processes)


def test_a_part_that_has_ended_is_started_again_without_the_children_it_left(tmp_path: Path) -> None:
    with supervised(tmp_path, [_parts("part", "other")]) as supervisor:
        first, child = _processes(tmp_path, "part")
        assert supervisor.restarted_parts() == []
        os.kill(first, signal.SIGKILL)

        _wait_until(lambda: supervisor.restarted_parts() == ["part"])

        assert supervisor.groups["part"] != first
        _wait_until(lambda: not _lives(child))


def test_a_command_is_what_it_was_whatever_is_in_it(tmp_path: Path) -> None:
    words = ["a #b", "c ;d", "50% %(here)s", "'e'", '"f"', "\\", "質問", "$HOME *"]
    code = "import json, sys, time; print(json.dumps(sys.argv[1:]), flush=True); time.sleep(600)"
    with supervised(tmp_path, [{"part": {"command": command_line([sys.executable, "-c", code, *words])}}]):
        assert json.loads(_said(tmp_path, "part")) == words


def test_a_part_waits_until_the_servers_answer(tmp_path: Path, postgres: str) -> None:
    (port,) = free_ports(1)
    settings = {"SHABERI_DATABASE_URL": postgres, "SHABERI_BROKER_URL": f"redis://127.0.0.1:{port}/0"}
    lines = [f"export {name}='{value}'\n" for name, value in settings.items()]
    (tmp_path / "environment").write_text("".join(lines), encoding="utf-8")
    command = [sys.executable, "-m", "shaberi_dagster.defs.cluster.waiting", sys.executable, "-c", "print('at work')"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as part:
        with pytest.raises(subprocess.TimeoutExpired):
            part.wait(timeout=2)
        with running_redis(tmp_path, port):
            assert part.communicate(timeout=60) == ("at work\n", None)


@pytest.mark.long
def test_a_part_that_cannot_start_is_tried_six_times_and_then_ends_the_cluster(tmp_path: Path) -> None:
    redis = {"command": command_line([sys.executable, "-c", "print('no memory')"])}
    restarted: list[str] = []
    complaint = r"^redis of the cluster ends each time it is started: no memory \(/.*/redis\.log\)$"
    with supervised(tmp_path, [{"redis": redis}]) as supervisor, pytest.raises(ShaberiError, match=complaint):
        _wait_until(lambda: restarted.extend(supervisor.restarted_parts()))

    assert restarted == 5 * ["redis"]


@pytest.mark.parametrize("program", ["supervisord", "guard"])
def test_a_cluster_whose_supervisor_is_killed_ends(tmp_path: Path, program: str) -> None:
    with supervised(tmp_path, [_parts("part")]) as supervisor:
        processes = _processes(tmp_path, "part")
        supervisord = int((tmp_path / "supervisord.pid").read_text(encoding="utf-8"))
        os.kill(supervisord if program == "supervisord" else os.getpgid(supervisord), signal.SIGKILL)

        with pytest.raises(ShaberiError, match=r"^the supervisor of the cluster has ended: "):
            _wait_until(supervisor.restarted_parts)

        _wait_until(lambda: not any(map(_lives, [supervisord, *processes])))


@pytest.mark.long
def test_kill_9_of_a_cluster_ends_its_parts_with_their_children_before_another_one_begins(tmp_path: Path) -> None:
    cluster = multiprocessing.get_context("spawn").Process(target=_start_and_be_killed, args=[tmp_path])
    cluster.start()
    cluster.join()
    assert cluster.exitcode == -signal.SIGKILL
    processes = [*_processes(tmp_path, "first"), *_processes(tmp_path, "second")]

    with alone_in(tmp_path):
        assert len(processes) == 4
        assert not any(_lives(pid) for pid in processes)


def _start_and_be_killed(folder: Path) -> None:
    with alone_in(folder), supervised(folder, [_parts("first"), _parts("second")]):
        assert _processes(folder, "first") + _processes(folder, "second")
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_port_that_another_program_has_is_refused_in_one_line(tmp_path: Path) -> None:
    settings = environment_of(tmp_path / "cluster")
    port = urlsplit(settings["SHABERI_BROKER_URL"]).port or 0
    with socket.create_server(("127.0.0.1", port)):
        complaint = run("shaberi", "cluster", "--folder", tmp_path / "cluster").complaint

    assert complaint.startswith(f"another program has port {port} of redis of the cluster in {tmp_path}")


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("redis-server") is None or not POSTGRES.is_dir(), reason="no Redis or PostgreSQL")
def test_keys_are_inherited_and_in_no_file_of_the_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHABERI_WAREHOUSE")
    keys = {"OPENAI_API_KEY": "sk-canary-1", "HF_TOKEN": "hf_canary-2", "SHABERI_UI_TOKEN": "ui-canary-333333333333"}
    for name, value in keys.items():
        monkeypatch.setenv(name, value)
    with started_cluster() as (_, folder, settings):
        files = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("supervisord.*")}
        worker = re.findall(r"spawned: 'worker-1' with pid (\d+)", files["supervisord.log"])[-1]
        inherited = Path("/proc", worker, "environ").read_text(encoding="utf-8")

    assert files.keys() == {"supervisord.conf", "supervisord.log", "supervisord.pid"}
    password = urlsplit(settings["SHABERI_DATABASE_URL"]).password or ""
    secrets = [*keys.values(), settings["AWS_SECRET_ACCESS_KEY"], password]
    assert all(secret in inherited for secret in secrets)
    assert [(name, secret) for name, text in files.items() for secret in secrets if secret in text] == []


def test_a_second_cluster_in_the_same_folder_is_refused_and_told_of_the_first(tmp_path: Path) -> None:
    with alone_in(tmp_path):
        complaint = run("shaberi", "cluster", "--folder", tmp_path).complaint

    assert (
        complaint
        == f"a cluster is at work in {tmp_path}: Ctrl-C where it was started, or `kill {os.getpid()}`, stops it"
    )


def _parts(*names: str) -> dict[str, dict[str, str]]:
    """Parts that print their process and a child of theirs."""
    code = "import os, subprocess, time; print(os.getpid(), subprocess.Popen(['sleep', '600']).pid, flush=True); time.sleep(600)"
    return {name: {"command": command_line([sys.executable, "-c", code])} for name in names}


def _processes(folder: Path, name: str) -> list[int]:
    return [int(pid) for pid in _said(folder, name).split()]


def _said(folder: Path, name: str) -> str:
    """The first line of a part."""
    log = folder / f"{name}.log"
    _wait_until(lambda: log.exists() and "\n" in log.read_text(encoding="utf-8"))
    return log.read_text(encoding="utf-8").splitlines()[0]


def _wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
