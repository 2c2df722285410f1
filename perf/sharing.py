"""How well two processes share an endpoint, in virtual time: time of both / ideal time, and 429s for each call.

    python perf/sharing.py          endpoints that the limiter's constants were chosen by
    python perf/sharing.py --kept   others, that were looked at only afterwards
    python perf/sharing.py --engines 1    one process on the same endpoints, for comparison

The engine, its retries and its limiter are the real ones; only the server is simulated. It takes so many calls at
once and answers the others with 429, with a Retry-After or without. Each process starts so many latencies after the
one before it. Ideal is what the calls take when all of the capacity is used all the time, about 20 s at least.
`perf/load.py sharing` measures a few cases with real processes.
"""

import argparse
import asyncio
import math
import random
import statistics
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from shaberi_dagster.journal.records import Usage
from shaberi_dagster.llm.client import CallFailure, ChatClient
from shaberi_dagster.llm.engine import Engine
from shaberi_dagster.llm.reply import ReceivedReply
from shaberi_dagster.llm.types import ChatRequest, Endpoint, Message, Sampling
from tests.virtual_time import run_in_virtual_time

_DISTANCE = 0.002  # seconds there and back
_ROUNDS = 40  # of the whole capacity, at least
_ENDPOINT = Endpoint("custom", "http://simulated/v1")


@dataclass(frozen=True)
class Case:
    """An endpoint and how it is used.

    Attributes:
        capacity: Calls that it takes at once.
        latency: Mean seconds of a call.
        spread: Sigma of the latency, which is lognormal.
        retry_after: Seconds that a 429 asks to wait; None: it says nothing.
        later: Latencies between the starts of two processes.
    """

    capacity: int
    latency: float
    spread: float
    retry_after: float | None
    later: float

    def calls(self, engines: int) -> int:
        """Calls of each process."""
        rounds = max(_ROUNDS, 20 / self.latency)
        return min(int(rounds * self.capacity / engines), 2400)


TUNED = [Case(*one) for one in product((5, 20, 60), (0.05, 0.5, 2.0), (0.0, 0.5), (None, 1.0), (0.0, 0.4, 10.0))]
KEPT = [Case(*one) for one in product((8, 13, 30, 45), (0.2, 4.0), (0.0, 0.8), (None, 2.0), (0.0, 1.7, 25.0))]


@dataclass
class Server(ChatClient):
    """What every process sends its calls to."""

    case: Case
    running: int = 0
    rejected: int = 0
    work: float = 0.0
    finished_at: float = 0.0
    noise: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311

    async def send(self, body: Mapping[str, Any]) -> ReceivedReply:  # noqa: ARG002
        """A reply after a while, or a rejection at once."""
        await asyncio.sleep(_DISTANCE / 2)
        if self.running >= self.case.capacity:
            self.rejected += 1
            await asyncio.sleep(_DISTANCE / 2)
            raise CallFailure("rate_limit", "full", self.case.retry_after)
        self.running += 1
        spread = self.case.spread
        seconds = self.case.latency * math.exp(self.noise.gauss(0, spread) - spread**2 / 2)
        self.work += seconds
        await asyncio.sleep(seconds)
        self.running -= 1
        await asyncio.sleep(_DISTANCE / 2)
        self.finished_at = asyncio.get_running_loop().time()
        return ReceivedReply("done", None, "stop", Usage())


class _Engine(Engine):
    def __init__(self, server: Server) -> None:
        super().__init__({})
        self._server = server

    async def _client(self, endpoint: Endpoint, model: str) -> ChatClient:  # noqa: ARG002
        return self._server


def shared(case: Case, engines: int) -> tuple[float, float]:
    """Time of all processes / ideal time, and 429s for each call."""
    server, calls = Server(case), case.calls(engines)
    random.seed(1)

    async def process(number: int) -> None:
        await asyncio.sleep(number * case.later * case.latency)
        engine, numbers = _Engine(server), iter(range(calls))

        async def worker() -> None:
            for call in numbers:
                message = Message("user", f"{number} {call}")
                await engine.call(ChatRequest(_ENDPOINT, "mock", (message,), Sampling(0.2, 100)))

        await asyncio.gather(*(worker() for _ in range(256)))

    async def processes() -> None:
        await asyncio.gather(*map(process, range(engines)))

    run_in_virtual_time(processes())
    return server.finished_at / (server.work / case.capacity), server.rejected / (engines * calls)


def _rows(measured: dict[Case, tuple[float, float]]) -> Iterator[list[str]]:
    for name in ("all", "capacity", "latency", "spread", "retry_after", "later"):
        for value in dict.fromkeys(getattr(case, name, "") for case in measured):
            own = [one for case, one in measured.items() if getattr(case, name, "") == value]
            ratios = sorted(ratio for ratio, _ in own)
            shares = [statistics.mean(ratios), ratios[int(0.9 * (len(ratios) - 1))], ratios[-1]]
            rejected = statistics.mean(rejected for _, rejected in own)
            yield [f"{name} {value}", str(len(own)), *(f"{one:.2f}" for one in shares), f"{rejected:.2f}"]


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kept", action="store_true")
    parser.add_argument("--engines", type=int, default=2)
    options = parser.parse_args()
    measured = {case: shared(case, options.engines) for case in (KEPT if options.kept else TUNED)}
    table = Table(title=f"{options.engines} processes on one endpoint: time / ideal")
    for title in ("cases", "number", "mean", "nine of ten below", "worst", "429s a call"):
        table.add_column(title, justify="left" if title == "cases" else "right")
    for row in _rows(measured):
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
