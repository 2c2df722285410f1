import shutil
import zlib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from shaberi_dagster.lake.journal.files import FileJournals
from shaberi_dagster.lake.journal.records import Call, Usage
from shaberi_dagster.llm.types import Message
from shaberi_dagster.reports.operations import plan_result
from shaberi_dagster.runs.forecast import Forecast
from shaberi_dagster.runs.planning import plan_run
from shaberi_dagster.runs.spec import RunRequest, RunSpec
from shaberi_dagster.runs.stages.forecast import forecast, rough_tokens
from shaberi_dagster.runs.workspace import Workspace
from tests.example_runs import ask, asked_of, items_of, materialized, reusing, stored_run
from tests.mock_endpoint import MockEndpoint, content_for

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("engine")]

_STAGES = ("answers", "judgements")
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_FEW_PERCENT = 0.03
_TOKENS = ("prompt_tokens", "completion_tokens")


def _estimate(spec: RunSpec, workspace: Workspace, *stages: str, judges: tuple[str, ...] = ()) -> list[Forecast]:
    return forecast([spec], list(spec.benchmarks), stages or _STAGES, workspace, now=_NOW, judges=judges)


def _by_stage(spec: RunSpec, workspace: Workspace, *stages: str) -> dict[str, Forecast]:
    """For a run of one benchmark and one judge."""
    return {one.stage: one for one in _estimate(spec, workspace, *stages)}


def _evaluated(workspace: Workspace, mock: MockEndpoint, **values: Any) -> RunSpec:
    spec = stored_run(workspace, ask(mock, **values))
    materialized(spec, workspace, *_STAGES)
    return spec


def _used(workspace: Workspace, spec: RunSpec) -> dict[tuple[str | None, str, str], dict[str, int]]:
    """What the run's own calls really took, by benchmark, stage and model."""
    calls = workspace.lake.read("calls", {"run_id": spec.run_id})
    summed = calls.group_by("benchmark", "stage", "model").agg(
        pl.len().alias("calls"), pl.col("prompt_tokens", "completion_tokens").sum()
    )
    return {
        (row["benchmark"], row["stage"], row["model"]): {name: row[name] for name in ("calls", *_TOKENS)}
        for row in summed.iter_rows(named=True)
    }


def _various(body: dict[str, Any], _: int) -> str:
    """Answers and judgements of many lengths, others for each model and temperature."""
    number = zlib.crc32(f"{body['model']} {body['temperature']} {body['messages']}".encode())
    if body["model"].startswith("judge"):
        return "理由。" * (20 + number % 10) + content_for(body)
    return f"{number:08x}" + content_for(body, 200 + number % 100)


@pytest.mark.parametrize(
    "other", [{"tag": "second", "temperature": 0.9}, {"model": "another-model"}], ids=["another tag", "another model"]
)
def test_with_history_the_calls_are_exact_and_the_tokens_within_a_few_percent(
    workspace: Workspace, mock: MockEndpoint, other: dict[str, Any]
) -> None:
    mock.options.script = _various
    wanted: dict[str, Any] = {"benchmarks": ["all"], "judge_models": ["judge-a", "judge-b"]}
    _evaluated(workspace, mock, **wanted)
    spec = plan_run(ask(mock, **wanted | other), workspace)
    foreseen = _estimate(spec, workspace)
    asked_before = mock.stats()["requests"]

    _evaluated(workspace, mock, **wanted | other)

    used = _used(workspace, spec)
    assert {(one.benchmark, one.stage, one.model): one.calls for one in foreseen} == {
        key: each["calls"] for key, each in used.items()
    }
    assert sum(one.calls for one in foreseen) == mock.stats()["requests"] - asked_before == 63
    for stage in _STAGES:
        for name in _TOKENS:
            expected = sum(getattr(one, name) for one in foreseen if one.stage == stage)
            really = sum(each[name] for key, each in used.items() if key[1] == stage)
            assert expected == pytest.approx(really, rel=_FEW_PERCENT), (stage, name)


def test_the_history_of_the_same_questions_is_preferred(workspace: Workspace, mock: MockEndpoint) -> None:
    """The first questions may be much shorter than the others."""
    _evaluated(workspace, mock)
    spec = plan_run(ask(mock, model="another-model", limit=2), workspace)
    found = _by_stage(spec, workspace)
    _evaluated(workspace, mock, model="another-model", limit=2)

    used = {stage: each for (_, stage, _), each in _used(workspace, spec).items()}
    assert found["answers"].basis == "history: 2 calls, other models"
    assert found["answers"].prompt_tokens == used["answers"]["prompt_tokens"]
    assert found["judgements"].prompt_tokens == used["judgements"]["prompt_tokens"]


