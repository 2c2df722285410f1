"""Kill -9 at random moments, the commit included; `benchmarks/crash.py` does the same at length."""

import pytest

from benchmarks.crash import crash

pytestmark = pytest.mark.integration


def test_kills_at_any_moment_lose_nothing_double_nothing_and_repeat_only_what_was_in_flight() -> None:
    runs = crash(kills=8, questions=120, latency=0.05, seed=0, say=print)
    assert sum(len(run.kills) for run in runs) == 8
    assert [text for run in runs for text in run.violations] == []
