"""How fast calls are made, and how well an endpoint's capacity is found; each figure beside a baseline of the same run.

    python perf/load.py efficiency          2,000 calls of 500 ms and 10,000 of 50 ms, 64 at once
    python perf/load.py capacity            endpoints that take 6, 20 and 40 calls at once, and random rejections
    python perf/load.py sharing             two processes on an endpoint that takes 20 calls at once (11 minutes)
    python perf/load.py sharing --quick     the same, four short cases of 200 ms (2 minutes)
    python perf/load.py memory              peak memory after 2,000 and after 20,000 calls
    python perf/load.py all --quick         everything with a tenth of the calls

The endpoint is `tests/mock_endpoint.py`, or any other one that understands options in model names
(`mock@latency:0.5@capacity:6`), with --base-url. Each client runs in a process of its own, so that CPU time and peak
memory are its own; time is counted from its first request to its last answer.
"""

import argparse
import asyncio
import gc
import json
import os
import platform
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import openai
import uvloop
from rich.console import Console
from rich.table import Table

from shaberi_dagster.lake.journal.claims import FileClaims
from shaberi_dagster.lake.journal.files import FileJournal, OtherFiles
from shaberi_dagster.lake.journal.records import Call
from shaberi_dagster.llm.engine import Engine
from shaberi_dagster.llm.limiter import LimiterSettings
from shaberi_dagster.llm.request import ChatRequest, Endpoint
from shaberi_dagster.llm.session import CallSession
from shaberi_dagster.llm.types import Message, Sampling
from shaberi_dagster.llm.workers import run_all

ROOT = Path(__file__).resolve().parent.parent
PROMPT = "日本の四季について、それぞれの特徴と代表的な行事を挙げて説明してください。" * 4
WORKERS = 256


@dataclass(frozen=True)
class Load:
    """What a client is to do.

    Attributes:
        client: One of `CLIENTS`.
        calls: How many.
        model: The model's name, with the endpoint's options.
        then_model: The model of the second half of the calls, if another.
        start: The first limit.
        most: The greatest limit.
        fixed: Whether the limit stays as it is.
        spans: Whether the end and the seconds of each call are of interest.
    """

    client: str
    calls: int
    model: str
    then_model: str = ""
    start: int = 64
    most: int = 64
    fixed: bool = True
    spans: bool = False


# ------------------------------------------------------------------------------------------------ clients


async def ours(load: Load, base_url: str) -> dict[str, Any]:
    """Engine, limiter, journal and session, as a stage uses them."""
    algorithm: Any = "aimd" if load.client == "aimd" else "adaptive"
    settings = LimiterSettings(
        algorithm, min(load.start, load.most), maximum=load.most, fixed=load.most if load.fixed else None
    )
    endpoint, started, attempts = Endpoint("custom", base_url), time.perf_counter(), 0
    spans: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        async with Engine({}, limiter=settings) as engine:
            path = Path(folder) / "benchmark.jsonl"
            with (
                FileJournal.open(path, "benchmark@@1", "answers") as journal,
                FileClaims(path.with_suffix(".lock")) as claims,
            ):
                others = OtherFiles(path)
                session = CallSession(engine, journal, "answers", lambda _: {}, claims=claims, news=others.find)
                await engine.check(endpoint, load.model)
                started = time.perf_counter()
                calls = run_all(_numbers(load.calls), _asking(session, endpoint, load), workers=WORKERS)
                async for _, (call, _) in calls:
                    if call.status != "ok":
                        raise RuntimeError(call.error_message)
                    attempts += call.attempts
                    if load.spans:
                        spans.append((round(call.created_at.timestamp(), 3), round(call.latency_seconds, 3)))
                seconds = time.perf_counter() - started
                limit, rejected = engine.limiter(endpoint).limit, attempts - load.calls
                return {"seconds": seconds, "rejected": rejected, "limit": limit, "spans": spans}


async def _numbers(count: int) -> AsyncIterator[int]:
    for number in range(count):
        yield number


