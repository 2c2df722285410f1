"""Scores found again in stored outputs: nobody is asked."""

from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from aiohttp import web

from shaberi_dagster.lake.journal.records import Call
from shaberi_dagster.runs.spec import CallOptions, RunSpec
from shaberi_dagster.runs.stages.base import StageResult
from shaberi_dagster.runs.stages.evaluation import materialize
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.tasks.judges import llm
from shaberi_dagster.tasks.judges.parse import ParsedScore
from shaberi_dagster.tasks.judges.parse import parse_score as parse
from shaberi_dagster.util.progress import LogReporter
from tests.example_runs import ask, asked_of, checks, materialized, stored_run
from tests.mock_endpoint import MockEndpoint, Scripted, running_mock

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("engine")]


def _scripted(judged: Scripted, fallback: Scripted = "FINAL SCORE: 3") -> Any:
    def script(body: dict[str, Any], _: int) -> Scripted:
        if body["model"] == "mock-model":
            return "答え"
        return fallback if "<judgement id=" in body["messages"][-1]["content"] else judged

    return script


def _judged(workspace: Workspace, mock: MockEndpoint, **values: Any) -> RunSpec:
    spec = stored_run(workspace, ask(mock, **values))
    materialized(spec, workspace)
    return spec


def _reparsed(spec: RunSpec, workspace: Workspace) -> tuple[StageResult, list[str]]:
    """The outcome, and what was said."""
    said: list[str] = []
    place = replace(workspace, default_reporter=LogReporter(said.append))
    (outcome,) = materialize("judgements", spec.run_id, ["tengu"], place, reprocess=True)
    return outcome, said


def _edit(workspace: Workspace, **values: Any) -> str:
    """Let the first judgement be another than its output says; its question."""
    rows = workspace.lake.read("judgements").sort("question_id")
    first = pl.int_range(pl.len()) == 0
    edited = rows.with_columns(
        pl.when(first).then(pl.lit(value)).otherwise(name).cast(rows.schema[name]).alias(name)
        for name, value in values.items()
    )
    workspace.lake.replace("judgements", edited, {"run_id": rows["run_id"][0]})
    return str(rows["question_id"][0])


def test_what_says_the_same_as_before_changes_no_table_and_asks_nobody(workspace: Workspace) -> None:
    with running_mock(script=_scripted("FINAL SCORE: 7")) as mock:
        spec = _judged(workspace, mock)
        requests, versions = mock.stats()["requests"], workspace.lake.versions()
        outcome, said = _reparsed(spec, workspace)
        assert mock.stats()["requests"] == requests
    assert workspace.lake.versions() == versions
    assert "0 of 5 stored outputs give another score than before" in said
    facts = outcome.facts
    assert (facts["rows"], facts["already_there"], facts["calls_made"], facts["mean_score"]) == (5, 5, 0, 7.0)
    assert all(checks(outcome).values())


def test_another_score_supersedes_the_one_that_was_found_before(workspace: Workspace) -> None:
    with running_mock(script=_scripted("良い。\nFINAL SCORE: 7")) as mock:
        spec = _judged(workspace, mock)
        question_id = _edit(workspace, score=77.0, score_source="bare_number", out_of_scale=True)
        requests = mock.stats()["requests"]
        outcome, said = _reparsed(spec, workspace)
        materialized(spec, workspace, "scores", "metrics")
        assert mock.stats()["requests"] == requests
        rows = workspace.lake.read("judgements", {"question_id": question_id}).sort("superseded")
        columns = ("superseded", "status", "score", "score_source", "out_of_scale")
        assert rows.select(columns).rows() == [
            (False, "ok", 7.0, "final_score", False),
            (True, "ok", 77.0, "bare_number", True),
        ]
        same = [name for name in rows.columns if name not in {*columns, "created_at", "superseded_at"}]
        assert rows.select(same).row(0) == rows.select(same).row(1)
        assert "1 of 5 stored outputs give another score than before" in said
        assert (outcome.facts["rows"], outcome.facts["superseded_rows"]) == (5, 1)
        assert workspace.lake.read("scores", {"question_id": question_id})["score"].to_list() == [7.0]
        assert workspace.lake.read("metrics").filter(null_policy="strict")["score"].to_list() == [7.0]
        # Judging finds nothing to do either, and a second reading nothing new.
        materialized(spec, workspace, "judgements")
        assert mock.stats()["requests"] == requests
    assert "0 of 5 stored outputs give another score than before" in _reparsed(spec, workspace)[1]


