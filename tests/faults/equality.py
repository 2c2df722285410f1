"""A first command that a fault ends, the same command after it, and the one equality of both.

Calls that the endpoint was paid for are those that are recorded and those that were in flight at the fault; and every
table says what that of an undisturbed run says.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import orjson
import polars as pl

from perf.crash import Endpoint
from perf.same_tables import differences, tables_of
from shaberi_dagster.lake.store import Lake
from tests.commands import Finished, run

_TIMES = re.compile(r'"\w*(?:_at|latency_seconds)": ?("[^"]*"|[\d.]+)')
QUESTIONS = 2
CALLS = 2 * QUESTIONS
"""An answer and a judgement of each question."""


@dataclass(frozen=True)
class Home:
    """An empty home and the first command that is run there.

    Attributes:
        folder: The home and working directory.
        endpoint: Who is asked.
    """

    folder: Path
    endpoint: Endpoint

    def run(self, fault: Mapping[str, str] | None = None) -> Finished:
        """Run the command, with the environment that brings a fault about."""
        self.folder.mkdir(exist_ok=True)
        places = {
            "HOME": self.folder,
            "SHABERI_WAREHOUSE": self.folder / "warehouse",
            "DAGSTER_HOME": self.folder / "dagster",
        }
        url = self.endpoint.base_url
        asked = ["--model", "mock", "--base-url", url, "--judge-model", "judge", "--judge-base-url", url]
        with chdir(self.folder):
            return run(
                "run-evals",
                *asked,
                "--benchmark",
                "rakuda",
                "--limit",
                str(QUESTIONS),
                environment=places | dict(fault or {}),
            )

    @property
    def lake(self) -> Lake:
        """The lake, as it is now."""
        return Lake(self.folder / "warehouse")

    def recorded(self) -> set[str]:
        """Request hashes of the finished calls that are in the lake or in a journal."""
        calls = set(self.lake.read("calls", {"status": "ok"}, ["request_hash"])["request_hash"])
        for journal in (self.folder / "warehouse" / "_journal").glob("*.jsonl"):
            lines = map(orjson.loads, journal.read_bytes().split(b"\n")[:-1])
            calls |= {line["request_hash"] for line in lines if line.get("status") == "ok"}
        return calls

    def results(self) -> dict[str, str]:
        """What the files of the results' folder say, without times and durations."""
        folder = self.folder / "results"
        files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
        return {str(path.relative_to(folder)): _TIMES.sub("", path.read_text(encoding="utf-8")) for path in files}


def violations(
    home: Home, fault: Mapping[str, str], code: int, undisturbed: Home, tables: Mapping[str, pl.DataFrame]
) -> Iterator[str]:
    """Run the command with a fault and once more, and say what should not be.

    Args:
        home: Empty.
        fault: The environment that brings the fault about.
        code: How the command then ends.
        undisturbed: A home where the command has run without it.
        tables: Those of the other home.
    """
    endpoint = home.endpoint
    before = endpoint.settled()["requests"]
    first = home.run(fault)
    if first.code != code:
        yield f"the first command ended with {first.code}: {first.err}"
    in_flight = endpoint.settled()["requests"] - before - len(home.recorded())
    if not 0 <= in_flight <= QUESTIONS:
        yield f"{in_flight} calls are paid for and not recorded"
    second = home.run()
    if second.code != 0:
        yield f"the second command ended with {second.code}: {second.err}"
        return
    paid = endpoint.settled()["requests"] - before
    if paid != CALLS + in_flight or len(home.recorded()) != CALLS:
        yield f"{paid} calls are paid for, {len(home.recorded())} recorded, {in_flight} were in flight"
    yield from differences(tables_of(home.lake), tables)
    found, expected = home.results(), undisturbed.results()
    if others := [name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)]:
        yield f"results that are missing, too much or say something else: {others}"
