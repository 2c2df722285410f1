"""Answers that were made elsewhere: into the lake, judged and scored like any others, and out as requests before."""

import asyncio
import csv
import json
from pathlib import Path
from typing import Any

import aiohttp
import polars as pl
import pytest

from shaberi_dagster.exchange.answer_files import import_answers, requests_of
from shaberi_dagster.exchange.outcomes import answers_result
from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.reports.requests import ScoreSelection
from shaberi_dagster.reports.scores import read_scores
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.util.errors import ConfigurationError
from tests.example_runs import ask, materialized, stored_run
from tests.exchange.trees.trees import questions_of
from tests.mock_endpoint import MockEndpoint

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("engine")]


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
        4: "is to no question of tengu@5: question '誰も聞いていない'",
        5: "has no answer: it stands in answer, response, output, completion",
        6: "sample_index 'x' is no whole number from 0",
        7: "is no line of a batch's output",
        8: "is to no question of tengu@5: question_id '[1]'",
    }
    assert done.report.discrepancies() == []
    assert [len(texts) for texts in done.missing.values()] == [1 + len(rest)]
    said = _said(answers_result(done))
    assert "2 answered questions in run far@@july (0 were there); 6 rows set aside" in said
    assert f"without an answer: {1 + len(rest)} questions of tengu@5" in said


@pytest.mark.parametrize("bad", ["[", '{"question_id": "1", "ans', "7"])
def test_a_line_that_is_none_costs_only_itself(bad: str, workspace: Workspace, tmp_path: Path) -> None:
    first, second = (json.dumps({"question": one.question, "answer": "一"}) for one in questions_of("tengu")[:2])
    (path := tmp_path / "answers.jsonl").write_text(f"{first}\n{bad}\n{second}\n{bad}", encoding="utf-8")
    done = import_answers([path], workspace, model="far", tag="july", benchmarks=["tengu"])
    assert done.n_answered == 2
    assert done.report.quarantine["source_line"].to_list() == [2, 4]
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
    assert (row["question_set"], row["n_planned"], row["n_scored"]) == ("elyza@5", 5, 5)


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


def _import(workspace: Workspace, path: Path, rows: list[dict[str, Any]], **named: Any) -> Any:
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")
    return import_answers([path], workspace, **{"model": "far", "tag": "july", "benchmarks": ["rakuda"]} | named)


def _folder(tmp_path: Path, *questions: tuple[object, str]) -> str:
    (folder := tmp_path / "q").mkdir()
    rows = [{"question_id": name, "category": "c", "question": text} for name, text in questions]
    (folder / "rakuda.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return str(folder)


@pytest.mark.parametrize("name", [7, 7.0, "7", "7.0", "07", "７", " 7 "])
@pytest.mark.parametrize("number", [1, 1.0, "1", "1.0"])
def test_a_whole_number_counts_in_every_spelling(
    name: object, number: object, workspace: Workspace, tmp_path: Path
) -> None:
    folder = _folder(tmp_path, (7, "一つ目"), (8, "二つ目"))
    rows = [{"question_id": name, "answer": "一", "sample_index": number, "prompt_tokens": number}]
    _import(workspace, tmp_path / "a.jsonl", rows, questions=folder)
    (row,) = _rows(workspace, "far@@july")
    assert (row["sample_index"], row["answer_prompt_tokens"]) == (1, 1)


@pytest.mark.parametrize("text", ["が・A\nB", "か\u3099・A\r\nB", "\ufeffが・A\nB \n", "が・Ａ\nB"])
def test_a_question_is_found_in_any_unicode_form(text: str, workspace: Workspace, tmp_path: Path) -> None:
    folder = _folder(tmp_path, (1, "が・A\nB"), (2, "が・C"))
    assert _import(workspace, tmp_path / "a.jsonl", [{"question": text, "answer": "一"}], questions=folder).n_answered


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"question_id": 1}, "question_id '1' is of several questions of "),
        ({"question_id": "1"}, "question_id '1' is of several questions of "),
        ({"question_id": 2, "question": "四"}, "question_id '2', question '四' is of several questions of "),
        ({"question_id": 2.5}, "is to no question of rakuda@4-"),
        ({"question_id": 2, "sample_index": 0.5}, "sample_index '0.5' is no whole number from 0"),
        ({"question_id": 2, "sample_index": -1}, "sample_index '-1' is no whole number from 0"),
        ({"question_id": 2, "completion_tokens": "many"}, "completion_tokens 'many' is no whole number from 0"),
    ],
)
def test_what_is_not_certain_is_set_aside_with_its_text(
    row: dict[str, Any], reason: str, workspace: Workspace, tmp_path: Path
) -> None:
    folder = _folder(tmp_path, (1, "一"), ("1", "二"), (2, "三"), (3, "四"))
    done = _import(workspace, tmp_path / "a.jsonl", [row | {"answer": "!"}], questions=folder)
    (said,) = done.report.quarantine["reason"]
    assert (done.n_answered, said.startswith(reason)) == (0, True), said


@pytest.mark.parametrize(
    ("failure", "error_class"),
    [
        (
            {"response": {"status_code": 400, "body": {"error": {"message": "no", "code": "content_filter"}}}},
            "permanent",
        ),
        ({"error": {"code": "batch_expired", "message": "no"}}, "transient"),
        ({"response": {"status_code": 429, "body": {"error": {"message": "no"}}}}, "rate_limit"),
        ({"response": {"status_code": 200, "body": {"error": {"message": "no", "code": 503}}}}, "transient"),
    ],
)
def test_a_failed_line_gives_way_to_an_answer_before_or_after_it(
    failure: dict[str, Any], error_class: str, workspace: Workspace, tmp_path: Path
) -> None:
    name = f"rakuda/{questions_of('rakuda')[0].question_id}/0"
    good = {"custom_id": name, "response": {"body": {"choices": [{"message": {"content": "一"}}]}}}
    bad, path = failure | {"custom_id": name}, tmp_path / "a.jsonl"

    failed = _import(workspace, path, [bad])
    (row,) = _rows(workspace, "far@@july")
    answered = _import(workspace, path, [good])
    again = _import(workspace, path, [bad])
    together = _import(workspace, path, [bad, good, bad], tag="august")

    assert (row["status"], row["error_class"], row["error_message"]) == ("error", error_class, "no")
    assert [done.n_answered for done in (failed, answered, again, together)] == [0, 1, 1, 1]
    assert all(done.report.quarantine.is_empty() for done in (failed, answered, again, together))
    assert [row["answer"] for run in ("july", "august") for row in _rows(workspace, f"far@@{run}")] == ["一", "一"]


def test_a_run_of_ours_is_not_added_to(workspace: Workspace, mock: MockEndpoint, tmp_path: Path) -> None:
    stored_run(workspace, ask(mock, model="far", tag="july", benchmarks=["tengu"]))
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"question_id": questions_of("tengu")[0].question_id, "answer": "一"}), encoding="utf-8")

    with pytest.raises(ConfigurationError, match="was not imported from answer files"):
        import_answers([path], workspace, model="far", tag="july", benchmarks=["tengu"])
