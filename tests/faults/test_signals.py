"""A signal at the creation of each file of the very first command, and the same command after it."""

import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from perf.crash import Endpoint
from perf.same_tables import tables_of
from tests import commands
from tests.faults.equality import Home, violations
from tests.sizes import FULL

pytestmark = [
    pytest.mark.integration,
    pytest.mark.long,
    pytest.mark.acceptance,
    pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler"),
]

_ENDS = {signal.SIGKILL: -signal.SIGKILL, signal.SIGINT: 130, signal.SIGTERM: 130}
"""Signals, and the exit code of a command that gets them."""
_SAMPLE = 4
"""Moments of each signal, in small."""
_PARTS = 20
"""Tests of each signal in full size, so that several processes share them."""
_ONCE = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32}|(?<=[.-])\w{8}(?=[./])")
"""What is new in each name of a file: UUIDs and the names of temporary files."""


@dataclass(frozen=True)
class Undisturbed:
    """A first command that no signal ended.

    Attributes:
        home: Where it has run.
        tables: What its tables say.
        created: The paths that it created, in their order.
    """

    home: Home
    tables: dict[str, pl.DataFrame]
    created: list[str]

    def moments(self, number: signal.Signals, part: int) -> list[int]:
        """Numbers of creations: all of a part, or a few of different kinds, others for each signal."""
        if FULL:
            return list(range(1 + part, len(self.created) + 1, _PARTS))
        kinds: dict[str, int] = {}
        for moment, path in enumerate(self.created, start=1):
            kinds.setdefault(_ONCE.sub("*", path), moment)
        step = len(kinds) // _SAMPLE
        return list(kinds.values())[list(_ENDS).index(number) * step // len(_ENDS) :: step][:_SAMPLE]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    """Commands here are forks of a process that has `creations.c` preloaded."""
    folder = tmp_path_factory.mktemp("first")
    source, library = Path(__file__).with_name("creations.c"), folder / "creations.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, source], check=True)
    with pytest.MonkeyPatch.context() as patch, Endpoint(latency=0.02) as endpoint:
        with pytest.MonkeyPatch.context() as preloaded:
            preloaded.setenv("LD_PRELOAD", str(library))
            server = commands._Server()
        patch.setattr(commands, "_server", lambda: server)
        home = Home(folder / "undisturbed", endpoint)
        home.run(_fault(home, signal.SIGKILL, at=0)).succeeded()
        yield Undisturbed(home, tables_of(home.lake), _created(home))


@pytest.mark.parametrize("part", range(_PARTS if FULL else 1))
@pytest.mark.parametrize("number", _ENDS, ids=lambda number: number.name)
def test_a_signal_at_any_file_of_the_first_command_leaves_a_home_that_works(
    undisturbed: Undisturbed, tmp_path: Path, number: signal.Signals, part: int
) -> None:
    moments = undisturbed.moments(number, part)
    assert moments
    found = []
    for moment in moments:
        home = Home(tmp_path / str(moment), undisturbed.home.endpoint)
        fault = _fault(home, number, at=moment)
        found += [
            f"{number.name} at creation {moment} ({_created(home)[moment - 1 : moment]}): {text}"
            for text in violations(home, fault, _ENDS[number], undisturbed.home, undisturbed.tables)
            if len(_created(home)) >= moment  # a command may make a file or two less than another one
        ]
        shutil.rmtree(home.folder)
    assert found == []


def _fault(home: Home, number: signal.Signals, at: int) -> dict[str, str]:
    return {
        "FAULT_FOLDER": str(home.folder),
        "FAULT_LOG": f"{home.folder}.log",
        "FAULT_AT": str(at),
        "FAULT_SIGNAL": str(int(number)),
    }


def _created(home: Home) -> list[str]:
    return Path(f"{home.folder}.log").read_text(encoding="utf-8").splitlines()
