"""The two versions of the corpus: messages, parameters, kept answers and scores equal what the suite's own code made."""

import asyncio
import csv
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from shaberi_dagster.exchange.suite.reading import known, parameters
from shaberi_dagster.llm.endpoints import resolve_endpoint
from shaberi_dagster.tasks.benchmarks.questions import Question
from shaberi_dagster.tasks.benchmarks.registry import get_benchmark
from shaberi_dagster.tasks.judges.adopted import AdoptedJudge
from shaberi_dagster.tasks.judges.sets import ADOPTED, AdoptedSet, answer_settings, judge_settings, kept_answer
from shaberi_dagster.tasks.judges.spec import JudgeSpec
from shaberi_dagster.tasks.judges.suite_calls import CallSettings
from shaberi_dagster.tasks.judges.suite_parsers import PARSERS
from shaberi_dagster.util.errors import ConfigurationError
from tests.commands import run

pytestmark = pytest.mark.corpus

VERSIONS = {"2025-07-06-23ffa1e": "gpt-4.1-2025-04-14", "2025-11-28-f8cd7a0": "gpt-5.1-2025-11-13"}
"""Folders, and the judge that their command asks where none is named."""
FIELDS = {
    "tengu": {"question": "Question", "reference": "Answer", "criteria": "Criteria", "category": "Category"},
    "elyza": {"question": "input", "reference": "output", "criteria": "eval_aspect"},
    "mt_bench": {"question": "Question", "category": "category", "upstream_id": "id"},
    "rakuda": {"question": "text", "category": "category", "upstream_id": "question_id"},
}
LIMITS = {"max_tokens", "max_completion_tokens", "max_output_tokens"}


def corpus() -> Path:
    return Path(os.environ["SHABERI_CORPUS"]) / "suite"


@pytest.fixture(params=VERSIONS)
def version(request, tmp_path, monkeypatch) -> str:
    """A version that was adopted as `old`."""
    monkeypatch.chdir(tmp_path)
    run("shaberi", "adopt", corpus() / request.param, "--name", "old").succeeded()
    return str(request.param)


def suite() -> AdoptedSet:
    return ADOPTED.use("old")


def lines(version: str, *kinds: str) -> Iterator[dict[str, Any]]:
    for line in (corpus() / version / "golden_messages.jsonl").read_bytes().splitlines():
        if (values := orjson.loads(line))["kind"] in kinds:
            yield values


def question(line: dict[str, Any]) -> Question:
    row = line.get("row") or {}
    fields = {ours: row.get(theirs) for ours, theirs in FIELDS[line["benchmark"]].items()}
    usual = {"question_id": "q" * 64, "position": 1, "category": None, "upstream_id": None, "reference": None}
    return Question(**usual | {"criteria": None} | fields | {"question": fields["question"] or ""})


def judge(line: dict[str, Any], version: str) -> AdoptedJudge:
    model = line["model"] or VERSIONS[version]
    endpoint = resolve_endpoint(model, "http://localhost:1/v1")
    settings = {"temperature": 0, "max_tokens": 1024, "score_rounding": "none"}
    spec = JudgeSpec(model=model, prompt="old", endpoint=endpoint, **settings)
    return AdoptedJudge(spec, get_benchmark(line["benchmark"]))


def scored(judge: AdoptedJudge, line: dict[str, Any], *replies: str | None) -> tuple[float | None, list[list[Any]]]:
    """The score, and the messages of the second call."""
    asked: list[list[Any]] = []

    async def ask(messages: Any) -> str:
        asked.append([vars(message) for message in messages])
        return replies[len(asked)] or ""

    score = asyncio.run(judge.score(question(line), line.get("model_answer", "答え") or "", replies[0] or "", ask))
    return score, asked


def sent(settings: CallSettings) -> dict[str, Any]:
    """The parameters of a call as a server would get them."""
    own = {"model": settings.model, "temperature": settings.temperature, "limit": settings.max_tokens}
    penalty = {"frequency_penalty": settings.frequency_penalty} if settings.frequency_penalty else {}
    return {"api": settings.api, **own, **penalty, **settings.parameters}


