"""The generation of a suite's judge prompts, told by hashes of the messages for one fixed row."""

from collections.abc import Mapping

from shaberi_dagster.exchange.suite.reading import ReadSuite
from shaberi_dagster.tasks.judges.sets import AdoptedBenchmark
from shaberi_dagster.util.identity import sha256_json

_ROW = {"question": "Q", "criteria": "C", "answer": "A"}
_KNOWN: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "J2": {
        "tengu": ("9391080c", "77f281ae"),
        "elyza": ("b011813c", "3f009b36"),
        "mt_bench": ("898fff8b", "898fff8b"),
        "rakuda": ("5cd8f331", "5cd8f331"),
    },
    "J3": {
        "tengu": ("4747a76a", "8ab03103"),
        "elyza": ("805bcaa7", "1a1d4e33"),
        "mt_bench": ("1602af22", "1602af22"),
        "rakuda": ("cf9a5063", "cf9a5063"),
    },
}
"""The first 8 hex digits of the hashes, by generation and benchmark: with a reference and without one."""
_SHARED = "mt_bench"
"""The benchmark whose prompt is the same in J1 and J2."""
_NEW_IN_J2 = "<score>"


def generation_of(suite: ReadSuite) -> str | None:
    """Return `J1`, `J2` or `J3`, or None where the prompts are those of no known generation.

    J2 and J3 are known by their hashes. J1 shares the prompts of MT-Bench and Rakuda with J2, and its others, which J2
    replaced, ask for no score in tags.
    """
    hashes = {name: prompt_hashes(read) for name, read in suite.benchmarks.items()}
    if not hashes:
        return None
    for generation, known in _KNOWN.items():
        if all(known[name] == found for name, found in hashes.items()) and hashes.keys() - {_SHARED, "rakuda"}:
            return generation
    others = [read for name, read in suite.benchmarks.items() if name in {"tengu", "elyza"}]
    shared = all(_KNOWN["J2"][name] == found for name, found in hashes.items() if name in {_SHARED, "rakuda"})
    is_first = shared and _SHARED in hashes and others and not any(_NEW_IN_J2 in _messages(read) for read in others)
    return "J1" if is_first else None


def prompt_hashes(read: AdoptedBenchmark) -> tuple[str, ...]:
    """Return the hashes of a benchmark's messages for the fixed row, with a reference and without one."""
    return tuple(sha256_json(_messages(read, reference))[:8] for reference in ("R", None))


def _messages(read: AdoptedBenchmark, reference: str | None = "R") -> str:
    messages = read.first({**_ROW, "reference": reference})
    return str([{"role": message.role, "content": message.content} for message in messages])
