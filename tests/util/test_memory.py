"""Commands set the allocators of their libraries, and load little."""

import os
import subprocess
import sys

import pytest

from shaberi_dagster.util.memory import keep_little


def test_allocators_are_set_unless_the_user_has(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"_RJEM_MALLOC_CONF": "narenas:7"}
    monkeypatch.setattr(os, "environ", variables)
    keep_little()
    assert (variables["_RJEM_MALLOC_CONF"], variables["MALLOC_ARENA_MAX"]) == ("narenas:7", "2")


@pytest.mark.long
def test_runs_load_no_scipy_and_all_of_the_graph_no_statistics_of_it() -> None:
    code = """
import sys, shaberi_dagster.defs.jobs
assert "scipy" not in sys.modules
import shaberi_dagster.definitions
assert "scipy.stats" not in sys.modules
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
