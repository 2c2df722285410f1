"""The two versions of the corpus: messages, parameters, kept answers and scores equal what the suite's own code made."""

import os
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from shaberi_dagster.exchange.suite.writing import adopt
from shaberi_dagster.judges.programs import ProgramCall, SuiteError, run
from shaberi_dagster.judges.sets import AdoptedSet

pytestmark = pytest.mark.corpus

VERSIONS = {"2025-07-06-23ffa1e": "gpt-4.1-2025-04-14", "2025-11-28-f8cd7a0": "gpt-5.1-2025-11-13"}
"""Folders, and the judge that their command asks where none is named."""
FIELDS = {
    "tengu": {"question": "Question", "reference": "Answer", "criteria": "Criteria", "category": "Category"},
    "elyza": {"question": "input", "reference": "output", "criteria": "eval_aspect"},
    "mt_bench": {"question": "Question", "category": "category", "upstream_id": "id"},
    "rakuda": {"question": "text", "category": "category", "upstream_id": "question_id"},
}


def folder(version: str) -> Path:
    return Path(os.environ["SHABERI_CORPUS"]) / "suite" / version


@cache
def suite(version: str) -> AdoptedSet:
    """The set as its file has it."""
    with tempfile.TemporaryDirectory() as plugins:
        adoption = adopt(folder(version), None, "old", Path(plugins), ())
        return AdoptedSet.model_validate(yaml.safe_load(adoption.path.read_text()))


def lines(version: str, *kinds: str) -> Iterator[dict[str, Any]]:
    for line in (folder(version) / "golden_messages.jsonl").read_bytes().splitlines():
        if (values := orjson.loads(line))["kind"] in kinds:
            yield values


def inputs(line: dict[str, Any], **others: Any) -> dict[str, Any]:
    row, options = line.get("row") or {}, line.get("options") or []
    environment = dict(line.get("environment") or {})
    if "--judge-base-url" in options:
        environment |= {"OPENAI_BASE_URL": options[options.index("--judge-base-url") + 1]}
    if "--gemini-judge" in options:
        environment |= {"GEMINI_NATIVE": "1", "OPENAI_API_KEY": "x"}
    fields = {
        ours: row.get(theirs, "" if ours == "question" else None) for ours, theirs in FIELDS[line["benchmark"]].items()
    }
    named = {f"environment {name}": value for name, value in environment.items()}
    return {"position": 1, "index": 0, **fields, **named, **others}


def followed(
    program: Any, values: dict[str, Any], replies: list[str | None]
) -> tuple[list[ProgramCall], Any, str | None]:
    """The calls of a program, its value, and the class of the error that ends it."""
    made: list[ProgramCall] = []
    walk = run(program, values)
    try:
        asked = next(walk)
        while True:
            made.append(asked)
            asked = walk.send(replies[len(made) - 1])
    except StopIteration as done:
        return made, done.value, None
    except SuiteError as error:
        return made, None, str(error)


def sent(asked: ProgramCall) -> dict[str, Any]:
    return {"api": asked.api, "model": asked.model, **asked.parameters}


def expected(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line["parameters"].items() if name not in {"base_url", "api_base"}}


@pytest.mark.parametrize("version", VERSIONS)
def test_everything_is_read(version):
    read = suite(version)
    assert not read.refused
    assert list(read.benchmarks) == ["tengu", "elyza", "mt_bench", "rakuda"]
    assert read.generation == {"2025-07-06-23ffa1e": "J2", "2025-11-28-f8cd7a0": "J3"}[version]


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_are_asked_for_and_kept_alike(version):
    for line in lines(version, "generation", "stored"):
        values = inputs(line, model=line["model"])
        (asked,), made, error = followed(suite(version).answers, values, [line.get("model_output", "x")])
        if line["kind"] == "stored":
            assert (made["stored"], error) == (line["stored_answer"], None), line["id"]
            continue
        assert asked.messages == line["messages"], line["id"]
        if line.get("frequency_penalty") is None:  # the command's default is part of what was read
            assert sent(asked) == expected(line), line["id"]
        else:
            ours, theirs = sent(asked), expected(line)
            assert {**ours, "frequency_penalty": 0} == {**theirs, "frequency_penalty": 0}, line["id"]


@pytest.mark.parametrize("version", VERSIONS)
def test_judges_are_asked_alike(version):
    for line in lines(version, "judge"):
        model = line["model"] or VERSIONS[version]
        values = inputs(line, model=model, answer=line["model_answer"])
        program = suite(version).benchmarks[line["benchmark"]].judge
        made, value, error = followed(program, values, ["FINAL SCORE: 5 <score>5</score> 評価：[[5]]"])
        assert error == line["error"], line["id"]
        if line["parameters"]:
            assert made[0].messages == (line["messages"] or line["contents"]), line["id"]
            assert sent(made[0]) == expected(line), line["id"]
        if value:
            assert value["stored"] == line["stored_answer"], line["id"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_second_call_is_made_alike(version):
    for line in lines(version, "fallback"):
        values = inputs(line, model=line["model"], answer=line["model_answer"])
        program = suite(version).benchmarks[line["benchmark"]].judge
        made, _, error = followed(program, values, [line["judge_text"], "FINAL SCORE: 2"])
        assert (len(made), error) == (line["calls"], None), line["id"]
        if line["messages"]:
            assert made[1].messages == line["messages"], line["id"]


@pytest.mark.parametrize("version", VERSIONS)
def test_scores_are_found_alike(version):
    for line in lines(version, "score"):
        values = inputs(line, model=line["model"], answer="答え")
        program = suite(version).benchmarks[line["benchmark"]].judge
        made, value, error = followed(program, values, [line["judge_text"], line["fallback_text"]])
        assert error == line["error"], line["id"]
        if value:
            score = value["score"]
            found = (score, type(score).__name__, len(made))
            assert found == (line["score"], line["score_type"], line["calls"]), line["id"]


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
def test_the_same_questions_are_left_out(version):
    for line in lines(version, "selection"):
        assert list(suite(version).benchmarks[line["benchmark"]].left_out) == line["left_out"]
