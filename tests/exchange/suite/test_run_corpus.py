"""`run-evals --preset` against a server: it receives, body for body, what the suite sends."""

import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.commands import run, run_without_dagster
from tests.mock_endpoint import running_mock

pytestmark = [pytest.mark.corpus, pytest.mark.integration]

MODEL, JUDGE = "example/plain-7b", "gpt-4.1-2025-04-14"
COLUMNS = {
    "tengu": {"Question": "question", "Answer": "reference", "Criteria": "criteria", "Category": "category"},
    "elyza": {"input": "question", "output": "reference", "eval_aspect": "criteria"},
    "mt_bench": {"Question": "question", "category": "category", "id": "upstream_id"},
    "rakuda": {"text": "question", "category": "category", "question_id": "upstream_id"},
}
VERDICT = "よい。\n<score>4</score>\n評価：[[4]]\nFINAL SCORE: 4"


def golden(version: str) -> dict[str, dict[str, Any]]:
    path = Path(os.environ["SHABERI_CORPUS"]) / "suite" / version / "golden_messages.jsonl"
    return {line["id"]: line for line in map(orjson.loads, path.read_bytes().splitlines())}


def body_of(line: dict[str, Any]) -> dict[str, Any]:
    not_sent = {"api", "base_url", "api_base"}
    sent = {name: value for name, value in line["parameters"].items() if name not in not_sent}
    return sent | {"model": sent["model"].removeprefix("hosted_vllm/"), "messages": line["messages"]}


def by_text(bodies: Any) -> list[dict[str, Any]]:
    return sorted(bodies, key=lambda body: [message["content"] for message in body["messages"]])


@pytest.mark.long
@pytest.mark.parametrize("version", ["2025-07-06-23ffa1e", "2025-11-28-f8cd7a0"])
def test_a_run_asks_and_judges_as_the_suite_does(version, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = golden(version)
    judged = [line for name, line in lines.items() if name.startswith("judge-") and name.endswith("-1")]
    # Question files have no blank texts beside nulls (no published row has one), and blank answers are not judged.
    judged = [line for line in judged if "" not in line["row"].values() and (line["model_answer"] or "").strip()]
    asked = [lines[line["id"].replace("judge-", "generation-")] for line in judged]
    answers = {line["messages"][-1]["content"]: kept["model_answer"] for line, kept in zip(asked, judged, strict=True)}
    for benchmark, columns in COLUMNS.items():
        rows = [line["row"] for line in judged if line["benchmark"] == benchmark]
        ours = [{columns[name]: value for name, value in row.items()} for row in rows]
        (tmp_path / f"{benchmark}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in ours))
    checkout = Path(os.environ["SHABERI_CORPUS"]) / "suite" / version
    adopted = run("shaberi", "adopt", checkout, "--name", "old").succeeded()
    assert "tengu, elyza, mt_bench, rakuda, answers" in adopted.out

    def reply(body: dict[str, Any], _: int) -> str:
        return VERDICT if body["model"] == JUDGE else answers[body["messages"][-1]["content"]]

    with running_mock(script=reply) as mock:
        where = ("--base-url", mock.base_url, "--judge-base-url", mock.base_url)
        chosen = ("--preset", "old", "--model", MODEL, "--judge-model", JUDGE, "--questions", tmp_path)
        run_without_dagster("run-evals", *chosen, *where).succeeded()

    assert by_text(mock.bodies) == by_text(map(body_of, [*asked, *judged]))
    scores = run(
        "shaberi", "sql", "select judge, score, status, count(*) n from judgements group by all", "--format", "json"
    )
    assert orjson.loads(scores.succeeded().out) == [
        {"judge": f"{JUDGE}+old", "score": 4.0, "status": "ok", "n": len(judged)}
    ]
