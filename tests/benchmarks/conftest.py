"""A hub on loopback that answers what `huggingface_hub` asks when it fetches a snapshot."""

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import pytest

_REVISION = re.compile(r"/api/datasets/(?P<repo>[^/]+/[^/]+)/revision/(?P<revision>.+)")
_TREE = re.compile(r"/api/datasets/(?P<repo>[^/]+/[^/]+)/tree/(?P<revision>[^/]+)")
_FILE = re.compile(r"/datasets/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")


@dataclass
class FakeHub:
    """Datasets by name; each is a list of commits, the last being `main`."""

    commits: dict[str, dict[str, dict[str, bytes]]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    requests: list[str] = field(default_factory=list)
    endpoint: str = ""

    def commit(self, repository: str, files: dict[str, bytes]) -> str:
        """Add a commit; its sha."""
        history = self.commits.setdefault(repository, {})
        sha = hashlib.sha1(repr((repository, len(history), files)).encode()).hexdigest()
        history[sha] = files
        return sha

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body for a request."""
        matches = ((pattern, pattern.fullmatch(path)) for pattern in (_REVISION, _TREE, _FILE))
        pattern, match = next(each for each in matches if each[1])
        repository = match["repo"]
        if repository not in self.commits:
            return 401, {"X-Error-Code": "RepoNotFound"}, b""
        history = self.commits[repository]
        sha = list(history)[-1] if match["revision"] == "main" else match["revision"]
        if sha not in history:
            return 404, {"X-Error-Code": "RevisionNotFound"}, b""
        if pattern is _REVISION:
            return 200, {}, json.dumps({"id": repository, "sha": sha, "siblings": [], "tags": []}).encode()
        if pattern is _TREE:
            return 200, {}, json.dumps([_entry(name, body) for name, body in history[sha].items()]).encode()
        if repository in self.gated:
            return 403, {"X-Error-Code": "GatedRepo"}, b""
        body = history[sha][match["path"]]
        return 200, {"ETag": f'"{hashlib.sha1(body).hexdigest()}"', "X-Repo-Commit": sha}, body


def _entry(name: str, body: bytes) -> dict[str, object]:
    return {"type": "file", "oid": hashlib.sha1(body).hexdigest(), "size": len(body), "path": name}


@contextmanager
def serve(hub: FakeHub) -> Iterator[FakeHub]:
    """The hub at an address on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            hub.requests.append(f"{self.command} {path}")
            status, headers, body = hub.answer(path)
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *args: object) -> None:
            """Nothing: a test's output is its own."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with serve(FakeHub()) as running:
        yield running
