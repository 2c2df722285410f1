"""An API key is sent to its own endpoint and to nobody else, and is written nowhere, whatever the endpoint does with it."""

import shutil
import sqlite3
import ssl
import subprocess
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from aiohttp import web

from tests.commands import Finished, lake_of, run, run_without_dagster
from tests.mock_endpoint import MockEndpoint, Scripted, content_for, running_mock

pytestmark = pytest.mark.e2e

CANARY = "sk-canary-0123456789abcdefghij"
_JUDGE_CANARY = "sk-judge-canary-9876543210"
MODEL = "model-with-a-name-to-find"
_SOON = {"Retry-After": "0.01"}


def _accept(body: dict[str, Any]) -> Scripted:
    return content_for(body)


def refuse(_: dict[str, Any]) -> Scripted:
    return web.json_response({"error": {"message": f"Incorrect API key provided: {CANARY}"}}, status=401)


def _fail(_: dict[str, Any]) -> Scripted:
    text = f"Traceback\nheaders = {{'Authorization': 'Bearer {CANARY}'}}"
    return web.Response(text=text, status=500, headers=_SOON)


def _redirect(_: dict[str, Any]) -> Scripted:
    return web.Response(status=307, headers={"Location": f"http://user:{CANARY}@127.0.0.1:9/v1/chat/completions"})


def _deny(_: dict[str, Any]) -> Scripted:
    return web.json_response({"error": {"message": f"key {CANARY} has no access to this"}}, status=400)


def _answer(_: dict[str, Any]) -> Scripted:
    return f"あなたの鍵は {CANARY} です。"


WAYS = (_accept, _fail, _redirect, _deny, _answer)


def each_question_in_its_way() -> Callable[[dict[str, Any]], Scripted]:
    ways: dict[str, Callable[[dict[str, Any]], Scripted]] = {}

    def script(body: dict[str, Any]) -> Scripted:
        return ways.setdefault(body["messages"][-1]["content"], WAYS[len(ways) % len(WAYS)])(body)

    return script


@pytest.mark.parametrize(
    ("script", "n_asked", "said"),
    [(refuse, 1, "refuses us"), (each_question_in_its_way(), len(WAYS), "")],
    ids=["refused", "accepted, denied, redirected, in a traceback, in an answer"],
)
def test_no_key_is_in_any_byte_that_is_written_or_printed(
    script: Callable[[dict[str, Any]], Scripted], n_asked: int, said: str, tmp_path: Path
) -> None:
    keys = {"SHABERI_API_KEY": CANARY, "JUDGE_KEY": _JUDGE_CANARY}
    with (
        running_mock(key=CANARY, script=lambda body, _: script(body)) as mock,
        running_mock(key=_JUDGE_CANARY) as judge,
    ):
        arguments = ["--model", MODEL, "--base-url", mock.base_url, "--judge-model", "judge"]
        arguments += ["--judge-base-url", judge.base_url, "--judge-api-key-variable", "JUDGE_KEY"]
        arguments += ["--benchmark", "rakuda", "--limit", str(len(WAYS))]
        outputs = [
            run("run-evals", *arguments, *debug, environment=lake_of(tmp_path) | keys) for debug in ([], ["--debug"])
        ]
    assert [finished.code for finished in outputs] == [3, 3], outputs[0].err
    assert all(said in finished.err for finished in outputs)
    assert len({body["messages"][-1]["content"] for body in mock.bodies}) >= n_asked
    written = dict(everything_written(tmp_path, outputs))
    _assert_searchable(written, mock)
    for canary in (CANARY, _JUDGE_CANARY):
        assert [where for where, content in written.items() if canary.encode() in content] == []
    assert CANARY not in str([*judge.bodies, *judge.headers]), "a key goes to its own endpoint only"


def _assert_searchable(written: dict[str, bytes], mock: MockEndpoint) -> None:
    """What is known to be there is found, so that what is not found is not there."""
    assert any(MODEL.encode() in content for where, content in written.items() if where.endswith(".parquet"))
    assert any(mock.base_url.encode() in content for where, content in written.items() if where.endswith(".parquet"))
    assert any(MODEL.encode() in content for where, content in written.items() if ".db " in where)


