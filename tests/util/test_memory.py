"""Free memory goes back to the system."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from shaberi_dagster.cli import start
from shaberi_dagster.util.memory import give_back

_MEBIBYTE = 1 << 20
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is counted by Linux")


def test_what_is_free_goes_back_to_the_system() -> None:
    blocks = [bytes(50_000) for _ in range(4_000)]  # too small for mappings of their own, which go back by themselves
    last = bytes(50_000)  # what lies before it stays, since it cannot be given back at the end
    before = _resident()
    del blocks
    give_back()
    assert before - _resident() > 150 * _MEBIBYTE
    assert len(last) == 50_000


def test_what_arrow_has_freed_goes_back_to_the_system() -> None:
    buffers = [pa.array(range(20_000)) for _ in range(500)]
    before = _resident()
    del buffers
    give_back()
    assert pa.total_allocated_bytes() < 10 * _MEBIBYTE
    assert before - _resident() > 60 * _MEBIBYTE


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