def test_a_score_where_there_was_none_replaces_the_failure(workspace: Workspace) -> None:
    with running_mock(script=_scripted("FINAL SCORE: 7")) as mock:
        spec = _judged(workspace, mock)
    question_id = _edit(
        workspace,
        status="error",
        error_class="no_score",
        error_message="no score in the judge's output",
        score=None,
        score_source=None,
        out_of_scale=None,
    )
    outcome, _ = _reparsed(spec, workspace)
    rows = workspace.lake.read("judgements", {"question_id": question_id})
    columns = ("superseded", "status", "error_class", "error_message", "score", "out_of_scale")
    assert sorted(rows.select(columns).rows()) == [
        (False, "ok", None, None, 7.0, False),
        (True, "error", "no_score", "no score in the judge's output", None, None),
    ]
    assert outcome.facts["superseded_rows"] == 1


def test_a_parser_that_finds_nothing_any_more_leaves_a_failure_without_a_score(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_mock(script=_scripted("FINAL SCORE: 7")) as mock:
        spec = _judged(workspace, mock)
    monkeypatch.setattr(llm, "parse_score", lambda *_, **__: None)
    outcome, said = _reparsed(spec, workspace)
    assert sum(line.endswith(": 7 -> none") for line in said) == 5
    assert f"`run-evals --model {spec.model} --tag {spec.run_tag}` calls the judges for them again, 5 calls" in str(
        said
    )
    rows = workspace.lake.read("judgements").filter(~pl.col("superseded"))
    columns = ("status", "error_class", "score", "score_source", "out_of_scale")
    assert rows.select(columns).unique().rows() == [("error", "no_score", None, None, None)]
    assert (outcome.facts["rows"], outcome.facts["superseded_rows"]) == (5, 5)


@pytest.mark.parametrize(("said", "score"), [("11", 11.0), ("4/100", 4.0)])
def test_a_score_out_of_the_scale_that_counts_goes_on_counting_until_it_is_judged_again(
    said: str, score: float, workspace: Workspace
) -> None:
    with running_mock(script=_scripted(f"FINAL SCORE: {said}")) as mock:
        spec = _judged(workspace, mock)
        counted = {"status": "ok", "score": score, "score_source": "final_score", "error_class": None}
        _edit(workspace, **counted, error_message=None, out_of_scale=score > 10)
        before = workspace.lake.read("judgements").filter(status="ok")
        _reparsed(spec, workspace)
        materialized(spec, workspace, "judgements")
        assert workspace.lake.read("judgements").filter(status="ok").equals(before)
        assert before.select("score", "superseded").rows() == [(score, False)]


def test_a_parser_that_now_reads_the_first_output_needs_no_fallback(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_mock(script=_scripted("八点です")) as mock:
        spec = _judged(workspace, mock)
        requests = mock.stats()["requests"]

        def reads_more(text: str, **options: Any) -> ParsedScore | None:
            return ParsedScore(8.0, "legacy_form") if text == "八点です" else parse(text, **options)

        assert workspace.lake.read("judgements")["score_source"].to_list() == ["fallback"] * 5
        _reparsed(spec, workspace)
        assert workspace.lake.read("judgements")["superseded"].sum() == 0, "the fallback says 3 as before"
        monkeypatch.setattr(llm, "parse_score", reads_more)
        _reparsed(spec, workspace)
        assert mock.stats()["requests"] == requests
    rows = workspace.lake.read("judgements").filter(~pl.col("superseded"))
    assert rows.select("score", "score_source", "fallback_output").unique().rows() == [(8.0, "legacy_form", None)]


def test_a_fallback_that_failed_stays_the_failure_that_it_is(workspace: Workspace) -> None:
    def refuses_fallbacks(body: dict[str, Any], number: int) -> Scripted:
        said = _scripted("良い", fallback="")(body, number)
        return said or web.json_response({"error": {"message": "no"}}, status=400)

    with running_mock(script=refuses_fallbacks) as mock:
        spec = _judged(workspace, mock)
        before, versions = workspace.lake.read("judgements"), workspace.lake.versions()
        assert set(before["error_class"]) == {"permanent"}
        _, said = _reparsed(spec, workspace)
        assert (workspace.lake.read("judgements").equals(before), workspace.lake.versions()) == (True, versions)
        assert "0 of 5 stored outputs give another score than before" in said
        # Only the fallback, one request for equal outputs, is made again: the judge's own output is still of use.
        asked = asked_of(mock, "judge-a")
        mock.options.script = _scripted("FINAL SCORE: 9")
        materialized(spec, workspace, "judgements")
        assert asked_of(mock, "judge-a") == asked + 1
    assert set(workspace.lake.read("judgements").filter(~pl.col("superseded"))["score"]) == {3.0}


def test_the_output_that_is_read_is_the_rows_own_though_another_run_paid_for_the_same_request_later(
    workspace: Workspace,
) -> None:
    with running_mock(script=_scripted("FINAL SCORE: 7")) as mock:
        spec = _judged(workspace, mock)
        mock.options.script = _scripted("FINAL SCORE: 2")
        fresh = Workspace(workspace.settings, environment={}, options=CallOptions(fresh=True))
        other = _judged(fresh, mock, tag="other")
        hashes = workspace.lake.read("judgements")["request_hash"]
        assert hashes.n_unique() < len(hashes), "answers to equal questions are equal, so requests are"
        _, said = _reparsed(spec, workspace)
    assert "0 of 5 stored outputs give another score than before" in said
    scores = workspace.lake.read("judgements").group_by("run_id").agg(pl.col("score").mean()).rows()
    assert sorted(scores) == [(spec.run_id, 7.0), (other.run_id, 2.0)]


def test_judgements_of_an_answer_that_is_another_now_are_left_alone(workspace: Workspace) -> None:
    with running_mock(script=_scripted("FINAL SCORE: 7")) as mock:
        spec = _judged(workspace, mock)
    _edit(workspace, score=1.0, answer_hash="of another text")
    outcome, said = _reparsed(spec, workspace)
    assert "0 of 5 stored outputs give another score than before" in said
    assert not checks(outcome)["fresh"]


def test_superseded_judgements_are_not_read_again(workspace: Workspace) -> None:
    with running_mock(script=_scripted("FINAL SCORE: 7")) as mock:
        spec = _judged(workspace, mock)
    _edit(workspace, score=1.0)
    _reparsed(spec, workspace)
    before = workspace.lake.read("judgements")
    assert before["superseded"].sum() == 1
    _reparsed(spec, workspace)
    assert workspace.lake.read("judgements").equals(before)


def test_calls_that_an_interrupted_stage_left_in_its_journal_are_not_lost(workspace: Workspace) -> None:
    with running_mock(script=_scripted("FINAL SCORE: 7")) as mock:
        spec = _judged(workspace, mock)
        stored_run(workspace, ask(mock, judge_models=["judge-b"]))
        call = workspace.lake.read("calls", {"stage": "judgements"}).row(0, named=True)
        with workspace.journals.open(spec.run_id, "judgements") as journal:
            labels = {"stage": "judgements", "benchmark": "tengu", "question_id": "q", "purpose": "judge"}
            journal.append(Call.from_record(call | {"request_hash": "left"}), labels)
        _reparsed(spec, workspace)
    assert workspace.lake.read("calls", {"request_hash": "left"}).height == 1
