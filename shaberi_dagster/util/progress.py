"""Progress counters for long-running work, and the reporters that display them."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol


@dataclass
class StageProgress:
    """Counters of one stage of one benchmark of one run, updated in place by the stage.

    Attributes:
        stage: `answers` or `judgements`, …
        benchmark: The benchmark's name.
        label: What distinguishes lines of the same stage and benchmark (the judge, the number of a run), or "".
        total: Items planned.
        done: Items finished, reused and failed ones included.
        reused: Items answered from what was already paid for.
        failed: Items that ended as failure rows.
        failures: Those of them that have a class, by class.
        prompt_tokens: Tokens sent by the calls of this line (reused calls not counted).
        completion_tokens: Tokens received, likewise.
        calls: Finished calls.
        cost_usd: What they cost in US dollars, where a price is known.
        unpriced: Calls with a reply whose price is unknown.
        limit: The endpoint's current concurrency limit.
        started: `time.monotonic()` at the start.
    """

    stage: str
    benchmark: str
    label: str = ""
    total: int = 0
    done: int = 0
    reused: int = 0
    failed: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    limit: int = 0
    started: float = field(default_factory=time.monotonic)


class Overall:
    """The sum of all progress lines of a command.

    Attributes:
        lines: In the order in which they came.
        expected: How many items lines will have together, as far as that is known; 0 where there is nothing to sum up.
    """

    def __init__(self) -> None:
        self.lines: list[StageProgress] = []
        self.expected = 0
        self._known: set[int] = set()

    def add(self, line: StageProgress) -> bool:
        """Take the line in unless it is there; whether it is new."""
        is_new = id(line) not in self._known
        if is_new:
            self._known.add(id(line))
            self.lines.append(line)
        return is_new

    @property
    def is_done(self) -> bool:
        """True if all that is expected is there."""
        return sum(line.done for line in self.lines) >= self._total

    @property
    def _total(self) -> int:
        return max(self.expected, sum(line.total for line in self.lines))

    def __str__(self) -> str:
        """For example `all 120/400, 12.3 calls/s, 3 failed (2 transient, 1 refusal), $0.0123 so far, 0:42 left`."""
        lines = list(self.lines)
        done, calls, failed, unpriced = (
            sum(getattr(line, name) for line in lines) for name in ("done", "calls", "failed", "unpriced")
        )
        elapsed = max(time.monotonic() - min((line.started for line in lines), default=0.0), 1e-9)
        parts = [f"all {done}/{self._total}"]
        if calls:
            parts.append(speed(calls, elapsed))
        parts.append(failures_in_words(failed, sum((line.failures for line in lines), Counter())))
        if calls:
            cost = sum(line.cost_usd for line in lines)
            unknown = f" and {unpriced} calls of unknown price" if unpriced else ""
            parts.append("cost unknown" if unpriced and not cost else f"${cost:.4f}{unknown} so far")
        left = time_left(lines, self._total, elapsed)
        if left is not None:
            parts.append(f"{duration(left)} left" if left else f"in {duration(elapsed)}")
        return ", ".join(parts)


def time_left(lines: Sequence[StageProgress], total: int, elapsed: float) -> float | None:
    """Estimate the seconds until all items are done: 0.0 when they are, None as long as nothing is known.

    Calls in flight count as half done. Without them the first reply of sixty-four at a time would announce a run that
    takes sixty-four times too long.

    Args:
        lines: Progress of what is under way.
        total: Items that there will be.
        elapsed: Seconds that the lines took so far.
    """
    done = sum(line.done for line in lines)
    finished = done - sum(line.reused for line in lines)
    if done >= total:
        return 0.0
    if not finished:
        return None
    in_flight = min(max(line.limit for line in lines), total - done)
    return elapsed * (total - done) / (finished + in_flight / 2)


class Reporter(Protocol):
    """Shows progress lines; `changed` is called after every item and must be cheap."""

    def watching(self) -> AbstractContextManager[object]:
        """A context in which lines may be shown (a live display starts and stops here)."""
        ...

    def expect(self, items: int) -> None:
        """Sum all lines up from now on: together they will have so many items, as far as is known."""
        ...

    def changed(self, line: StageProgress) -> None:
        """The counters of a line moved."""
        ...

    def note(self, text: str) -> None:
        """Show a sentence to the user."""
        ...


class LogReporter:
    """Plain lines, at most one per progress line and `every` seconds; for logs and the Dagster UI.

    Args:
        write: Takes one line of text.
        every: Seconds between two lines of the same stage, benchmark and label, and between two of all together.
    """

    def __init__(self, write: Callable[[str], object], every: float = 10.0) -> None:
        self._write, self._every = write, every
        self._last: dict[tuple[str, str, str], float] = {}
        self._overall = Overall()

    def watching(self) -> AbstractContextManager[object]:
        """Start nothing: plain lines need no display."""
        return nullcontext()

    def expect(self, items: int) -> None:
        """Also write lines of all together."""
        self._overall.expected = items

    def changed(self, line: StageProgress) -> None:
        """Write the line when it is complete or was not written for a while."""
        self._overall.add(line)
        if line.total and self._is_due((line.stage, line.benchmark, line.label), is_done=line.done >= line.total):
            self._write(describe(line))
        if self._overall.expected and self._is_due(("all", "", ""), is_done=self._overall.is_done):
            self._write(str(self._overall))

    def _is_due(self, key: tuple[str, str, str], *, is_done: bool) -> bool:
        now = time.monotonic()
        due = is_done or now - self._last.setdefault(key, now) >= self._every
        if due:
            self._last[key] = now
        return due

    def note(self, text: str) -> None:
        """Write the sentence."""
        self._write(text)


def describe(line: StageProgress) -> str:
    """Describe a line, for example as `answers elyza 40/100, 1 failed, 3.2 calls/s, limit 40, 12,345 tokens`."""
    elapsed = max(time.monotonic() - line.started, 1e-9)
    label = f" ({line.label})" if line.label else ""
    parts = [f"{line.stage} {line.benchmark}{label} {line.done}/{line.total}"]
    if line.reused:
        parts.append(f"{line.reused} already there")
    parts.append(failures_in_words(line.failed, line.failures))
    if line.calls:
        parts.append(f"{speed(line.calls, elapsed)}, limit {line.limit}")
        parts.append(f"{line.prompt_tokens + line.completion_tokens:,} tokens")
    return ", ".join(parts)


def speed(calls: int, seconds: float) -> str:
    """For example `12.3 calls/s`, or `8 s a call`."""
    return f"{calls / seconds:.1f} calls/s" if calls > seconds / 2 else f"{seconds / calls:.0f} s a call"


def failures_in_words(failed: int, by_class: Counter[str]) -> str:
    """For example `3 failed (2 transient, 1 refusal)`; most frequent first."""
    classes = ", ".join(f"{number} {name}" for name, number in by_class.most_common())
    return f"{failed} failed ({classes})" if classes else f"{failed} failed"


def duration(seconds: float) -> str:
    """For example `0:42` or `1:05:07`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
