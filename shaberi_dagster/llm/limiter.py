"""Limits of the calls that an endpoint is asked at once: slots, and two controllers of their number."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from shaberi_dagster.lake.journal.records import Cause, LimitChange

_BURST_SECONDS = 0.1  # changes of one burst and cause are recorded as one

Slot = bool  # whether the last call in it was rejected; only the adaptive limiter tells slots apart
LimitAlgorithm = Literal["adaptive", "aimd"]
Outcome = Literal["answered", "rejected", "other"]


@dataclass(frozen=True)
class LimiterSettings:
    """Settings of a limiter.

    Attributes:
        algorithm: `adaptive` finds what the server takes and stays there; `aimd` adds one and halves.
        initial: Calls at once in the beginning.
        minimum: Never fewer.
        maximum: Never more.
        cooldown_seconds: For `aimd`: least time between two increases, between two decreases, and from a decrease
            to the next increase.
        fixed: A constant limit that nothing changes; None lets the limit move.
    """

    algorithm: LimitAlgorithm = "adaptive"
    initial: int = 40
    minimum: int = 1
    maximum: int = 60
    cooldown_seconds: float = 2.0
    fixed: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.initial <= self.maximum or (self.fixed is not None and self.fixed < 1):
            raise ValueError(f"limits must be 1 <= minimum <= initial <= maximum, and fixed at least 1: {self}")


class Limiter:
    """Slots of one endpoint, given out first come first served; for one event loop. The limit is constant.

    `acquire` before an attempt and `release` after it, never around a backoff.

    Args:
        limit: The number of slots.
        clock: Seconds that only go forward.

    Attributes:
        limit: Calls that may run at once now; running ones are never cancelled.
        most: What the limit never exceeds.
        running: Calls that hold a slot.
    """

    spares_the_server = False
    """True where a server that rejects everything is asked at most about once a second; elsewhere each call that is
    rejected again waits longer."""

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.limit = self.most = limit
        self.running = 0
        self._changes: list[LimitChange] = []
        self._changed_at = float("-inf")
        self._waiting: deque[asyncio.Future[Slot]] = deque()

    @property
    def waiting(self) -> int:
        """Calls that wait for a slot."""
        return len(self._waiting)

    def take_changes(self, *, settled: bool = True) -> list[LimitChange]:
        """The changes of the limit since the last time, oldest first; those of one burst and cause are one.

        Args:
            settled: Leave a burst that may still go on for the next time.
        """
        if not self._changes or (settled and self._clock() - self._changed_at < _BURST_SECONDS):
            return []
        taken, self._changes = self._changes, []
        return taken

    async def acquire(self, *, again: bool = False) -> Slot:
        """Wait for a slot.

        Args:
            again: The call was rejected before: it goes before those that wait for their first attempt.
        """
        if self.running < self.limit and not self._waiting:
            return self._take()
        turn: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        self._waiting.appendleft(turn) if again else self._waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the slot came together with the cancellation
                self.release(turn.result(), "other")
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def release(self, slot: Slot, outcome: Outcome) -> None:
        """Give the slot back.

        Args:
            slot: As it was acquired.
            outcome: How the attempt ended: `rejected` for its rate (429, 529), `other` says nothing about load.
        """
        self.running -= 1
        self._learn(slot, outcome)
        self._give_slots()

    def _learn(self, slot: Slot, outcome: Outcome) -> None:
        """Adjust the limit to what an attempt in the slot has shown; the slot is free again."""

    def _take(self) -> Slot:
        self.running += 1
        return False

    def _give_slots(self) -> None:
        while self._waiting and self.running < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(self._take())

    def _record(self, after: int, cause: Cause) -> None:
        """Set the limit and remember that."""
        now, before = self._clock(), self.limit
        if after == before:
            return
        self.limit = after
        last = self._changes[-1] if self._changes else None
        if last and last.cause == cause and now - self._changed_at < _BURST_SECONDS:
            self._changes[-1] = replace(last, after=after)
            return
        self._changed_at = now
        self._changes.append(LimitChange(datetime.now(UTC), before, after, cause))


class AimdLimiter(Limiter):
    """Additive increase, multiplicative decrease: a success adds one slot, a rejection halves them.

    Increases and decreases have clocks of their own, so a recent increase never hides a rejection, and rejections
    of one burst halve the limit once. The right thing where a server punishes overload; where rejections are cheap
    it leaves capacity unused, and where they are random it sinks.

    Args:
        settings: How it behaves.
        clock: Seconds that only go forward.
    """

    def __init__(self, settings: LimiterSettings, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(settings.initial, clock)
        self._settings, self.most = settings, settings.maximum
        self._last_increase = clock()
        self._last_decrease = float("-inf")

    def _learn(self, slot: Slot, outcome: Outcome) -> None:  # noqa: ARG002 - all slots are alike here
        now, cooldown = self._clock(), self._settings.cooldown_seconds
        if outcome == "rejected" and now - self._last_decrease >= cooldown:
            self._last_decrease = now
            self._record(max(self.limit // 2, self._settings.minimum), "rate_limit")
        elif outcome == "answered" and now - max(self._last_increase, self._last_decrease) >= cooldown:
            self._last_increase = now
            self._record(min(self.limit + 1, self.most), "success")


class AdaptiveLimiter(Limiter):
    """Finds how many calls the server takes at once, from what becomes of each slot.

    A server that is full rejects whatever comes next, so the next call in the slot of a rejected one is rejected as
    well; a server that rejects at random takes it. Hence a slot survives one rejection and is closed by the
    second in a row. While an addition is on trial, until as many answers came as slots were added, one is
    enough, but for the first, if it is of several slots, and one in eight of those added.

    Slots are added while more calls wait than run, after each round of answers: three times as many as there are
    at first, and twice as many each time while none is lost. After a loss it is one, and the rounds between two
    attempts double up to eight, so that asking for more costs few rejections; when it holds, growth doubles again. Of
    fewer slots than the first eight it is four: a process that another one leaves so few may soon have more.

    The last slots (`minimum`) are not closed but rest for a second. So a server that takes nothing, as when another
    process has all of it, is asked once a second, and grown into as in the beginning when it takes something again.

    The initial limit is not opened at once either: a few slots first, and twice as many every few milliseconds,
    until a rejection says that this is enough.

    Args:
        settings: How it behaves; the cooldown is not used.
        clock: Seconds that only go forward.
    """

    spares_the_server = True
    _FIRST_SLOTS = 8
    _OPENING_SECONDS = 0.05
    _RESTING_SECONDS = 1.0
    _MOST_ROUNDS = 8
    _FORGIVEN = 8  # one in so many rejections of an addition

    def __init__(self, settings: LimiterSettings, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(0, clock)
        self._settings, self.most = settings, settings.maximum
        self._free: list[Slot] = []
        self._step = 3 * settings.initial  # slots to add next; 1 after a loss
        self._rounds = 1  # of answers before the next addition
        self._added = self._answers = self._rejections = 0  # slots added last, and what came since
        self._opening = self._was_full = False
        self._add(min(self._FIRST_SLOTS, settings.initial), "start")

    def _take(self) -> Slot:
        if not self._opening:
            self._opening = True
            self._open_later()
        self.running += 1
        return self._free.pop()

    def _learn(self, slot: Slot, outcome: Outcome) -> None:
        if outcome == "rejected":
            self._doubt(slot)
            return
        self._free.append(slot and outcome == "other")
        if outcome == "answered":
            self._answers += 1
            self._grow()

    def _doubt(self, slot: Slot) -> None:
        on_trial = self._answers < self._added
        self._rejections += 1
        forgiven = (self._added > 1) + self._added // self._FORGIVEN
        too_many = on_trial and self._rejections > forgiven
        if not (slot or too_many):
            self._free.append(True)
            return
        self._was_full = True
        if self.limit <= self._settings.minimum:
            self._rest()
            return
        if self._step > 1:  # the first loss since the last addition
            self._rounds = min(2 * self._rounds, self._MOST_ROUNDS) if self._added == 1 else 1
        self._step = 1
        if not on_trial:
            self._added = self._answers = 0
        self._record(self.limit - 1, "rate_limit")

    def _rest(self) -> None:
        """Let one of the last slots stay empty for a while; nothing that was learned before holds afterwards."""
        self._step = self._FIRST_SLOTS
        self.running += 1
        asyncio.get_running_loop().call_later(self._RESTING_SECONDS, self._wake)

    def _wake(self) -> None:
        self.running -= 1
        self._free.append(True)
        self._give_slots()

    def _grow(self) -> None:
        most = self._MOST_ROUNDS if self.limit >= self._FIRST_SLOTS else self._MOST_ROUNDS // 2
        rounds = 1 if self._step > 1 else min(self._rounds, most)
        if self._answers >= rounds * self.limit and self.waiting >= self.limit:
            self._rounds = rounds
            self._add(min(self._step, self.most - self.limit), "success")
            self._step = min(2 * self._step, self.most)

    def _open_later(self) -> None:
        if self.limit < self._settings.initial and not self._was_full:
            asyncio.get_running_loop().call_later(self._OPENING_SECONDS, self._open_more)

    def _open_more(self) -> None:
        if not self._was_full:
            self._add(min(self.limit, self._settings.initial - self.limit), "start")
            self._give_slots()
            self._open_later()

    def _add(self, slots: int, cause: Cause) -> None:
        self._free += [False] * slots
        self._answers, self._added, self._rejections = 0, slots, 0
        self._record(self.limit + slots, cause)


def make_limiter(settings: LimiterSettings) -> Limiter:
    """The limiter that the settings ask for."""
    if settings.fixed is not None:
        return Limiter(settings.fixed)
    return {"adaptive": AdaptiveLimiter, "aimd": AimdLimiter}[settings.algorithm](settings)
