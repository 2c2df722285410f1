"""A real `shaberi ui` of an empty lake, and what a script asks it with the token."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shaberi_dagster.util.ports import free_ports

_PATIENCE = 300.0
_LOADED = """query { locationStatusesOrError { ... on WorkspaceLocationStatusEntries { entries { loadStatus } } } }"""


@dataclass(frozen=True)
class UiServer:
    """The running server.

    Attributes:
        environment: With which it was started, and commands work on its lake.
        port: Where it listens.
        token: Of its scripts.
        log: What it says.
        process: Itself.
    """

    environment: dict[str, str]
    port: int
    token: str
    log: Path
    process: "subprocess.Popen[bytes]"

    @property
    def url(self) -> str:
        """Its address on this machine."""
        return f"http://127.0.0.1:{self.port}"

    def ask(self, query: str) -> Any:
        """The first field that a GraphQL query gives."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(f"{self.url}/graphql", json.dumps({"query": query}).encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as response:
            return next(iter(json.load(response)["data"].values()))

    def said(self) -> str:
        """All that it has said."""
        return self.log.read_text(errors="replace")

    def wait_for(self, condition: Callable[[], Any]) -> Any:
        """What the condition gives as soon as that is something."""
        end = time.monotonic() + _PATIENCE
        while not (found := condition()):
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < end, self.said()
            time.sleep(0.5)
        return found

    def is_loaded(self) -> bool:
        """Whether it has its code location."""
        try:
            entries = self.ask(_LOADED).get("entries")
        except OSError:
            return False
        return bool(entries) and all(entry["loadStatus"] == "LOADED" for entry in entries)


@contextmanager
def running_ui(place: Path, *options: str, token: str | None = None, **more: str) -> Iterator[UiServer]:
    """A server that has its code location; all its processes are killed with the context.

    Args:
        place: Where its lake is.
        options: More of the command.
        token: `SHABERI_UI_TOKEN`; one that nobody else has by default.
        more: More of its environment.
    """
    token = token or secrets.token_urlsafe()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SHABERI_")}
    environment |= {
        "SHABERI_WAREHOUSE": str(place / "warehouse"),
        "DAGSTER_HOME": str(place / "dagster"),
        "SHABERI_RUN_SPECS": str(place / "in"),
        "SHABERI_UI_TOKEN": token,
        **more,
    }
    (port,) = free_ports(1)
    command = [Path(sys.executable).with_name("shaberi"), "ui", "--port", str(port), *options]
    log = place / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
    try:
        server = UiServer(environment, port, token, log, process)
        server.wait_for(server.is_loaded)
        yield server
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
