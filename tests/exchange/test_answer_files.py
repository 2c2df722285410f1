"""Answers that were made elsewhere: into the lake, judged and scored like any others, and out as requests before."""

import asyncio
import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import polars as pl
import pytest

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.exchange.answer_files import import_answers, requests_of
from shaberi_dagster.exchange.outcomes import answers_result
from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.reports.requests import ScoreSelection
from shaberi_dagster.reports.score_reading import read_scores
from shaberi_dagster.runs.workspace import Workspace
from tests.commands import run
from tests.example_runs import ask, materialized, own_engine, stored_run
from tests.exchange.trees.trees import questions_of
from tests.mock_endpoint import MockEndpoint

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def engine() -> Iterator[None]:
    with own_engine({}):
        yield


def _said(document: Any) -> str:
    return "\n".join(line for block in document.blocks(None) for line in block.texts)


def _rows(workspace: Workspace, run_id: str) -> list[dict[str, Any]]:
    return workspace.lake.read("answers", {"run_id": run_id}).sort("question_id").to_dicts()


def test_rows_become_answers_and_others_are_counted_and_named(workspace: Workspace, tmp_path: Path) -> None:
    first, second, third, *rest = questions_of("tengu")
    path = tmp_path / "answers.jsonl"
    rows = [
        {"question": first.question, "answer": "<think>Hm.</think>一", "prompt_tokens": 7, "finish_reason": "stop"},
        {"question_id": second.question_id, "response": "二", "thinking": "うーん"},
        {"question": first.question, "answer": "一つ目"},
        {"question": "誰も聞いていない", "answer": "?"},
        {"question": third.question},
        {"custom_id": f"tengu/{third.question_id}/x", "response": {"body": []}},
        {"custom_id": f"tengu/{third.question_id}/0", "response": "lost"},
        {"question_id": [1], "answer": "?"},
    ]
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")

    done = import_answers([path], workspace, model="far", tag="july", benchmarks=["tengu"])

    answers = {row["question_id"]: row for row in _rows(workspace, done.run_id)}
    assert {name: answers[first.question_id][name] for name in ("answer", "thinking", "answer_prompt_tokens")} == {
        "answer": "一",
        "thinking": "Hm.",
        "answer_prompt_tokens": 7,
    }
    assert (answers[second.question_id]["answer"], answers[second.question_id]["thinking"]) == ("二", "うーん")
    assert len(answers) == 2
    reasons = dict(done.report.quarantine.select("source_line", "reason").iter_rows())
    assert reasons == {
        3: "answers the question of line 1 again, which stands",
        4: "is to no question of tengu@5",
        5: "has no answer: it stands in answer, response, output, completion",
        6: "the reply has no choices with a message",
        7: "is no line of a batch's output",
        8: "is to no question of tengu@5",
    }
    assert done.report.discrepancies() == []
    assert [len(texts) for texts in done.missing.values()] == [1 + len(rest)]
    said = _said(answers_result(done))
    assert "2 answered questions in run far@@july (0 were there); 6 rows set aside" in said
    assert f"without an answer: {1 + len(rest)} questions of tengu@5" in said


def test_a_file_that_is_none_is_named_once_with_its_line(workspace: Workspace, tmp_path: Path) -> None:
    (path := tmp_path / "answers.jsonl").write_text('{"question": "?"}\n[', encoding="utf-8")
    done = import_answers([path], workspace, model="far", tag="july", benchmarks=["tengu"])
    assert done.report.quarantine.select("source_line", "reason").rows() == [
        (2, "is not JSON: unexpected end of data at column 2")
    ]
    (empty := tmp_path / "empty").mkdir()
    with pytest.raises(ConfigurationError, match=rf"^no answers in {empty}, among 0 files$"):
        import_answers([empty], workspace, model="far", tag="july", benchmarks=["tengu"])


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl"])
def test_a_whole_set_from_any_form_is_judged_and_scored_like_a_run_of_ours(
    form: str, workspace: Workspace, mock: MockEndpoint, tmp_path: Path
) -> None:
    rows = [
        {"question": question.question, "answer": f"答え{number}"}
        for number, question in enumerate(questions_of("elyza"))
    ]
    path = tmp_path / f"answers.{form}"
    if form == "csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, ["question", "answer"])
            writer.writeheader()
            writer.writerows(rows)
    elif form == "parquet":
        pl.DataFrame(rows).write_parquet(path)
    else:
        path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")
    import_answers([path], workspace, model="far", tag="july", benchmarks=["elyza"])

    spec = stored_run(workspace, ask(mock, model="far", tag="july", benchmarks=None, judge_models=["judge"]))
    materialized(spec, workspace, "judgements", "scores", "metrics")

    assert {body["model"] for body in mock.bodies} == {"judge"}
    with open_catalog(workspace.settings.warehouse) as catalog:
        (row,) = read_scores(catalog, ScoreSelection(models=("far",))).rows
    assert (row.question_set, row.n_planned, row.n_scored) == ("elyza@5", 5, 5)


