"""A lake to look at, and the pages over it on a port of this machine."""

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.util.guard import TOKEN_VARIABLE, Access
from shaberi_dagster.viewer.web.server import Pages, build_app, server_config
from tests.exchange.trees.trees import LegacyTree, rows_of
from tests.sizes import size

LONG = size(500_000, 5_000_000)
HOSTILE = [
    "<script>alert(1)</script><img src=x onerror=alert(2)><svg onload=alert(3)></svg>",
    "[click](javascript:alert(4)) ![pixel](http://elsewhere.invalid/p.png) <http://elsewhere.invalid/>\n\n[r]: javascript:alert(5)\n\n[r]",
    "</template></textarea></pre></title><style>body{background:url(http://elsewhere.invalid/s)}</style><iframe src=//elsewhere.invalid>",
    "\u202egnp.txt\u2066 \x1b[31m \u200b" + "ア" * LONG,
    '{{ 7 * 7 }} {% raw %} ${7*7} \']|attr(\'x\') " onmouseover="alert(6)" autofocus onfocus=alert(7) x="',
]
"""What must stand on the pages as text."""


@dataclass(frozen=True)
class Reply:
    """What the server said."""

    status: int
    headers: http.client.HTTPMessage
    text: str


@dataclass(frozen=True)
class Site:
    """The pages of a lake."""

    port: int
    warehouse: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, address: str, method: str = "GET", **headers: str) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, address, headers=headers)
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read().decode())
        finally:
            connection.close()


@contextmanager
def served(warehouse: Path, token: str = "", host: str = "127.0.0.1", seconds: float = 60.0) -> Iterator[Site]:
    """The pages of a lake, served by a thread."""
    listening = socket.create_server(("127.0.0.1", 0))
    access = Access.from_environment(host, listening.getsockname()[1], {TOKEN_VARIABLE: token})
    app = build_app(Pages(warehouse, seconds=seconds), access)
    server = uvicorn.Server(server_config(app))
    thread = threading.Thread(target=server.run, args=[[listening]])
    thread.start()
    try:
        yield Site(listening.getsockname()[1], warehouse)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def make_lake(workspace: Workspace, folder: Path) -> None:
    """Three models judged by two judges on tengu, the best one only shown so on some questions; one writes hostile texts."""
    tree = LegacyTree(folder)
    good = [f"## よい回答\n\n- 一つ\n- **二つ** {number}" for number in range(5)]
    plain = [f"ふつうの回答です。{number}" for number in range(5)]
    scores = {"best": ([9, 9, 8, 9, 9], [8, 9, 9, 9, 8]), "second": ([9, 8, 8, 9, 2], [8, 8, 8, 9, 5]),
              "hostile": ([1, 2, 3, None, 5], [2, 2, 12, 2, 1])}  # fmt: skip
    for model, answers in {"best": good, "second": plain, "hostile": HOSTILE}.items():
        for judge, own in zip(("judge-a", "judge-b"), scores[model], strict=True):
            said = HOSTILE[0] if model == "hostile" else f"{judge} says of {model}"
            tree.judgements("tengu", rows_of("tengu", answers, own, judge_output=said), judge, model=model)
    import_trees(ImportRequest({"tree": tree.root}), workspace)
