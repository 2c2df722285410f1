"""One question is the same for the library, the terminal and the browser."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import polars as pl
import pytest

from shaberi_dagster.cli.command import FINE
from shaberi_dagster.cli.options import call
from shaberi_dagster.cli.shaberi import app
from shaberi_dagster.lake.catalog import open_catalog, write_catalog
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.reports import questions
from shaberi_dagster.reports.declared import question as question_report
from shaberi_dagster.reports.questions import (
    Span,
    answers_text,
    find_question,
    question_at,
    read_answers,
    read_question,
)
from shaberi_dagster.reports.reading import read_costs
from shaberi_dagster.util.errors import ConfigurationError

pytestmark = pytest.mark.integration

_NOW = datetime(2026, 7, 1, tzinfo=UTC)
_RUN = {"run_id": "alpha@@july", "model": "alpha", "run_tag": "july", "created_at": _NOW}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _made(tmp_path_factory.mktemp("question"))


@pytest.fixture(scope="module")
def catalog(warehouse: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with open_catalog(warehouse) as connection:
        yield connection


@pytest.fixture
def said(warehouse: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What a command prints of this lake."""
    monkeypatch.setenv("SHABERI_WAREHOUSE", str(warehouse))
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments: str) -> str:
        assert call(app, arguments) == FINE
        return capsys.readouterr().out

    return run


def _made(folder: Path) -> Path:
    """Two samples of one run, judged by two judges; a strategy's answer; passes found something in the first sample."""
    lake = Lake(folder)
    place = {"benchmark": "tengu", "question_id": "q", "question_set": "tengu@1"}
    item = _RUN | place | {"status": "ok"}
    text = {"category": "敬語", "question": "犬は？", "reference": "7匹", "criteria": None, "position": 1}
    stored = place | text | {"question_set_sha256": "s", "created_at": _NOW}
    larger = [stored | {"question_set": "tengu@2", "question_id": name} for name in ("first", "second")]
    questions = [stored, larger[0], larger[1] | {"position": 2}]
    answers = [
        item | {"sample_index": sample, "answer": f"{sample}番目の答え", "answer_hash": f"h{sample}"}
        | {"finish_reason": "stop", "answer_ending": "complete", "request_hash": f"r{sample}"}
        for sample in (0, 1)
    ]  # fmt: skip
    scored = [
        item | {"sample_index": sample, "strategy": strategy, "judge": judge, "score": 8.0, "answer_hash": "h0"}
        for judge in "ba"
        for sample, strategy in ((0, None), (1, None), (0, "majority"))
    ]
    judged = [one | {"judge_output": "よい答え", "superseded": False, "score_source": "judge"} for one in scored]
    judged[0] |= {"judge_output": "answer_is [2:5]: よい答え", "score_source": "rule"}
    added = {
        "pipeline": "repetition",
        "score": 6.0,
        "deltas": [{"pass": "repetition", "delta": -2.0, "reason": "twice"}],
    }
    scores = [one | added for one in scored if one["judge"] == "a"]
    found = item | {"sample_index": 0, "strategy": None, "pass": "repetition", "reason": "twice"}
    found |= {"pass_version": "1", "pass_config": "{}", "pass_config_hash": "c"}
    details = json.dumps({"spans": [[0, 2, "again"]]})
    older = found | {"severity": 0.9, "details": None, "created_at": datetime(2026, 6, 1, tzinfo=UTC)}
    outputs = [older, found | {"severity": 0.5, "details": details}]
    spent = {"run_id": "alpha@@july", "model": "alpha", "benchmark": "tengu", "question_id": "q", "status": "ok"}
    spent |= {"stage": "answers", "request_hash": "r0", "cost_usd": 0.25, "base_url": "", "created_at": _NOW}
    run = _RUN | {"base_tag": "july", "spec": "{}", "spec_hash": "", "status": "complete", "updated_at": _NOW}
    tables = {"runs": [run], "questions": questions, "answers": answers, "judgements": judged, "scores": scores}
    for table, rows in (tables | {"pass_outputs": outputs, "calls": [spent]}).items():
        lake.append(table, pl.DataFrame(rows, infer_schema_length=None))
    write_catalog(lake)
    return folder


def test_samples_have_their_judgements_and_findings_and_strategies_stand_apart(catalog):
    ((first, second), consensus) = read_answers(catalog, "tengu", ["q"], ["alpha@@july"])["q", "alpha@@july"]

    assert [one["judge"] for one in first["judgements"]] == ["a", "b"]
    assert [(one["strategy"], one["judge"]) for one in consensus] == [("majority", "a"), ("majority", "b")]
    (finding,) = first["findings"]
    assert (finding["pass"], finding["severity"], finding["reason"]) == ("repetition", 0.5, "twice")
    assert finding["spans"] == [Span(0, 2, "again")]
    assert [one["read"] for one in first["judgements"]] == [None, Span(2, 5, "read by a rule")]
    assert (first["cost_usd"], second["cost_usd"], second["findings"]) == (0.25, None, [])
    assert (first["ending"], first["finish_reason"]) == ("complete", "stop")
    assert second["judgements"][0]["answer_hash"] != second["answer_hash"]


def test_the_passage_that_a_rule_read_is_underlined_on_a_terminal(catalog):
    texts = read_answers(catalog, "tengu", ["q"], ["alpha@@july"])["q", "alpha@@july"]
    run = {"run_ids": ["alpha@@july"], "model": "alpha", "run_tag": "july"}

    shown = answers_text(run, None, [texts])

    underlined = [shown.plain[span.start : span.end] for span in shown.spans if span.style == "underline"]
    assert underlined == [texts.samples[0]["answer"][2:5]]


