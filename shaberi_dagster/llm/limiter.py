"""How many calls an endpoint is asked at once: additive increase, multiplicative decrease."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, Self

_REMEMBERED_CHANGES = 10_000


@dataclass(frozen=True)
class LimiterSettings:
    """How a limiter behaves.

    Attributes:
        initial: Calls at once in the beginning.
        minimum: Never fewer.
        maximum: Never more.
        cooldown_seconds: Least time between two increases, between two decreases, and from a decrease to the
            next increase.
        fixed: A constant limit that nothing changes; None lets the limit move.
    """

    initial: int = 40
    minimum: int = 1
    maximum: int = 60
    cooldown_seconds: float = 2.0
    fixed: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.initial <= self.maximum or (self.fixed is not None and self.fixed < 1):
            raise ValueError(f"limits must be 1 <= minimum <= initial <= maximum, and fixed at least 1: {self}")


@dataclass(frozen=True)
class LimitChange:
    """One change of a limit.

    Attributes:
        at: UTC time.
        before: The limit until then.
        after: The limit since.
        cause: `success` raised it, `rate_limit` (429, 529) lowered it.
    """

    at: datetime
    before: int
    after: int
    cause: Literal["success", "rate_limit"]


class AimdLimiter:
    """Slots of one endpoint, given out first come first served; for one event loop.

    A success adds one slot, a rejection halves them. Increases and decreases have clocks of their own, so a
    recent increase never hides a rejection, and rejections of one burst halve the limit once. The limit is about
    new calls: running ones are never cancelled.

    Use it as an async context manager around an attempt, never around a backoff.

    Args:
        settings: How it behaves.
        clock: Seconds that only go forward.
    """

    def __init__(self, settings: LimiterSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._clock = settings, clock
        self.limit = settings.fixed or settings.initial
        self.running = 0
        self.changes: deque[LimitChange] = deque(maxlen=_REMEMBERED_CHANGES)
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._last_increase = clock()
        self._last_decrease = float("-inf")

    @property
    def waiting(self) -> int:
        """Calls that wait for a slot."""
        return len(self._waiting)

    async def __aenter__(self) -> Self:
        if self.running < self.limit and not self._waiting:
            self.running += 1
            return self
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the slot came together with the cancellation
                self._release()
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._release()

    def succeeded(self) -> None:
        """A call was answered."""
        now, cooldown = self._clock(), self._settings.cooldown_seconds
        if now - max(self._last_increase, self._last_decrease) >= cooldown:
            self._last_increase = now
            self._change(self.limit + 1, "success")

    def rejected(self) -> None:
        """A call was refused for its rate (429, 529)."""
        now = self._clock()
        if now - self._last_decrease >= self._settings.cooldown_seconds:
            self._last_decrease = now
            self._change(self.limit // 2, "rate_limit")

    def _change(self, wanted: int, cause: Literal["success", "rate_limit"]) -> None:
        after = min(max(wanted, self._settings.minimum), self._settings.maximum)
        if self._settings.fixed is not None or after == self.limit:
            return
        self.changes.append(LimitChange(datetime.now(UTC), self.limit, after, cause))
        self.limit = after
        self._give_slots()

    def _release(self) -> None:
        self.running -= 1
        self._give_slots()

    def _give_slots(self) -> None:
        while self._waiting and self.running < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self.running += 1
                turn.set_result(None)
