"""No secret is in any byte that a cluster with a killed worker writes or prints, whatever the endpoint does with keys."""

import base64
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.commands import Finished, run, started
from tests.e2e.test_keys import CANARY, MODEL, WAYS, each_question_in_its_way, everything_written, refuse, unpacked
from tests.mock_endpoint import MockEndpoint, running_mock
from tests.postgres import POSTGRES
from tests.running_cluster import started_cluster

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("redis-server") is None or not POSTGRES.is_dir(), reason="no Redis or PostgreSQL"),
]
_KEYS = {
    "SHABERI_API_KEY": CANARY,
    "JUDGE_KEY": "sk-judge/canary+9876543210=",
    "OPENAI_API_KEY": "sk-openai/canary+aaaaaaaaaaaa",
    "GEMINI_API_KEY": "AIza-canary-bbbbbbbbbbbbbbbbbb",
    "HF_TOKEN": "hf_canarycccccccccccccccccccc",
    "SHABERI_UI_TOKEN": "ui-canary-dddddddddddddddddddd",
}
_KEY_HOSTS = "SHABERI_API_KEY=127.0.0.1;JUDGE_KEY=127.0.0.1"


def test_no_secret_is_in_any_byte_that_a_cluster_with_a_killed_worker_writes_or_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHABERI_WAREHOUSE")
    for name, value in _KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SHABERI_KEY_HOSTS", _KEY_HOSTS)
    script = each_question_in_its_way()
    with (
        running_mock(key=CANARY, script=lambda body, _: script(body), latency=0.2) as mock,
        running_mock(key=_KEYS["JUDGE_KEY"]) as judge,
        started_cluster() as (cluster, folder, settings),
    ):
        outputs = [_evaluated(mock, judge, settings, folder)]
        mock.options.script = lambda body, _: refuse(body)
        outputs.append(run("run-evals", *_asked(mock, judge, "refused"), "--submit", "--debug", environment=settings))
        made: list[list[str | Path]] = [
            ["export", "--output", tmp_path / "results"],
            ["report", "--html", tmp_path / "report.html"],
            ["sql", "from calls"],
            ["sql", "from answers", "--format", "json"],
            ["doctor"],
        ]
        outputs += [run("shaberi", *arguments, environment=settings) for arguments in made]
        assert [finished.code for finished in outputs] == [3, 3, 0, 0, 0, 0, 0], outputs
        url = settings["SHABERI_DATABASE_URL"]
        dump = subprocess.run([POSTGRES / "pg_dump", "--inserts", url], capture_output=True, check=True).stdout
        assert "worker-1 has ended and is started again" in cluster.err
        outputs.append(Finished(0, "", cluster.err))
        written = {"dump": dump, "dump unpacked": b"\n".join(_unpacked_cells(dump))}
        written |= {f"cluster {name}": content for name, content in everything_written(folder, outputs)}
        written |= {f"made {name}": content for name, content in everything_written(tmp_path, [])}
    for kind in ("dump", ".parquet", "report.html", "postgres", "output 0"):
        assert any(MODEL.encode() in content for where, content in written.items() if kind in where), kind
    assert b"judgements" in written["dump unpacked"]
    assert any(_is_in("shaberi_dagster.definitions", text) for where, text in written.items() if "redis" in where)
    del written["cluster environment as it is"]  # where the secrets of the cluster have to be
    (password,) = re.findall(r":([^:@/]+)@", url)
    secrets = [*_KEYS.values(), password, settings["AWS_SECRET_ACCESS_KEY"]]
    found = [(where, secrets.index(one)) for where, text in written.items() for one in secrets if _is_in(one, text)]
    assert found == []


def _asked(mock: MockEndpoint, judge: MockEndpoint, tag: str) -> list[str]:
    options = {
        "--model": MODEL,
        "--base-url": mock.base_url,
        "--judge-model": "judge",
        "--judge-base-url": judge.base_url,
        "--judge-api-key-variable": "JUDGE_KEY",
        "--benchmark": "rakuda",
        "--limit": str(len(WAYS)),
        "--concurrency": "1",
        "--tag": tag,
    }
    return [word for pair in options.items() for word in pair]


def _evaluated(mock: MockEndpoint, judge: MockEndpoint, settings: dict[str, str], folder: Path) -> Finished:
    """A run whose worker is killed when it has its first answer."""
    with started("run-evals", *_asked(mock, judge, "killed"), "--submit", environment=settings) as command:
        command.wait_until(lambda: mock.stats()["answered"])
        os.killpg(_worker(folder), signal.SIGKILL)
        finished = command.finished()
    assert finished.code == 3, finished.err
    return finished


def _worker(folder: Path) -> int:
    """The process, and the group, of the worker of a cluster."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            if b"worker-1@" in (path / "cmdline").read_bytes() and (path / "cwd").resolve() == folder:
                return os.getpgid(int(path.name))
    raise AssertionError("there is no worker")


def _unpacked_cells(dump: bytes) -> Iterator[bytes]:
    """What Dagster keeps compressed."""
    return (unpacked(bytes.fromhex(cell.decode())) for cell in re.findall(rb"'\\x([0-9a-f]+)'", dump))


def _is_in(secret: str, text: bytes) -> bool:
    """Whether a secret stands somewhere: as it is, in a URL, or in Base64, of which three letters are three bytes."""
    forms = {secret, quote(secret, safe="")}
    for shift in range(3):
        encoded = base64.b64encode(b" " * shift + secret.encode()).decode()
        forms.add(encoded[4 if shift else 0 : -4])
    return any(form.encode() in text for form in forms)