def _asking(session: CallSession, endpoint: Endpoint, load: Load) -> Callable[[int], Awaitable[tuple[Call, bool]]]:
    async def ask(number: int) -> tuple[Call, bool]:
        model = _model_of(load, number)
        messages = (Message("system", "あなたは公平で信頼できる助手です。"), Message("user", f"{number}: {PROMPT}"))
        request = ChatRequest(endpoint, model, messages, Sampling(0.2, 6000))
        return await session.call(request, {"benchmark": "rakuda", "question_id": str(number), "purpose": "answer"})

    return ask


def _model_of(load: Load, number: int) -> str:
    return load.then_model if load.then_model and number >= load.calls // 2 else load.model


async def sdk(load: Load, base_url: str) -> dict[str, Any]:
    """The SDK as usual: one client, a semaphore, its own retries; nothing is kept."""
    http = openai.DefaultAioHttpClient() if load.client == "SDK on aiohttp" else None
    client = openai.AsyncOpenAI(base_url=base_url, api_key="unused", http_client=http, max_retries=1000)
    started = time.perf_counter()

    async def ask(number: int) -> str | None:
        reply = await client.chat.completions.create(
            model=_model_of(load, number),
            messages=[
                {"role": "system", "content": "あなたは公平で信頼できる助手です。"},
                {"role": "user", "content": f"{number}: {PROMPT}"},
            ],
            temperature=0.2,
            max_tokens=6000,
        )
        return reply.choices[0].message.content

    async for _ in run_all(_numbers(load.calls), ask, workers=load.most):
        pass
    return {"seconds": time.perf_counter() - started}


async def bare(load: Load, base_url: str) -> dict[str, Any]:
    """The floor: aiohttp on uvloop, no retries; nothing is kept."""
    started = time.perf_counter()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def ask(number: int) -> Any:
            messages = [
                {"role": "system", "content": "あなたは公平で信頼できる助手です。"},
                {"role": "user", "content": f"{number}: {PROMPT}"},
            ]
            body = {"model": load.model, "messages": messages, "temperature": 0.2, "max_tokens": 6000}
            async with session.post(f"{base_url}/chat/completions", json=body) as response:
                return json.loads(await response.read())["choices"][0]["message"]["content"]

        async for _ in run_all(_numbers(load.calls), ask, workers=load.most):
            pass
    return {"seconds": time.perf_counter() - started}


CLIENTS: dict[str, Callable[[Load, str], Awaitable[dict[str, Any]]]] = {
    "ours": ours,
    "aimd": ours,
    "SDK": sdk,
    "SDK on aiohttp": sdk,
    "bare aiohttp": bare,
}


