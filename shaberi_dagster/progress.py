"""How long work tells how far it is. Stages count; reporters show."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol


@dataclass
class StageProgress:
    """Counters of one stage of one benchmark of one run, updated in place by the stage.

    Attributes:
        stage: `answers` or `judgements`, …
        benchmark: The benchmark's name.
        label: What distinguishes lines of the same stage and benchmark (the judge), or "".
        total: Items planned.
        done: Items finished, reused and failed ones included.
        reused: Items answered from what was already paid for.
        failed: Items that ended as failure rows.
        prompt_tokens: Tokens sent by the calls of this line (reused calls not counted).
        completion_tokens: Tokens received, likewise.
        calls: Finished calls.
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
    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls: int = 0
    limit: int = 0
    started: float = field(default_factory=time.monotonic)


class Reporter(Protocol):
    """Shows progress lines; `changed` is called after every item and must be cheap."""

    def watching(self) -> AbstractContextManager[object]:
        """A context in which lines may be shown (a live display starts and stops here)."""
        ...

    def changed(self, line: StageProgress) -> None:
        """The counters of a line moved."""
        ...

    def note(self, text: str) -> None:
        """One sentence for the user."""
        ...


class LogReporter:
    """Plain lines, at most one per progress line and `every` seconds; for logs and the Dagster UI.

    Args:
        write: Takes one line of text.
        every: Seconds between two lines of the same stage, benchmark and label.
    """

    def __init__(self, write: Callable[[str], object], every: float = 10.0) -> None:
        self._write, self._every = write, every
        self._last: dict[tuple[str, str, str], float] = {}

    def watching(self) -> AbstractContextManager[object]:
        """Nothing to start."""
        return nullcontext()

    def changed(self, line: StageProgress) -> None:
        """Write the line when it is complete or was not written for a while."""
        key, now = (line.stage, line.benchmark, line.label), time.monotonic()
        if line.done >= line.total or now - self._last.setdefault(key, now) >= self._every:
            self._last[key] = now
            self._write(describe(line))

    def note(self, text: str) -> None:
        """Write the sentence."""
        self._write(text)


def describe(line: StageProgress) -> str:
    """One line of text, for example `answers elyza 40/100, 1 failed, 3.2 calls/s, limit 40, 12,345 tokens`."""
    elapsed = max(time.monotonic() - line.started, 1e-9)
    label = f" ({line.label})" if line.label else ""
    parts = [f"{line.stage} {line.benchmark}{label} {line.done}/{line.total}"]
    if line.reused:
        parts.append(f"{line.reused} already there")
    parts.append(f"{line.failed} failed")
    if line.calls:
        parts.append(f"{line.calls / elapsed:.1f} calls/s, limit {line.limit}")
        parts.append(f"{line.prompt_tokens + line.completion_tokens:,} tokens")
    return ", ".join(parts)