def everything_written(folder: Path, outputs: list[Finished]) -> Iterator[tuple[str, bytes]]:
    """All content by place: files as they are, Parquet and databases unpacked as well, and what was printed."""
    for number, finished in enumerate(outputs):
        yield f"output {number}", (finished.out + finished.err).encode()
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        name = str(path.relative_to(folder))
        yield f"{name} as it is", path.read_bytes()
        if path.suffix == ".parquet":
            yield name, repr(pl.read_parquet(path, hive_partitioning=False).to_dicts()).encode()
        if path.read_bytes().startswith(b"SQLite format 3"):
            for table, cells in _tables(path):
                yield f"{name} {table}", cells


def _tables(path: Path) -> Iterator[tuple[str, bytes]]:
    with closing(sqlite3.connect(path)) as database:
        for (table,) in database.execute("select name from sqlite_master where type = 'table'").fetchall():
            cells = [cell for row in database.execute(f'select * from "{table}"') for cell in row]
            yield table, b"\n".join(unpacked(cell) for cell in cells)


def unpacked(cell: object) -> bytes:
    """A cell's content; Dagster compresses snapshots."""
    if isinstance(cell, bytes):
        with suppress(zlib.error):
            return zlib.decompress(cell)
        return cell
    return str(cell).encode()


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate with its key that 127.0.0.1 gave itself."""
    if not (openssl := shutil.which("openssl")):
        pytest.skip("needs the command openssl")
    path = tmp_path / "certificate.pem"
    options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 2 -subj /CN=127.0.0.1"
    extension = ["-addext", "subjectAltName=IP:127.0.0.1"]
    command = [openssl, *options.split(), *extension, "-keyout", path, "-out", tmp_path / "own.pem"]
    subprocess.run(command, check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + (tmp_path / "own.pem").read_bytes())
    return path


@pytest.mark.long
def test_a_server_with_a_certificate_that_nobody_vouches_for_gets_no_key(certificate: Path, tmp_path: Path) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    environment = lake_of(tmp_path) | {"SHABERI_API_KEY": CANARY}
    with running_mock(tls=tls) as mock:
        arguments = ["--model", MODEL, "--base-url", mock.base_url, "--judge-model", "judge"]
        arguments += ["--judge-base-url", mock.base_url, "--benchmark", "rakuda", "--limit", "1"]
        refused = run("run-evals", *arguments, environment=environment)
        assert not mock.headers
        vouched_for = environment | {"SSL_CERT_FILE": str(tmp_path / "own.pem")}
        trusted = run_without_dagster("run-evals", *arguments, environment=vouched_for)
    assert refused.code == 2
    assert f"endpoint {mock.base_url} cannot be reached" in refused.err.splitlines()[-1]
    assert "self-signed certificate" in refused.err.splitlines()[-1]
    trusted.succeeded()
    assert mock.headers[0]["Authorization"] == f"Bearer {CANARY}"


def _request_file(folder: Path, **values: Any) -> Path:
    path = folder / "request.yaml"
    path.write_text(yaml.safe_dump({"benchmarks": ["elyza"], "limit": 1, "judge_models": ["judge"], **values}))
    return path


@pytest.mark.long
def test_keys_go_to_the_addresses_that_the_command_line_or_its_request_file_names(tmp_path: Path) -> None:
    keys = {"SHABERI_API_KEY": CANARY, "JUDGE_KEY": _JUDGE_CANARY}
    with running_mock(key=CANARY) as mock, running_mock(key=_JUDGE_CANARY) as judge:
        places = {"base_url": mock.base_url, "judge_base_url": judge.base_url, "judge_api_key_variable": "JUDGE_KEY"}
        options = [word for name, value in places.items() for word in (f"--{name.replace('_', '-')}", value)]
        commands = {
            "run-evals": ["--config", _request_file(tmp_path, **places), "--model", "from-a-file"],
            "quick-eval": ["--model", "quick", "--datasets", "simpleqa", "--sample", "1", "--ensemble", "2"],
            "shaberi": ["decide", "a", "b", "--judge", "judge", "--benchmark", "elyza", "--limit", "2"],
        }
        commands["quick-eval"] += ["--strategy", "plurality", "--judge-model", "judge", *options]
        commands["shaberi"] += options
        for command, arguments in commands.items():
            finished = run(command, *arguments, environment=lake_of(tmp_path / command) | keys)
            assert finished.code in {0, 3, 4}, finished.err  # the mock is no judge of short answers
    sent = {body["model"] for body in mock.bodies}
    assert sent == {"from-a-file", "quick", "a", "b"}
    assert {headers["Authorization"] for headers in mock.headers} == {f"Bearer {CANARY}"}
    assert {headers["Authorization"] for headers in judge.headers} == {f"Bearer {_JUDGE_CANARY}"}