def run_here(load: Load, base_url: str) -> dict[str, Any]:
    """What a client measured, with its CPU seconds and peak memory in MiB."""
    gc.freeze()  # as the engine's thread does
    before = time.process_time()
    loop_factory = None if load.client == "SDK" else uvloop.new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        measured = dict(runner.run(_run(load, base_url)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return measured | {"cpu": time.process_time() - before, "peak": peak}


async def _run(load: Load, base_url: str) -> dict[str, Any]:
    return await CLIENTS[load.client](load, base_url)


def run_apart(load: Load, base_url: str) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "client", "--base-url", base_url, "--load", json.dumps(vars(load))]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if finished.returncode:
        raise SystemExit(finished.stderr)
    measured: dict[str, Any] = json.loads(finished.stdout)
    return measured


# ------------------------------------------------------------------------------------------------ tables


def efficiency(base_url: str, scale: float, console: Console) -> None:
    """Ideal time / time, and CPU per call, beside the floor and the SDK."""
    for calls, latency in ((2_000, 0.5), (10_000, 0.05)):
        n = int(calls * scale)
        ideal = n * latency / 64
        table = Table(
            title=f"{n:,} calls of {latency * 1000:g} ms, 64 at once; ideal {ideal:.2f} s", title_justify="left"
        )
        for title in ("client", "seconds", "efficiency", "CPU ms/call", "CPU / bare", "peak MiB"):
            table.add_column(title, justify="left" if title == "client" else "right")
        measured = {
            client: run_apart(Load(client, n, f"mock@latency:{latency}"), base_url)
            for client in ("ours", "SDK", "SDK on aiohttp", "bare aiohttp")
        }
        floor = measured["bare aiohttp"]["cpu"]
        for client, one in measured.items():
            table.add_row(
                client,
                f"{one['seconds']:.2f}",
                f"{ideal / one['seconds']:.3f}",
                f"{one['cpu'] / n * 1000:.2f}",
                f"{one['cpu'] / floor:.1f}",
                f"{one['peak']:.0f}",
            )
        console.print(table)


def capacity(base_url: str, scale: float, console: Console) -> None:
    """Time / ideal time and rejections where the endpoint takes fewer calls than we would make."""
    cases: list[tuple[str, Load, float]] = []
    for takes, latency in ((6, 0.5), (20, 1.0), (40, 2.0)):
        for start in (8, 64):
            n = int((2000 if takes == 40 else 400) * scale)  # noqa: PLR2004 - from 8 to 40 takes a longer ramp
            load = Load("ours", n, f"mock@latency:{latency}@capacity:{takes}", start=start)
            cases.append((f"takes {takes}, {latency * 1000:g} ms", load, n * latency / takes))
    for start in (8, 64):
        n = int(2000 * scale)
        load = Load("ours", n, "mock@latency:1@p_429:0.02@p429:0.02", start=start)
        cases.append(("2 % random 429s, 1 s", load, n / load.most))
    for name, first, second in (("20, then 40", 20, 40), ("40, then 20", 40, 20)):
        n = int(2000 * scale)
        model, then_model = (f"mock@latency:0.5@capacity:{takes}" for takes in (first, second))
        load = Load("ours", n, model, then_model, start=40)
        cases.append((f"takes {name}, 500 ms", load, n / 2 * 0.5 * (1 / first + 1 / second)))

    def measured(load: Load) -> dict[str, float]:
        own_lane = f"@seed:{abs(hash(load)) % 10**6}"
        then_model = load.then_model and load.then_model + own_lane
        return run_apart(replace(load, model=load.model + own_lane, then_model=then_model), base_url)

    loads = [replace(load, client=client, fixed=False) for _, load, _ in cases for client in ("ours", "aimd", "SDK")]
    with ThreadPoolExecutor(4) as pool:
        results = dict(zip(loads, pool.map(measured, loads), strict=True))
    table = Table(title="time / ideal, and 429s per call", title_justify="left")
    for title in ("endpoint", "start", "calls", "adaptive", "429s", "aimd", "429s", "SDK, 64 at once"):
        table.add_column(title, justify="left" if title == "endpoint" else "right")
    for name, load, ideal in cases:
        cells = [name, str(load.start), f"{load.calls:,}"]
        for client in ("ours", "aimd"):
            one = results[replace(load, client=client, fixed=False)]
            cells += [f"{one['seconds'] / ideal:.2f}", f"{one['rejected'] / load.calls:.3f}"]
        cells.append(f"{results[replace(load, client='SDK', fixed=False)]['seconds'] / ideal:.2f}")
        table.add_row(*cells)
    console.print(table)


_CAPACITY = 20


def sharing(base_url: str, scale: float, console: Console) -> None:
    """Time of two processes together, rejections, and where the time goes; each round is told as it ends.

    The second process starts so much later than the first. Two times are ideal. The minimum is arithmetic: what the
    calls take if all of the capacity is used from the first request to the last answer. One engine makes the same
    calls alone, so its time has what this machine adds to a call, and what it takes to find the capacity. The start of
    Python is in neither. The rest is told in percent of the minimum: calls that took longer than the endpoint's
    latency, and capacity that was unused until all of it was in use, until the first process was done, and after that.
    """
    short = scale < 1
    seconds = 10.0 if short else 40.0
    titles = ("latency", "wait", "later", "calls each", "/ minimum", "/ one engine", "429s a call")
    lost = ("slower calls", "search", "both", "one left")
    console.print(f"two processes on an endpoint that takes {_CAPACITY} calls at once, {seconds:g} s at least;")
    console.print("wait: Retry-After; at the right: what the time above the minimum was, in percent of it")
    console.print("".join(f"{title:>13}" for title in (*titles, *lost)))
    latencies, later_by = ((0.2,), (0.0, 2.5)) if short else ((0.2, 2.0), (0.0, 10.0))
    cases = [(latency, wait, later) for latency in latencies for wait in (0.0, 1.0) for later in later_by]
    for number, (latency, wait, later) in enumerate(cases):
        n = round(seconds * _CAPACITY / latency / 2)
        model = f"mock@latency:{latency}@capacity:{_CAPACITY}@retry_after:{wait}@seed:{number}"
        load = Load("ours", n, model, start=40, most=60, fixed=False, spans=True)
        alone = run_apart(replace(load, calls=2 * n, model=f"{model}1", spans=False), base_url)
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(run_apart, load, base_url)
            time.sleep(later)
            both = [pool.submit(run_apart, load, base_url).result(), first.result()]
        spans = [[(end - took, end) for end, took in one["spans"]] for one in both]
        taken, unused = _unused(spans)
        slower = sum(end - start - latency for one in spans for start, end in one)
        rejected = sum(one["rejected"] for one in both) / (2 * n)
        cells = [f"{latency:g} s", f"{wait:g} s" if wait else "none", f"{later:g} s", f"{n:,}"]
        cells += [f"{taken / seconds:.2f}", f"{taken / alone['seconds']:.2f}", f"{rejected:.3f}"]
        cells += [f"{100 * one / _CAPACITY / seconds:.1f}" for one in (slower, *unused)]
        console.print("".join(f"{cell:>13}" for cell in cells))


def _unused(spans: list[list[tuple[float, float]]]) -> tuple[float, list[float]]:
    """Seconds of the calls of two processes, and seconds of unused places: until all ran, until one was done, after."""
    steps = sorted([(start, 1) for one in spans for start, _ in one] + [(end, -1) for one in spans for _, end in one])
    one_left = min(max(end for _, end in one) for one in spans)
    unused, phase, running, at = [0.0, 0.0, 0.0], 0, 0, steps[0][0]
    for moment, change in steps:
        unused[phase] += (_CAPACITY - running) * (moment - at)
        running, at = running + change, moment
        phase = 2 if moment >= one_left else max(phase, int(running >= _CAPACITY))
    return at - steps[0][0], unused


def memory(base_url: str, scale: float, console: Console) -> None:
    """Peak memory with ten times the calls."""
    few, many = (
        run_apart(Load("ours", int(n * scale), "mock"), base_url) | {"n": int(n * scale)} for n in (2_000, 20_000)
    )
    each = (many["peak"] - few["peak"]) * 1024 * 1024 / (many["n"] - few["n"])
    console.print(
        f"peak memory: {few['peak']:.0f} MiB after {few['n']:,} calls, {many['peak']:.0f} MiB after {many['n']:,}: "
        f"{each:.0f} bytes a call"
    )


PARTS = {"efficiency": efficiency, "capacity": capacity, "sharing": sharing, "memory": memory}


@contextmanager
def running_endpoint() -> Iterator[str]:
    """The project's mock endpoint in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(ROOT / "tests" / "mock_endpoint.py"), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603
    try:
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=[*PARTS, "all", "client"], help="client is what each process runs")
    parser.add_argument("--base-url", help="another endpoint, up to /v1")
    parser.add_argument("--quick", action="store_true", help="a tenth of the calls")
    parser.add_argument("--load", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part == "client":
        print(json.dumps(run_here(Load(**json.loads(options.load)), options.base_url)))  # noqa: T201
        return
    console = Console(width=150)
    console.print(f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, ", end="")
    console.print(f"load {os.getloadavg()[0]:.1f} at the start")
    with running_endpoint() as own:
        for part in PARTS if options.part == "all" else [options.part]:
            PARTS[part](options.base_url or own, 0.1 if options.quick else 1.0, console)


if __name__ == "__main__":
    main()
