"""What people see of some lakes: every command, format, page, view and file of results, as it is kept in `kept/`.

`making.txt` makes the lakes with real commands and `reading.txt` reads them. After a change that people are meant to see,
`SHABERI_RECORD=1` writes `kept/` again, and the commit shows what moved.
"""

import difflib
import html
import math
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pytest

from tests.commands import lake_of, run
from tests.ensembles import prompt_of, starter_questions
from tests.exchange.trees.trees import LegacyTree, questions_of, rows_of
from tests.mock_endpoint import MockEndpoint, Scripted, content_for, running_mock
from tests.viewer.site import served

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.acceptance, pytest.mark.timeout(1800)]
_HERE = Path(__file__).parent
_PORT = 18417  # hashes of requests have the address
_MOST_PAGES = 150
_CHANGING = [
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?UTC|Z|[+-]\d\d(:?\d\d)?)?", "TIME"),
    (r"\b20[2-9]\d-\d\d-\d\d\b", "DAY"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "ID"),
    (r"(?<![.\w])(?=\d*[a-f])[0-9a-f]{8,64}\b", "HASH"),
    (r"[\d.,]+ calls/s(, limit \d+)?", "N calls/s"),
    (r"\bin \d+:\d\d", "in TIME"),
    (r"(?m)\b\d\.\d(?=  +-$)", "S"),  # seconds of strategies
    (r"(?m)(?<=unknown)(\s+)\d+\.\d\d$", r"\1S"),  # and of settings
    (r'("\w*seconds\w*": ?)[\d.e-]+', r"\1S"),
    (r"\b\d\.\d\d s\b", "S"),
    (r"(?m)^Concurrent calls to .*\n?", ""),  # told where a limit changed
    (r"(?m)\| \d\.\d( \([\d.]+×\))? \|(?= \d+ \| \d+ \|$)", "| S |"),
    (r"(?m)^.*files more than it needs.*\n?", ""),  # how many follows from the times of commits
    (r'"(git_\w+|platform|created_by|python)": [^,\n]+', r'"\1": HERE'),
]
"""What differs between two lakes that got the same commands."""
_LONG = 120  # characters of a text of which more is told by a checksum
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_COUNT = re.compile(r"\w+ .*?(\d+)/(\d+), .*failed")
_NUMBER = re.compile(r"(-?\d+\.\d+(?:e-?\d+)?)")


class Recorder:
    """Commands on one lake, and what they did.

    Args:
        folder: Of the lake.
        mock: Whom they call.
    """

    def __init__(self, folder: Path, mock: MockEndpoint) -> None:
        self._folder, self._mock = folder, mock
        at = f"--base-url {mock.base_url} --judge-base-url {mock.base_url}"
        self._places = {"at": at, "url": mock.base_url, "folder": str(folder)}
        self._environment = lake_of(folder) | {
            "SHABERI_RESULTS": str(folder / "results"),
            "HOME": str(folder / "home"),
            "COLUMNS": "120",
            "USER": "somebody",
        }

    def commands(self, file: str) -> Iterator[str]:
        """What each command of a file says, with its exit code and the calls that it makes."""
        for line in (_HERE / file).read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("#"):
                before = self._mock.stats()["requests"]
                finished = run(*line.format(**self._places).split(), environment=self._environment)
                calls = self._mock.stats()["requests"] - before
                said = [f"$ {line}", f"exit {finished.code}, {calls} calls", finished.out]
                said += ["stderr:", *_in_order(finished.err.splitlines())] if finished.err else []
                yield self._plain("\n".join(said))

    def pages(self) -> Iterator[str]:
        """The text of each page that links lead to."""
        seen: set[str] = set()
        waiting = ["/"]
        with served(self._folder / "warehouse") as site:
            while waiting and len(seen) < _MOST_PAGES:
                address = waiting.pop(0)
                if address in seen:
                    continue
                seen.add(address)
                reply = site.get(address)
                links = sorted(html.unescape(link) for link in re.findall(r'href="(/[^"#]*)', reply.text))
                waiting += [link for link in links if not link.startswith("/static")]
                text = re.sub(r"\s*\n\s*|\s\s+", "\n", html.unescape(re.sub(r"<[^>]*>", " ", reply.text)))
                text = re.sub(r"(?m)^\d\.\d$", "S", text)  # seconds of strategies
                yield self._plain(f"GET {address}\n{reply.status}\n{text}")

    def views(self) -> Iterator[str]:
        """The rows of each view, in the order of their texts."""
        with duckdb.connect(self._folder / "warehouse" / "catalog.duckdb", read_only=True) as catalog:
            names = catalog.sql(
                "select view_name from duckdb_views() where schema_name = 'main' and not internal and view_name != 'limit_changes' order by 1"
            )
            for (name,) in names.fetchall():
                found = catalog.sql(
                    f"select columns(lambda name: not regexp_matches(name, 'seconds|modified|git|platform|created_by'))::varchar from {name}"
                )
                rows = (" | ".join(_short(self._plain(str(cell))) for cell in row) for row in found.fetchall())
                yield "\n".join([f"{name}: {', '.join(found.columns)}", *sorted(rows), ""])

    def results(self) -> Iterator[str]:
        """The files beside the lake; lines of a table in the order of their texts."""
        for path in sorted((self._folder / "results").rglob("*")):
            if path.is_file():
                text = _TEXT.sub(lambda found: _short(found[0]), self._plain(path.read_text(encoding="utf-8")))
                lines = sorted(text.splitlines()) if path.suffix == ".jsonl" else text.splitlines()
                yield "\n".join([str(path.relative_to(self._folder)), *lines, ""])

    def _plain(self, text: str) -> str:
        """A text without what differs between two lakes."""
        text = text.replace(str(self._folder), "FOLDER")
        for pattern, word in _CHANGING:
            text = re.sub(pattern, word, text)
        return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def _in_order(lines: Sequence[str]) -> Iterator[str]:
    """Lines, of which those of stages at work at the same time stand in order, and only the last of each."""
    lines = [line for line in lines if not (count := _COUNT.match(line)) or count[1] == count[2]]
    for is_progress, group in groupby(lines, lambda line: " failed" in line):
        yield from sorted(group, key=str if is_progress else lambda _: "")


