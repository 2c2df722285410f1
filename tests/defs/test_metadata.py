"""How outcomes look in the Dagster UI."""

import html
import re

import dagster as dg
import polars as pl
import pytest

from shaberi_dagster.defs.metadata import column_schema, stage_result, with_questions
from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.runs.questions import load_source, store_question_set
from shaberi_dagster.runs.stages.base import StageResult
from shaberi_dagster.runs.stages.judgements import Judgements
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.tasks.benchmarks.registry import get_benchmark
from shaberi_dagster.util.checks import Check

pytestmark = pytest.mark.unit

_NO_ROWS = pl.DataFrame({"answer": []}, schema={"answer": pl.String})


def _outcome(**changes: object) -> StageResult:
    facts = {
        "rows": 5,
        "planned": 5,
        "failed": 2,
        "failures_by_class": {"rate_limit": 2},
        "prompt_tokens": 120,
        "completion_tokens": None,
    }
    defaults = {"run_id": "m@@t", "stage": "judgements", "benchmark": "elyza", "facts": facts, "preview": _NO_ROWS}
    return StageResult(**(defaults | changes))


def _preview_of(text: str) -> str:
    result = stage_result(Judgements, [_outcome(preview=pl.DataFrame({"answer": [text]}))])
    return result.metadata["elyza: preview"].value


def test_rows_tokens_and_failures_by_class_are_there_and_unknown_facts_are_not() -> None:
    metadata = stage_result(Judgements, [_outcome()]).metadata

    assert metadata["dagster/row_count"] == 5
    assert metadata["run"] == "m@@t"
    assert metadata["elyza: failures_by_class"] == {"rate_limit": 2}
    assert metadata["elyza: prompt_tokens"] == 120
    assert "elyza: completion_tokens" not in metadata


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "![x](https://evil.example/?leak)",
        "[click](javascript:alert(1))",
        "https://evil.example/",
        "a | b | c",
        "`code` **bold** _it_ ~~gone~~ # head",
        "\\| escaped \\<b>",
        "&lt;b&gt; &#60;b&#62;",
        "first\n\n| --- |\n# heading\r\n```\n",
        "nul \x00 escape \x1b[31m back\x08 bidi \u202e end",
        "line\u2028separator\u2029and\x85next",
    ],
)
def test_hostile_output_is_one_cell_of_plain_text(text: str) -> None:
    header, rule, *rows = _preview_of(text).split("\n")

    assert (header, rule) == ("| answer |", "| --- |")
    assert len(rows) == 1
    cell = re.fullmatch(r"\| (.*) \|", rows[0])[1]
    # Everything with a meaning in markdown or HTML is a character reference ...
    assert not set(re.sub(r"&#\d+;", "", cell)) & set("<>|`*_[]()!\\~#&:/")
    # ... that shows the same text.
    assert html.unescape(cell) == "".join(char for char in " ".join(text.split()) if char.isprintable())


def test_model_and_tag_are_as_people_write_them_and_numbers_are_rounded() -> None:
    facts = {"rows": 1, "mean_score": 2 / 3, "scores": {"judge": 1 / 3}}

    metadata = stage_result(Judgements, [_outcome(run_id="org__a%5F%5Fb@@july", facts=facts)]).metadata

    assert (metadata["run"], metadata["model"], metadata["tag"]) == ("org/a__b@@july", "org/a__b", "july")
    assert (metadata["elyza: mean_score"], metadata["elyza: scores"]) == (0.667, {"judge": 0.333})


def test_scores_of_each_judge_are_a_line_of_bars_over_the_scale() -> None:
    outcome = _outcome(scores={"strict": [1.0, 1.0, 5.0], "none": []})

    metadata = stage_result(Judgements, [outcome]).metadata

    assert metadata["elyza: scores of strict"] == "1 █···▄ 5, mean 2.33 (n 3)"
    assert "elyza: scores of none" not in metadata


def test_a_preview_has_the_texts_of_questions_where_the_lake_has_them(workspace: Workspace) -> None:
    load = load_source(get_benchmark("elyza"), None, None, workspace)
    store_question_set(workspace.lake, load)
    first = load.questions[0]
    preview = pl.DataFrame({"judge": ["a", "b"], "question_id": ["unknown", first.question_id], "score": [1.0, 2.0]})

    shown = with_questions(_outcome(preview=preview), workspace.lake).preview

    assert shown.columns == ["judge", "question", "score"]
    assert shown["question"].to_list() == ["unknown", first.question]


def test_several_runs_are_summed_up_with_the_facts_of_each() -> None:
    outcomes = [_outcome(run_id="m@@a"), _outcome(run_id="m@@b|c")]

    metadata = stage_result(Judgements, outcomes).metadata

    assert metadata["dagster/row_count"] == 10
    assert metadata["runs"] == 2
    assert len(metadata["facts by run"].value.split("\n")) == 4
    assert "m@@b&#124;c" in metadata["facts by run"].value


def test_a_stage_without_work_is_noted_and_its_checks_pass() -> None:
    result = stage_result(Judgements, [])

    assert result.metadata == {"dagster/row_count": 0, "note": "nothing to do in this stage"}
    assert all(check.passed for check in result.check_results)


@pytest.mark.parametrize(
    ("severe", "severity"), [(True, dg.AssetCheckSeverity.ERROR), (False, dg.AssetCheckSeverity.WARN)]
)
def test_a_check_fails_when_it_fails_for_one_run(severe: bool, severity: dg.AssetCheckSeverity) -> None:
    good = _outcome(checks=(Check("complete", passed=True, description="5 of 5"),))
    bad = _outcome(checks=(Check("complete", passed=False, description="3 of 5", severe=severe),))

    (check,) = (one for one in stage_result(Judgements, [good, bad]).check_results if one.check_name == "complete")

    assert not check.passed
    assert check.severity == severity
    assert check.description == "elyza: 3 of 5"


@pytest.mark.parametrize("table", TABLES)
def test_every_column_says_what_it_means(table: str) -> None:
    schema = column_schema(table)

    assert [column.name for column in schema.columns] == [column.name for column in TABLES[table].columns]
    assert all(column.description for column in schema.columns)
    assert all(re.fullmatch(r"[A-Z][A-Za-z0-9()]*", column.type) for column in schema.columns)


def test_metrics_name_the_page_of_their_questions():
    metadata = stage_result(Judgements, [_outcome(run_id="org__m`x@@t", stage="metrics")]).metadata

    page = "/questions?m=org__m%60x@@t&benchmark=elyza"
    assert f"`shaberi view '{page}'`" in metadata["elyza: in a browser"].value
    assert f"(http://127.0.0.1:8321{page})" in metadata["elyza: in a browser"].value
    assert "elyza: in a browser" not in stage_result(Judgements, [_outcome()]).metadata
