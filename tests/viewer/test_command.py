"""`shaberi view` as a user starts it."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.viewer.web.server import serve
from tests.viewer.site import make_lake

pytestmark = [pytest.mark.e2e, pytest.mark.integration]


def test_it_says_where_it_is_serves_and_ends_with_ctrl_c(workspace: Workspace, tmp_path: Path) -> None:
    make_lake(workspace, tmp_path / "tree")
    command = [Path(sys.executable).with_name("shaberi"), "view", "/runs?text=best", "--no-open", "--port", "0"]
    with subprocess.Popen(command, env=os.environ, stderr=subprocess.PIPE, text=True) as server:
        try:
            said = server.stderr.readline()
            (url,) = re.findall(r"^(http://127\.0\.0\.1:\d+/runs\?text=best)  \(Ctrl-C stops\)$", said)
            with urllib.request.urlopen(url, timeout=60) as page:
                text = page.read().decode()
            assert ("<h1>Runs</h1>" in text, ">best</a>" in text, ">second</a>" in text) == (True, True, False)
            server.send_signal(signal.SIGINT)
            rest = server.stderr.read()
            assert (server.wait(30), rest) == (0, "")
        finally:
            server.kill()


def test_without_a_lake_or_such_a_page_or_on_a_port_that_is_taken_it_says_so(
    workspace: Workspace, tmp_path: Path
) -> None:
    warehouse = workspace.settings.warehouse
    with pytest.raises(ConfigurationError, match="no lake in"):
        serve(warehouse, "127.0.0.1", 0, open_browser=False)
    make_lake(workspace, tmp_path / "tree")
    with pytest.raises(ConfigurationError, match=r"PAGE must be one of /, /questions, .*, not '/nothing'"):
        serve(warehouse, "127.0.0.1", 0, "/nothing?x=1", open_browser=False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"port {port} of 127.0.0.1 is in use: .*--port"):
            serve(warehouse, "127.0.0.1", port, open_browser=False)