def _short(text: str) -> str:
    """A text on one line; of a long one the beginning and a checksum."""
    text = text.strip().replace("\n", "\\n")
    return text if len(text) <= _LONG else f"{text[:_LONG]}… {zlib.crc32(text.encode()):08x}"


def _same_numbers(kept: str, now: str) -> bool:
    """Return whether two lines are the same but for numbers that differ by less than 1e-9."""
    parts = _NUMBER.split(kept), _NUMBER.split(now)
    return parts[0][::2] == parts[1][::2] and all(
        math.isclose(float(one), float(other), rel_tol=1e-9, abs_tol=1e-9)
        for one, other in zip(parts[0][1::2], parts[1][1::2], strict=True)
    )


def _differences(kept: str, now: str) -> list[str]:
    """What differs, line by line; numbers may by 1e-9."""
    before, after = kept.splitlines(), now.splitlines()
    if len(before) == len(after):
        after = [one if _same_numbers(one, other) else other for one, other in zip(before, after, strict=True)]
    return list(difflib.unified_diff(before, after, "kept", "now", lineterm="", n=1))


def _reply(body: dict[str, Any], _: int) -> Scripted:
    """The mock's own texts, but for questions with a right answer: one in three is wrong."""
    prompt = prompt_of(body)
    for question in (*starter_questions("gsm8k"), *starter_questions("simpleqa")):
        if question.question in prompt and "FINAL SCORE" not in prompt:
            is_right = zlib.crc32(f"{body['model']} {prompt}".encode()) % 3
            return f"The answer is {question.reference if is_right else 'unknown'}."
    return content_for(body)


def _make_files(folder: Path) -> None:
    """The tree and the answers that are imported."""
    tree = LegacyTree(folder / "tree")
    for place, model in enumerate(("shisa", "umiyuki", "lightblue", "rinna", "elyza")):
        answers = [f"{model}の答え{number}です。" for number in range(5)]
        tree.answers("tengu", rows_of("tengu", answers), model=model)
        for judge, strict in (("gpt-4", 0), ("gpt-5", 1)):
            scores = [max(1, 9 - place - strict - number % 3) for number in range(5)]
            tree.judgements("tengu", rows_of("tengu", answers, scores, judge_output="よい"), judge, model=model)
    lines = [
        orjson.dumps({"question_id": question.question_id, "answer": f"{place} 番"})
        for place, question in enumerate(questions_of("rakuda"))
    ]
    (folder / "answers.jsonl").write_bytes(b"\n".join(lines))


def test_what_people_see_is_what_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "recorded"
    _make_files(folder)
    with running_mock(port=_PORT, script=_reply) as mock:
        recorder = Recorder(folder, mock)
        now = {
            "making": "\n".join(recorder.commands("making.txt")),
            "reading": "\n".join(recorder.commands("reading.txt")),
            "pages": "\n".join(recorder.pages()),
            "views": "\n".join(recorder.views()),
            "results": "\n".join(recorder.results()),
        }
    kept = _HERE / "kept"
    if os.environ.get("SHABERI_RECORD") == "1":
        for name, text in now.items():
            (kept / f"{name}.txt").write_text(text, encoding="utf-8")
    found = {name: _differences((kept / f"{name}.txt").read_text(encoding="utf-8"), text) for name, text in now.items()}
    shown = [f"{name}: {line[:300]}" for name, lines in found.items() for line in lines[:60]]
    assert not shown, "\n".join(shown)