def test_without_history_prompts_are_counted_roughly_and_completions_at_their_limit(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    spec = plan_run(ask(mock, max_tokens=700, judge_max_tokens=90), workspace)
    found = _by_stage(spec, workspace)

    prompts = [item.request.messages for item in items_of("answers", spec, workspace)]
    answers, judgements = found["answers"], found["judgements"]
    assert answers.prompt_tokens == round(sum(map(rough_tokens, prompts)))
    assert (answers.calls, answers.completion_tokens, judgements.completion_tokens) == (5, 5 * 700, 5 * 90)
    longer = _by_stage(plan_run(ask(mock, max_tokens=1700, judge_max_tokens=90), workspace), workspace)
    assert longer["judgements"].prompt_tokens - judgements.prompt_tokens == 5 * 1000
    assert {one.basis for one in found.values()} == {"template (upper bound)"}
    assert all(one.upper_bound for one in found.values())
    assert (answers.fallback_calls, judgements.fallback_calls) == (0, None)
    assert mock.stats()["requests"] == 0


def test_nothing_is_written(workspace: Workspace, mock: MockEndpoint) -> None:
    _estimate(plan_run(ask(mock), workspace), workspace)
    assert not workspace.settings.warehouse.exists()

    spec = _evaluated(workspace, mock)
    before = {path: path.stat().st_mtime_ns for path in workspace.settings.warehouse.rglob("*")}
    _estimate(spec, workspace)
    assert {path: path.stat().st_mtime_ns for path in workspace.settings.warehouse.rglob("*")} == before


def test_what_another_run_paid_for_is_no_call_if_that_is_asked_for(workspace: Workspace, mock: MockEndpoint) -> None:
    _evaluated(workspace, mock)
    spec = plan_run(ask(mock, tag="again"), workspace)
    same = reusing(workspace)
    estimate = _estimate(spec, same)
    asked_before = mock.stats()["requests"]
    materialized(stored_run(same, ask(mock, tag="again")), same, *_STAGES)

    assert [(one.rows_there, one.calls) for one in estimate] == [(0, 0), (0, 0)]
    assert mock.stats()["requests"] == asked_before

    third = plan_run(ask(mock, tag="third"), workspace)
    assert [one.calls for one in _estimate(third, workspace)] == [5, 5]
    materialized(stored_run(workspace, ask(mock, tag="third")), workspace, *_STAGES)
    assert mock.stats()["requests"] == asked_before + 10
    assert [one.calls for one in _estimate(third, workspace)] == [0, 0]


def test_an_answer_that_is_paid_for_shows_whether_its_judgement_is_too(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    _evaluated(workspace, mock)
    spec = plan_run(ask(mock, tag="again", judge_models=["judge-a", "judge-b"]), workspace)

    assert {one.model: one.calls for one in _estimate(spec, reusing(workspace))} == {
        "mock-model": 0,
        "judge-a": 0,
        "judge-b": 5,
    }


def test_a_judgement_without_a_score_is_asked_for_again_and_fallbacks_are_foreseen_at_their_share(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    def script(body: dict[str, Any], number: int) -> str:
        if "<judgement id=" in body["messages"][-1]["content"]:
            return "FINAL SCORE: なし"
        return f"よい。({number:04})" if body["model"] == "judge-a" else content_for(body)

    mock.options.script = script
    spec = _evaluated(workspace, mock)
    assert asked_of(mock, "judge-a") == 10  # all five without a score, also when asked for it

    found = _by_stage(spec, workspace)["judgements"]
    assert (found.rows_there, found.calls, found.fallback_calls) == (0, 5, 5.0)
    assert found.basis == "history: 5 calls"
    materialized(spec, workspace, "judgements")
    assert asked_of(mock, "judge-a") == 20
    (used,) = (each for key, each in _used(workspace, spec).items() if key[1] == "judgements")
    assert (2 * found.prompt_tokens, 2 * found.completion_tokens) == (used["prompt_tokens"], used["completion_tokens"])


def test_equal_requests_of_several_runs_are_one_call(workspace: Workspace, mock: MockEndpoint) -> None:
    runs = []
    for tag in ("n-run1", "n-run2"):
        materialized(stored_run(workspace, ask(mock, tag=tag)), workspace, "answers")
        runs.append(plan_run(ask(mock, tag=tag), workspace))
    apart = [one for one in forecast(runs, ["tengu"], _STAGES, workspace, now=_NOW) if one.stage == "judgements"]
    assert [one.calls for one in apart] == [5, 5]
    same = reusing(workspace)
    judged = [one for one in forecast(runs, ["tengu"], _STAGES, same, now=_NOW) if one.stage == "judgements"]
    assert [one.calls for one in judged] == [5, 0]  # the mock answered both runs with the same words
    for spec in runs:
        materialized(spec, same, "judgements")
    assert asked_of(mock, "judge-a") == 5


def test_calls_in_the_journal_of_an_interrupted_attempt_are_paid_for(workspace: Workspace, mock: MockEndpoint) -> None:
    spec = stored_run(workspace, ask(mock))
    items = items_of("answers", spec, workspace)
    with workspace.journals.open(spec.run_id, "answers") as journal:
        for item in items[:2]:
            journal.append(_call(item.request.request_hash, mock), {"stage": "answers"})
        journal.append(replace(_call(items[2].request.request_hash, mock), status="error"), {"stage": "answers"})
    path = FileJournals(workspace.settings.warehouse).path(spec.run_id, "answers")
    with path.open("ab") as file:
        file.write(b'{"request_hash": "half')
    content = path.read_bytes()

    found = _by_stage(spec, workspace)
    assert (found["answers"].rows_there, found["answers"].calls, found["judgements"].calls) == (0, 3, 5)
    assert path.read_bytes() == content
    materialized(spec, workspace, *_STAGES)
    assert mock.stats()["requests"] == 3 + 5


def _call(request_hash: str, mock: MockEndpoint) -> Call:
    return Call(
        request_hash=request_hash,
        model="mock-model",
        base_url=mock.base_url,
        status="ok",
        error_class=None,
        error_message=None,
        content=f"答え {request_hash}",
        reasoning=None,
        finish_reason="stop",
        usage=Usage(10, 10),
        attempts=1,
        latency_seconds=0.1,
        created_at=_NOW,
    )


@pytest.mark.parametrize(
    ("asked", "basis", "prompt_tokens"),
    [
        ({"model": "m"}, "history: 2 calls", 2 * 200),
        ({"model": "new"}, "history: 3 calls, other models", 2 * 300),
        ({"model": "m", "benchmarks": ["rakuda"]}, "history: 2 calls, other benchmarks", 2 * 200),
        ({"model": "new", "benchmarks": ["rakuda"]}, "template (upper bound)", None),
    ],
    ids=["its own", "of other models", "of other benchmarks", "none"],
)
def test_the_most_specific_history_is_used_and_named(
    workspace: Workspace, mock: MockEndpoint, asked: dict[str, Any], basis: str, prompt_tokens: int | None
) -> None:
    _remember(workspace, ("m", 100), ("m", 300), ("other", 500), ("m", None))
    found = _by_stage(plan_run(ask(mock, limit=2, **asked), workspace), workspace)["answers"]

    assert found.basis == basis
    assert found.upper_bound == (prompt_tokens is None)
    assert prompt_tokens is None or found.prompt_tokens == prompt_tokens


def test_an_average_completion_is_never_above_the_limit_of_the_call(workspace: Workspace, mock: MockEndpoint) -> None:
    _remember(workspace, ("m", 100), completion_tokens=4000)
    spec = plan_run(ask(mock, model="m", max_tokens=1000, limit=2), workspace)
    assert _by_stage(spec, workspace)["answers"].completion_tokens == 2 * 1000


def test_a_judge_is_expected_to_see_an_answer_without_the_models_reasoning(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    spec = plan_run(ask(mock, model="m", limit=2), workspace)
    with_all = _by_stage(spec, workspace)["judgements"].prompt_tokens
    _remember(workspace, ("m", 100), completion_tokens=900, reasoning_tokens=700)

    visible = _by_stage(spec, workspace)["judgements"].prompt_tokens
    assert with_all - visible == 2 * (6000 - 200)


def _remember(workspace: Workspace, *calls: tuple[str, int | None], **columns: Any) -> None:
    """Finished calls of another run on tengu, by model and prompt tokens."""
    rows = [
        {
            "request_hash": f"{number}",
            "run_id": "past",
            "stage": "answers",
            "benchmark": "tengu",
            "purpose": "answer",
            "model": model,
            "base_url": "http://past/v1",
            "status": "ok",
            "prompt_tokens": prompt_tokens,
            "completion_tokens": 10,
            "created_at": _NOW,
            **columns,
        }
        for number, (model, prompt_tokens) in enumerate(calls)
    ]
    workspace.lake.append("calls", pl.DataFrame(rows, infer_schema_length=None))


def test_the_cost_is_the_list_price_of_average_calls_and_unknown_is_not_zero(workspace: Workspace) -> None:
    _remember(workspace, ("gpt-4.1-mini", 1000), completion_tokens=500)
    request = RunRequest(
        model="gpt-4.1-mini",
        benchmarks=["tengu"],
        judge_models=["embedded/smollm2-135m", "unheard-of"],
        judge_base_url="http://127.0.0.1:9/v1",
    )
    spec = plan_run(request, workspace)
    found = _estimate(spec, workspace)

    assert {one.model: one.cost_usd for one in found} == {
        "gpt-4.1-mini": pytest.approx(5 * (1000 * 0.40 + 500 * 1.60) / 1e6),
        "embedded/smollm2-135m": 0.0,
        "unheard-of": None,
    }
    totals = plan_result(found).data()["totals"]
    assert [(total["stage"], total["calls"], total["cost_usd"]) for total in totals] == [
        ("answers", 5, found[0].cost_usd),
        ("judgements", 10, None),
        ("all", 15, None),
    ]
    assert [total["upper_bound"] for total in totals] == [False, True, True]


# Counted with the vocabularies of GPT-4o (o200k), Qwen and Mistral (Tekken), in this order.
@pytest.mark.parametrize(
    ("text", "counted"),
    [
        (
            "日本の四季は豊かで、春には桜が咲き、夏には各地で祭りが開かれ、秋には紅葉が山を染め、冬には雪が降ります。",
            (47, 44, 49),
        ),
        (
            "The evaluation asks every question once, keeps each reply in a table, and grades it with several judges afterwards.",
            (22, 22, 22),
        ),
        (
            "次のPythonの関数 `def add(a, b): return a + b` が何をするかを、初心者にも分かるように日本語で説明してください。",
            (39, 37, 39),
        ),
    ],
    ids=["Japanese", "English", "both"],
)
def test_rough_tokens_are_within_a_third_of_what_vocabularies_of_today_need(
    text: str, counted: tuple[int, ...]
) -> None:
    without_message = rough_tokens([Message("user", text)]) - rough_tokens([Message("user", "")])
    assert all(without_message == pytest.approx(number, rel=0.33) for number in counted)


@pytest.mark.corpus
def test_all_real_questions_and_three_judges_can_be_estimated(workspace: Workspace, corpus: Path) -> None:
    request = RunRequest(
        model="gpt-4.1-mini", judge_models=["gpt-5.1", "gemini-2.5-pro", "gpt-4.1"], questions=str(corpus / "questions")
    )
    found = forecast(
        [plan_run(request, workspace)], ["elyza", "tengu", "mt_bench", "rakuda"], _STAGES, workspace, now=_NOW
    )
    totals = plan_result(found).data()["totals"]
    assert [total["calls"] for total in totals] == [320, 960, 1280]
    assert all(one.cost_usd for one in found)


def test_a_judge_with_a_prompt_variant_is_estimated_by_its_name_and_by_the_history_of_its_model(
    workspace: Workspace, mock: MockEndpoint, tmp_path: Path
) -> None:
    prompts = shutil.copytree(workspace.settings.prompts, tmp_path / "prompts")
    rule = prompts / "variants" / "strict" / "judging" / "answer_rule.jinja"
    rule.parent.mkdir(parents=True)
    rule.write_text("厳しく採点してください。", encoding="utf-8")
    elsewhere = Workspace(replace(workspace.settings, prompts=prompts), environment={})
    _evaluated(elsewhere, mock)
    spec = plan_run(ask(mock, judge_prompt="strict"), elsewhere)
    asked_before = asked_of(mock, "judge-a")
    both = _estimate(spec, elsewhere, "judgements")
    assert [(one.model, one.calls, one.rows_there) for one in both] == [("judge-a", 0, 5), ("judge-a+strict", 5, 0)]
    assert both[1].basis == "history: 5 calls"
    assert [one.calls for one in _estimate(spec, elsewhere, "judgements", judges=("judge-a+strict",))] == [5]
    assert asked_of(mock, "judge-a") == asked_before
