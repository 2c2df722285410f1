"""Commands set the allocators of their libraries."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from shaberi_dagster.cli import start

_MEBIBYTE = 1 << 20
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is counted by Linux")


@pytest.mark.parametrize("chosen", [None, "narenas:7"])
def test_commands_set_allocators_before_libraries_are_loaded_unless_the_user_has(
    monkeypatch: pytest.MonkeyPatch, chosen: str | None
) -> None:
    name = "_RJEM_MALLOC_CONF"
    monkeypatch.setenv(name, chosen or "")
    if chosen is None:
        monkeypatch.delenv(name)
    seen: list[str | None] = []

    def run_command(_: object) -> int:
        seen.append(os.environ.get(name))
        return 0

    command = SimpleNamespace(app=None, run_command=run_command, end_at_once=lambda _: None)
    loaded: Callable[[str], SimpleNamespace] = lambda _: command  # noqa: E731
    monkeypatch.setattr(start, "import_module", loaded)
    monkeypatch.setattr(start, "take_interrupts", lambda _: None)
    start.run_evals()
    assert seen == [chosen or "narenas:2,dirty_decay_ms:20,muzzy_decay_ms:0"]


@pytest.mark.long
def test_runs_load_no_scipy_and_all_of_the_graph_no_statistics_of_it() -> None:
    code = """
import sys, shaberi_dagster.defs.jobs
assert "scipy" not in sys.modules
import shaberi_dagster.definitions
assert "scipy.stats" not in sys.modules
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def _resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
