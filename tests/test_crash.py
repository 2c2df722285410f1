"""Kill -9 at random moments, the commit included; in full size as `perf/crash.py` does."""

import pytest

from perf.crash import crash
from tests.sizes import size

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.acceptance]

_KILLS, _QUESTIONS = size(4, 200), size(120, 500)


def test_kills_at_any_moment_lose_nothing_double_nothing_and_repeat_only_what_was_in_flight() -> None:
    runs = crash(kills=_KILLS, questions=_QUESTIONS, latency=size(50, 100) / 1000, seed=0, say=print)
    assert sum(len(run.kills) for run in runs) == _KILLS
    assert [text for run in runs for text in run.violations] == []