def test_deltas_are_those_of_the_pipeline_and_texts_are_cut_where_that_is_asked_for(catalog):
    which = ("tengu", ["q"], ["alpha@@july", "beta@@july"])
    read = read_answers(catalog, *which, judges=["a"], pipeline="repetition", most=2)

    first = read["q", "alpha@@july"].samples[0]
    (judgement,) = first["judgements"]
    assert judgement["judge"] == "a"
    (delta,) = judgement["deltas"]
    assert (delta["pass"], delta["delta"], delta["reason"]) == ("repetition", -2.0, "twice")
    assert (first["answer"], first["answer_length"]) == ("0番", 6)
    assert (judgement["judge_output"], judgement["judge_output_length"]) == ("よい", 4)
    assert read["q", "beta@@july"] == ([], [])
    plain = read_answers(catalog, *which)["q", "alpha@@july"].samples[0]
    assert [one["deltas"] for one in plain["judgements"]] == [[], []]


def test_the_library_has_all_of_it_as_frames(catalog):
    report = read_question(catalog, "tengu", 1, question_set="tengu@1")

    assert (report["question"], report["n_questions"]) == ("犬は？", 1)
    assert report["answers"].select("run_tag", "sample_index", "answer", "cost_usd").row(0) == (
        "july",
        0,
        "0番目の答え",
        0.25,
    )
    assert report["answers"]["findings"].list.len().to_list() == [1, 0]
    assert report["judgements"]["strategy"].to_list() == [None] * 4 + ["majority"] * 2


def test_a_place_is_in_the_named_set_or_in_the_largest(catalog):
    assert question_at(catalog, 1, question_set="tengu@1")["question_id"] == "q"
    largest = question_at(catalog, 1, benchmark="tengu")
    assert (largest["question_set"], largest["n_questions"]) == ("tengu@2", 2)
    assert find_question(catalog, question_set="tengu@1", question_id="q") == question_at(
        catalog, 1, question_set="tengu@1"
    )
    assert find_question(catalog, question_set="tengu@2", question_id="q") is None
    with pytest.raises(ConfigurationError, match="no question 2 of tengu@1"):
        question_at(catalog, 2, question_set="tengu@1")
    with pytest.raises(ConfigurationError, match="no question set 'tengu@3'"):
        question_at(catalog, 1, question_set="tengu@3")


def test_of_very_many_answers_people_see_a_line_each_and_files_have_the_texts(said, monkeypatch):
    monkeypatch.setattr(question_report, "_MOST_WITH_TEXTS", 1)
    table = said("question", "tengu@1", "1")

    lines = [line.split() for line in table.splitlines() if line.startswith("alpha")]
    judged = "a 8, b 8, a of majority 8, b of majority 8"
    assert [" ".join(line) for line in lines] == [f"alpha july {judged} 0番目の答え", "alpha july a 8, b 8 1番目の答え"]
    assert "よい答え" not in table
    assert said("question", "tengu@1", "1", "--format", "json").count("よい答え") == 6


def test_many_runs_are_read_at_once_and_few_one_by_one(catalog, monkeypatch):
    runs = ["alpha@@july", "beta@@july"]
    one_by_one = read_answers(catalog, "tengu", ["q"], runs)
    monkeypatch.setattr(questions, "_MOST_APART", 1)
    assert read_answers(catalog, "tengu", ["q"], runs) == one_by_one


def test_a_question_that_nobody_answered_is_shown_and_one_that_is_not_there_refused(said):
    assert "No run has answered it." in said("question", "tengu", "2")
    with pytest.raises(ConfigurationError, match="no question 3 of tengu"):
        said("question", "tengu", "3")


def test_calls_have_the_price_that_is_known_now_and_else_the_recorded_one(said, tmp_path, monkeypatch):
    assert "1 call at the recorded price" in said("cost")
    lake = Lake(tmp_path / "own")
    calls = [
        {"run_id": f"{model}@@july", "model": model, "stage": stage, "purpose": stage, "status": "ok", "base_url": "http://here/v1"}
        | {"prompt_tokens": 1_000_000, "completion_tokens": 0, "cost_usd": recorded, "request_hash": model, "created_at": _NOW}
        for model, recorded in (("alpha", 9.0), ("beta", None))
        for stage in ("answers", "judgements")
    ]  # fmt: skip
    runs = [_RUN | {"run_id": f"{model}@@july", "model": model, "base_tag": "july", "spec": "{}", "spec_hash": ""}
            | {"status": "complete", "created_at": _NOW, "updated_at": _NOW} for model in ("alpha", "beta")]  # fmt: skip
    for table, rows in {"calls": calls, "runs": runs}.items():
        lake.append(table, pl.DataFrame(rows, infer_schema_length=None))
    write_catalog(lake)
    prices = tmp_path / "prices.yaml"
    prices.write_text("- {model: alpha, base_url: http://here, input: 2.0, output: 0.0}")
    monkeypatch.setenv("SHABERI_WAREHOUSE", str(lake.folder))
    monkeypatch.setenv("SHABERI_PRICES", str(prices))

    text, data = said("cost"), json.loads(said("cost", "--format", "json"))

    assert data["total"]["cost_usd"] == 4.0
    with open_catalog(lake.folder) as catalog:
        assert sum(row["cost_usd"] for row in read_costs(catalog, ["alpha@@july"])) == 4.0
    assert text.index("By model") < text.index("By run") < text.index("By stage and benchmark")
    assert "prices.yaml" in text
    assert "2 calls of unknown price or tokens (of beta)" in " ".join(text.split())
    prices.unlink()
    with pytest.raises(ConfigurationError, match=r"prices.yaml"):
        said("cost")
