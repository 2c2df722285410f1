"""Progress as counters and sentences; the display of a terminal is in `cli/test_live.py`."""

import time
from collections import Counter
from typing import Any

import pytest

from shaberi_dagster.util.progress import LogReporter, Overall, StageProgress, describe, duration, time_left

pytestmark = pytest.mark.unit


def _line(stage: str = "answers", **counters: Any) -> StageProgress:
    return StageProgress(stage, "elyza", **{"total": 10, "started": time.monotonic() - 10, **counters})


def _overall(*lines: StageProgress, expected: int = 0) -> str:
    overall = Overall()
    overall.expected = expected
    for line in lines:
        overall.add(line)
        overall.add(line)
    return str(overall)


def test_all_lines_together_have_one_sentence() -> None:
    answers = _line(done=10, calls=10, cost_usd=0.25, failed=2, failures=Counter(transient=1, refusal=1))
    judgements = _line("judgements", done=5, calls=5, cost_usd=0.125, failed=1, failures=Counter(transient=1))

    assert _overall(answers, judgements, expected=30) == (
        "all 15/30, 1.5 calls/s, 3 failed (2 transient, 1 refusal), $0.3750 so far, 0:10 left"
    )


def test_calls_of_unknown_price_are_not_free() -> None:
    assert "cost unknown" in _overall(_line(done=2, calls=2, unpriced=2))
    assert "$0.5000 and 2 calls of unknown price so far" in _overall(_line(done=3, calls=3, unpriced=2, cost_usd=0.5))


def test_what_was_there_already_says_nothing_of_the_time_that_is_left() -> None:
    assert _overall(_line(done=5, reused=5), expected=20) == "all 5/20, 0 failed"
    assert _overall(_line(done=6, reused=5), expected=20).endswith("2:20 left")


@pytest.mark.parametrize(("done", "elapsed"), [(1, 1.0), (8, 2.0), (32, 2.0), (64, 2.0), (128, 4.0), (500, 16.0)])
def test_the_time_left_is_told_by_the_first_replies_of_many_at_a_time(done: int, elapsed: float) -> None:
    """64 calls of 2 seconds at a time make 640 in 20 seconds; whichever came first."""
    left = time_left([_line(done=done, total=640, limit=64)], 640, elapsed)
    assert left == pytest.approx(20 - elapsed, rel=1)


def test_more_lines_than_expected_are_counted_as_well() -> None:
    assert _overall(_line(), _line(), expected=15).startswith("all 0/20")


def test_a_log_has_lines_of_all_together_only_where_they_are_expected() -> None:
    said: list[str] = []
    reporter, line = LogReporter(said.append), _line(done=10)
    reporter.changed(line)
    assert said == ["answers elyza 10/10, 0 failed"]

    reporter.expect(10)
    reporter.changed(line)
    assert said[1:] == ["answers elyza 10/10, 0 failed", "all 10/10, 0 failed, in 0:10"]


def test_a_log_says_how_far_all_is_every_now_and_then() -> None:
    said: list[str] = []
    reporter, line = LogReporter(said.append, every=0.05), _line(done=1)
    reporter.expect(20)
    reporter.changed(line)
    reporter.changed(line)
    assert said == []
    time.sleep(0.06)
    reporter.changed(line)
    assert [one.partition(",")[0] for one in said] == ["answers elyza 1/10", "all 1/20"]


def test_failures_are_told_by_class() -> None:
    line = _line(done=5, failed=3, failures=Counter(transient=2, no_score=1))
    assert describe(line) == "answers elyza 5/10, 3 failed (2 transient, 1 no_score)"


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (61, "1:01"), (3_907, "1:05:07")])
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text