def test_what_was_imported_before_stays_and_a_benchmark_can_be_added(workspace: Workspace, tmp_path: Path) -> None:
    for benchmark in ("elyza", "tengu"):
        path = tmp_path / f"{benchmark}.jsonl"
        rows = [{"question_id": question.question_id, "answer": "一"} for question in questions_of(benchmark)]
        path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
        done = import_answers([path], workspace, model="far", tag="july", benchmarks=[benchmark])
    again = import_answers([path], workspace, model="far", tag="july", benchmarks=["tengu"])

    sets = workspace.lake.read("answers", {"run_id": done.run_id}).group_by("question_set").len().sort("question_set")
    assert sets.rows() == [("elyza@5", 5), ("tengu@5", 5)]
    assert not again.report.changed


def test_requests_go_out_are_answered_there_and_come_back(
    workspace: Workspace, mock: MockEndpoint, tmp_path: Path
) -> None:
    request = ask(mock, model="far", tag="july", benchmarks=["elyza", "rakuda"], samples=2, top_p=0.9)
    lines = [json.loads(line) for line in requests_of(request, workspace)]

    async def answer() -> list[dict[str, Any]]:
        async with aiohttp.ClientSession() as session:
            done = []
            for line in lines:
                async with session.post(mock.base_url.removesuffix("/v1") + line["url"], json=line["body"]) as reply:
                    body = await reply.json()
                response = {"status_code": reply.status, "body": body}
                done.append({"id": "x", "custom_id": line["custom_id"], "response": response, "error": None})
            return done[::-1]

    path = tmp_path / "output.jsonl"
    done = asyncio.run(answer())
    done[0] = done[0] | {"response": None, "error": {"code": "batch_expired", "message": "expired"}}
    path.write_text("\n".join(json.dumps(line) for line in done), encoding="utf-8")

    imported = import_answers([path], workspace, model="far", tag="july", benchmarks=["elyza", "rakuda"])

    assert len(lines) == 20
    assert all(line["body"]["top_p"] == 0.9 for line in lines)
    rows = workspace.lake.read("answers", {"run_id": imported.run_id})
    assert rows.group_by("status").len().sort("status").rows() == [("error", 1), ("ok", 19)]
    assert rows.filter(status="ok")["answer_completion_tokens"].null_count() == 0
    assert imported.missing == {"elyza@5": [], "rakuda@5": []}
    assert imported.report.discrepancies() == []


def test_a_run_of_ours_is_not_added_to(workspace: Workspace, mock: MockEndpoint, tmp_path: Path) -> None:
    stored_run(workspace, ask(mock, model="far", tag="july", benchmarks=["tengu"]))
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"question_id": questions_of("tengu")[0].question_id, "answer": "一"}), encoding="utf-8")

    with pytest.raises(ConfigurationError, match="was not imported from answer files"):
        import_answers([path], workspace, model="far", tag="july", benchmarks=["tengu"])


@pytest.mark.long
def test_the_commands_do_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"question_id,answer\n{questions_of('rakuda')[0].question_id},一\nnobody,二\n", encoding="utf-8")

    done = run("shaberi", "import-answers", path, "--model", "far", "--benchmark", "rakuda")
    requests = run("shaberi", "export", "--format", "requests", "--model", "near", "--benchmark", "rakuda").succeeded()

    assert done.code == 3
    assert "1 answered questions in run far@@default" in done.out
    assert "a.csv:2 is to no question of rakuda@5" in done.out
    assert len(requests.out.splitlines()) == 5
