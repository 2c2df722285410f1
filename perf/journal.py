"""What keeping a call costs beside the call itself: journal, claim and the look into other journals, of both backends.

    python perf/journal.py                          files
    SHABERI_DATABASE_URL=… python perf/journal.py   the same in PostgreSQL

A session makes calls that an engine answers at once, 64 at a time, with replies of 700 Japanese characters.
"""

import argparse
import asyncio
import resource
import tempfile
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shaberi_dagster.journal.backends import journals_of
from shaberi_dagster.journal.records import Call, Usage
from shaberi_dagster.llm.session import CallSession
from shaberi_dagster.llm.types import ChatRequest, Endpoint, Message, Sampling
from shaberi_dagster.llm.workers import run_all

_ENDPOINT = Endpoint("custom", "http://127.0.0.1:1/v1")
_REPLY = "四季" * 350


class _Engine:
    """Answers at once."""

    async def call(self, request: ChatRequest, *_: Any) -> Call:
        """The answer."""
        await asyncio.sleep(0)
        usage, now = Usage(10, 20), datetime.now(UTC)
        return Call(request.request_hash, "m", "u", "ok", None, None, _REPLY, None, "stop", usage, 1, 0.0, now)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10_000)
    calls = parser.parse_args().calls
    with tempfile.TemporaryDirectory() as folder:
        journals = journals_of(Path(folder))
        asyncio.run(_make(journals, calls, "made"))
        asyncio.run(_make(journals, calls, "found again"))
        with journals.open("m@@t", "answers") as journal:
            cpu, wall = _cpu(), time.perf_counter()
            count = sum(1 for _ in journal.records)
            _say("read for the commit", count, cpu, wall)
            journal.remove()


async def _make(journals: Any, calls: int, what: str) -> None:
    with journals.open("m@@t", "answers") as journal, journal.claims() as claims:
        news = journals.others("m@@t", "answers").find
        engine: Any = _Engine()
        session = CallSession(engine, journal, "answers", lambda _: {}, claims=claims, news=news)

        async def ask(number: int) -> tuple[Call, bool]:
            request = ChatRequest(_ENDPOINT, "m", (Message("user", f"{number}: {_REPLY[:50]}"),), Sampling(0.0, 100))
            return await session.call(request, {"benchmark": "rakuda", "question_id": str(number)})

        async def numbers() -> AsyncIterator[int]:
            for number in range(calls):
                yield number

        cpu, wall = _cpu(), time.perf_counter()
        async for _ in run_all(numbers(), ask, workers=64):
            pass
        journal.check()
        _say(what, calls, cpu, wall)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _say(what: str, calls: int, cpu: float, wall: float) -> None:
    cpu, wall = (_cpu() - cpu) / calls * 1000, (time.perf_counter() - wall) / calls * 1000
    print(f"{calls:,} calls {what}: {cpu:.3f} ms of CPU and {wall:.3f} ms a call")  # noqa: T201


if __name__ == "__main__":
    main()