def expected(line: dict[str, Any]) -> dict[str, Any]:
    left = {name: value for name, value in line["parameters"].items() if name not in {"base_url", "api_base"}}
    if effort := left.pop("reasoning", None):
        left["reasoning_effort"] = effort["effort"]
    limit = next(left.pop(name) for name in LIMITS & left.keys())
    return left | {"model": left["model"].removeprefix("hosted_vllm/"), "limit": limit}


def test_everything_is_read(version):
    read = suite()
    assert not read.refused
    assert list(read.benchmarks) == ["tengu", "elyza", "mt_bench", "rakuda"]
    assert read.generation == {"2025-07-06-23ffa1e": "J2", "2025-11-28-f8cd7a0": "J3"}[version]
    assert len(Path("plugins/adopted/old.yaml").read_text().splitlines()) < 300


def test_answers_are_asked_for_and_kept_alike(version):
    for line in lines(version, "generation"):
        # SHABERI_MAX_TOKENS is --max-tokens, -fp is --frequency-penalty.
        if "SHABERI_MAX_TOKENS" in (line.get("environment") or {}):
            continue
        settings = answer_settings("old", line["model"])
        system = [{"role": "system", "content": settings.system}]
        assert line["messages"] == [*system, {"role": "user", "content": question(line).question}], line["id"]
        theirs, given = expected(line), line.get("frequency_penalty")
        if given is not None and sent(settings).pop("frequency_penalty", None):
            settings = settings.model_copy(update={"frequency_penalty": given})
        assert sent(settings) == {name: value for name, value in theirs.items() if value != 0.0}, line["id"]
    for line in lines(version, "stored"):
        assert kept_answer("old", line["model"], line["model_output"]) == line["stored_answer"], line["id"]


def test_judges_are_asked_alike(version):
    for line in lines(version, "judge"):
        model = line["model"] or VERSIONS[version]
        if line.get("contents") or (line["error"] and line["parameters"]):
            continue  # native Gemini is not used; null answers are not judged
        if line["error"]:
            with pytest.raises(ConfigurationError, match="does not ask"):
                judge_settings("old", model, line["benchmark"])
            continue
        messages = judge(line, version).messages(question(line), line["model_answer"] or "")
        assert list(map(vars, messages)) == line["messages"], line["id"]
        assert sent(judge_settings("old", model, line["benchmark"])) == expected(line), line["id"]


def test_the_second_call_is_made_alike(version):
    for line in lines(version, "fallback"):
        _, asked = scored(judge(line, version), line, line["judge_text"], "FINAL SCORE: 2")
        assert asked == ([line["messages"]] if line["messages"] else []), line["id"]


def test_scores_are_found_alike(version):
    for line in lines(version, "score"):
        score, asked = scored(judge(line, version), line, line["judge_text"], line["fallback_text"])
        assert (score, 1 + len(asked)) == (line.get("score"), line["calls"]), line["id"]


def test_the_same_questions_are_left_out(version):
    for line in lines(version, "selection"):
        assert list(suite().benchmarks[line["benchmark"]].left_out) == line["left_out"]


def test_each_behaviour_of_the_facts_has_its_hash_and_parser():
    with (corpus() / "generations.csv").open(encoding="utf-8", newline="") as rows:
        facts = {
            (row["file"], row["function"], row["structure_hash"]): row["behaviour"] for row in csv.DictReader(rows)
        }
    ours = {
        (file, name, structure): behaviour
        for part in ("score", "judge", "thinking", "answers")
        for (file, name), behaviours in known(part).items()
        for structure, behaviour in behaviours.items()
    }
    told = re.compile(r"(?:(S\d[au]?) (tengu|elyza|mt_bench|rakuda)|(G\d+[bu]?)|(H\d)/R\d:.*)(?: \[same as .*)?$")
    parsers: dict[str, set[str]] = {}
    for place, fact in facts.items():
        if not (found := told.match(fact)):
            continue
        parser, benchmark, answering, thinking = found.groups()
        assert ours[place] == (parser or answering or thinking), place
        if parser:
            parsers.setdefault(benchmark, set()).add(parser)
    assert ours.keys() <= facts.keys()
    assert {name: set(of_benchmark) for name, of_benchmark in PARSERS.items()} == parsers
    assert set(parameters()["answers"]) == {name for name in ours.values() if re.fullmatch(r"G\d+[bu]?", name)}
