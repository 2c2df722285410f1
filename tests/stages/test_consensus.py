"""The consensus stage of an ensemble, with every call over HTTP."""

import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from aiohttp import web

from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.tasks.consensus.elo import Elo
from shaberi_dagster.util.identity import sha256_text
from tests.ensembles import (
    DECIDER,
    MODEL,
    SAMPLES,
    STRATEGIES,
    ask_ensemble,
    ensemble_stages,
    prompt_of,
    question_in,
    scripted,
    truth,
)
from tests.example_runs import asked_of, checks, reusing, stored_run
from tests.mock_endpoint import MockEndpoint, Scripted, running_mock

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("engine")]

_QUESTIONS = 3
_ALL = ("standard", "majority", "elo", "council", "plurality")


@pytest.fixture
def mock() -> Iterator[MockEndpoint]:
    with running_mock(script=scripted()) as running:
        yield running


def _refusal(_: dict[str, Any]) -> web.Response:
    reason = uuid.uuid4().hex.translate(str.maketrans("0123456789", "ghijklmnop"))
    return web.json_response({"error": {"message": f"no, because of {reason}"}}, status=400)  # another one each time


def _by_strategy(workspace: Workspace) -> dict[str, list[dict[str, Any]]]:
    rows = workspace.lake.read("consensus").sort("question_id")
    return {str(name): part.to_dicts() for (name,), part in rows.group_by("strategy", maintain_order=True)}


def _statuses(workspace: Workspace) -> dict[str, set[tuple[str, str | None]]]:
    return {
        name: {(row["status"], row["error_class"]) for row in rows} for name, rows in _by_strategy(workspace).items()
    }


def _calls(workspace: Workspace, stage: str = "consensus") -> Counter[str]:
    purposes = workspace.lake.read("calls", {"stage": stage}, ["purpose"])["purpose"]
    return Counter(purpose.partition(":")[0] for purpose in purposes)


def _run(workspace: Workspace, mock: MockEndpoint, **values: Any) -> RunSpec:
    spec = stored_run(workspace, ask_ensemble(mock, **values))
    ensemble_stages(spec, workspace, "answers", "consensus")
    return spec


def test_each_strategy_makes_exactly_its_calls_and_a_second_time_nobody_is_asked(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    spec = stored_run(workspace, ask_ensemble(mock))
    outcomes = ensemble_stages(spec, workspace)
    assert asked_of(mock, MODEL) == _QUESTIONS * SAMPLES
    # Verdicts about validity cannot be read from what the mock says, so every branch stands: 56 calls of the council.
    expected = {"standard": 1, "majority": 2, "elo": 21, "council": 56}
    assert _calls(workspace) == {name: _QUESTIONS * calls for name, calls in expected.items()}
    assert asked_of(mock, DECIDER) == _QUESTIONS * sum(expected.values())
    for name, rows in _by_strategy(workspace).items():
        assert [row["calls"] for row in rows] == [expected.get(name, 0)] * _QUESTIONS, name
    assert outcomes["consensus"].facts["calls_made"] == _QUESTIONS * sum(expected.values())
    assert checks(outcomes["consensus"]) == {"complete": True, "few_failures": True}
    assert workspace.lake.read("runs")["status"].to_list() == ["complete"]

    requests, versions = mock.stats()["requests"], workspace.lake.versions()
    again = ensemble_stages(spec, workspace)
    assert mock.stats()["requests"] == requests
    assert workspace.lake.versions() == versions
    facts = again["consensus"].facts
    assert (facts["calls_made"], facts["already_there"]) == (0, _QUESTIONS * STRATEGIES)


def test_the_single_answer_is_sample_0_and_the_strategies_share_the_others(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    mock.options.script = scripted(mock_model=lambda body: f"own {truth(body)}")
    spec = _run(workspace, mock, strategies=["plurality"], sample_models=["m1", "m2"])
    answers = workspace.lake.read("answers").sort("question_id", "sample_index")
    assert answers["sample_index"].to_list() == [0, 1, 2, 3, 4, 5] * _QUESTIONS
    assert answers["answer_model"].to_list() == [MODEL, "m1", "m2", "m1", "m2", "m1"] * _QUESTIONS
    single = workspace.lake.read("consensus", {"strategy": "single"}).sort("question_id")
    assert single["answer_hash"].to_list() == answers.filter(sample_index=0)["answer_hash"].to_list()
    elected = workspace.lake.read("consensus", {"strategy": "plurality"}).sort("question_id")
    assert elected["answer_hash"].to_list() == answers.filter(sample_index=1)["answer_hash"].to_list()
    assert elected["winner"].to_list() == [1] * _QUESTIONS
    assert asked_of(mock, DECIDER) == 0
    assert spec.n_planned("gsm8k") == _QUESTIONS * SAMPLES


def test_the_single_answer_can_be_the_ensembles_first(workspace: Workspace, mock: MockEndpoint) -> None:
    mock.options.script = scripted(m1=lambda body: f"Answer: {truth(body)}")
    spec = _run(workspace, mock, strategies=["plurality"], single="first", sample_models=["m1", "m2", "m3"])
    answers = workspace.lake.read("answers").sort("question_id", "sample_index")
    assert answers["answer_model"].to_list() == ["m1", "m2", "m3", "m1", "m2"] * _QUESTIONS
    assert spec.n_planned("gsm8k") == asked_of(mock, "m1") + asked_of(mock, "m2") + asked_of(mock, "m3") == 15
    rows = _by_strategy(workspace)
    first = answers.filter(sample_index=0)["answer_hash"].to_list()
    assert [row["answer_hash"] for row in rows["single"]] == first
    assert [(row["n_candidates"], row["winner"]) for row in rows["plurality"]] == [(5, 0)] * _QUESTIONS


@pytest.mark.long
def test_failed_samples_leave_fewer_candidates_and_a_strategy_that_then_has_too_few_is_skipped(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    mock.options.script = scripted(bad=_refusal)
    members = ["good", "bad", "bad", "bad", "good"]
    strategies = ["standard", "majority", "elo", "plurality"]
    spec = stored_run(workspace, ask_ensemble(mock, sample_models=members, strategies=strategies))
    outcomes = ensemble_stages(spec, workspace)
    found = _statuses(workspace)
    assert found == {
        "single": {("ok", None)},
        "standard": {("ok", None)},
        "majority": {("ok", None)},
        "plurality": {("ok", None)},
        "elo": {("skipped", "too_few_samples")},
    }
    assert workspace.lake.read("consensus").filter(strategy="standard")["n_candidates"].to_list() == [2] * _QUESTIONS
    assert _calls(workspace) == {"standard": 3, "majority": 6}
    assert outcomes["consensus"].facts["failures_by_class"] == {"too_few_samples": 3}
    assert checks(outcomes["consensus"]) == {"complete": True, "few_failures": False}
    assert workspace.lake.read("runs")["status"].to_list() == ["partial"]

    mock.options.script = scripted()
    ensemble_stages(spec, workspace)
    assert {status for statuses in _statuses(workspace).values() for status, _ in statuses} == {"ok"}
    assert workspace.lake.read("runs")["status"].to_list() == ["complete"]
    # The samples are others, so what was made of the two that were there is made anew.
    assert _calls(workspace)["standard"] == 6


def test_a_run_without_samples_has_a_row_for_every_strategy(workspace: Workspace, mock: MockEndpoint) -> None:
    spec = stored_run(workspace, ask_ensemble(mock))
    ensemble_stages(spec, workspace, "consensus")
    found = _statuses(workspace)
    assert found.pop("single") == {("error", "no_answer")}
    assert found == {name: {("skipped", "too_few_samples")} for name in _ALL}
    assert mock.stats()["requests"] == 0


def test_a_strategy_whose_calls_fail_harms_no_other_and_is_tried_again_alone(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    def fails_in_elo(body: dict[str, Any]) -> Scripted:
        return _refusal(body) if "named A and B" in prompt_of(body) else truth(body)

    mock.options.script = scripted(decider=fails_in_elo)
    spec = stored_run(workspace, ask_ensemble(mock, strategies=["standard", "elo", "plurality"]))
    ensemble_stages(spec, workspace)
    found = _statuses(workspace)
    assert found.pop("elo") == {("error", "permanent")}
    assert set().union(*found.values()) == {("ok", None)}
    assert workspace.lake.read("runs")["status"].to_list() == ["partial"]
    before = asked_of(mock, DECIDER)
    kept = workspace.lake.read("consensus").filter(pl.col("strategy") != "elo").sort("question_id", "strategy")

    mock.options.script = scripted()
    ensemble_stages(spec, workspace)
    assert asked_of(mock, DECIDER) == before + _QUESTIONS * 21
    now = workspace.lake.read("consensus").sort("question_id", "strategy")
    assert set(now["status"]) == {"ok"}
    assert now.filter(pl.col("strategy") != "elo").equals(kept)
    assert workspace.lake.read("runs")["status"].to_list() == ["complete"]


def test_calls_that_were_paid_for_are_used_again_when_a_later_one_failed(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    def fails_in_synthesis(body: dict[str, Any]) -> Scripted:
        return truth(body) if '"rankings"' in prompt_of(body) else _refusal(body)

    mock.options.script = scripted(decider=fails_in_synthesis)
    spec = _run(workspace, mock, strategies=["majority"])
    assert _statuses(workspace)["majority"] == {("error", "permanent")}
    before = asked_of(mock, DECIDER)
    mock.options.script = scripted()
    ensemble_stages(spec, workspace, "consensus")
    assert asked_of(mock, DECIDER) == before + _QUESTIONS
    assert _statuses(workspace)["majority"] == {("ok", None)}


def test_an_unexpected_error_inside_a_strategy_is_its_failure_only(
    workspace: Workspace, mock: MockEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("in\nthe middle")

    monkeypatch.setattr(Elo, "_decide", broken)
    _run(workspace, mock, strategies=["standard", "elo"])
    assert _statuses(workspace)["standard"] == {("ok", None)}
    rows = _by_strategy(workspace)["elo"]
    assert {(row["error_class"], row["error_message"]) for row in rows} == {
        ("internal", "ZeroDivisionError: in the middle")
    }


def test_a_summary_without_text_is_a_failure_that_is_asked_for_again(workspace: Workspace, mock: MockEndpoint) -> None:
    mock.options.script = scripted(decider="<think>The answer is 43.</think>\n")
    spec = _run(workspace, mock, strategies=["standard"])
    assert _statuses(workspace)["standard"] == {("error", "empty_output")}
    mock.options.script = scripted()
    ensemble_stages(spec, workspace, "consensus")
    assert asked_of(mock, DECIDER) == 2 * _QUESTIONS
    assert _statuses(workspace)["standard"] == {("ok", None)}


def test_another_sample_text_makes_the_consensus_of_its_question_anew(workspace: Workspace, mock: MockEndpoint) -> None:
    spec = _run(workspace, mock, strategies=["standard", "plurality"])
    before = workspace.lake.read("consensus").sort("question_id", "strategy")
    answers = workspace.lake.read("answers")
    changed = answers.row(0, named=True)
    here = (pl.col("question_id") == changed["question_id"]) & (pl.col("sample_index") == 3)
    text = "It is 7."
    answers = answers.with_columns(
        answer=pl.when(here).then(pl.lit(text)).otherwise("answer"),
        answer_hash=pl.when(here).then(pl.lit(sha256_text(text))).otherwise("answer_hash"),
    )
    workspace.lake.replace("answers", answers, {"run_id": spec.run_id})
    ensemble_stages(spec, workspace, "consensus")
    assert _calls(workspace) == {"standard": _QUESTIONS + 1}
    now = workspace.lake.read("consensus").sort("question_id", "strategy")
    assert now.height == before.height
    others = pl.col("question_id") != changed["question_id"]
    assert now.filter(others).equals(before.filter(others))
    hashes = (frame.filter(~others, strategy="standard")["candidates_hash"].item() for frame in (before, now))
    assert len(set(hashes)) == 2


def test_strategies_are_added_on_the_same_tag_without_asking_the_others_again(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    _run(workspace, mock, strategies=["standard"])
    wider = _run(workspace, mock, strategies=["majority", "plurality"])
    assert wider.strategies == ["single", "standard", "majority", "plurality"]
    assert asked_of(mock, MODEL) == _QUESTIONS * SAMPLES
    assert _calls(workspace) == {"standard": _QUESTIONS, "majority": 2 * _QUESTIONS}
    ensemble_stages(wider, workspace)
    assert workspace.lake.read("runs")["status"].to_list() == ["complete"]


def test_runs_with_equal_samples_share_what_was_paid_for_if_that_is_asked_for(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    _run(workspace, mock, strategies=["standard"])
    _run(reusing(workspace), mock, strategies=["standard"], tag="second")
    assert asked_of(mock, DECIDER) == _QUESTIONS
    _run(workspace, mock, strategies=["standard"], tag="third")
    assert asked_of(mock, DECIDER) == 2 * _QUESTIONS


def test_what_needs_no_call_needs_no_endpoint(workspace: Workspace) -> None:
    with running_mock(script=scripted(bad=_refusal)) as mock:
        spec = _run(workspace, mock, sample_models=["good", "bad", "bad", "bad", "good"])
        mock.options.key = "changed"
        ensemble_stages(spec, workspace, "consensus")
    assert _statuses(workspace)["council"] == {("skipped", "too_few_samples")}


def test_samples_differ_though_their_requests_say_the_same(workspace: Workspace, mock: MockEndpoint) -> None:
    counts = Counter[str]()

    def numbered(body: dict[str, Any]) -> str:
        question = question_in(body).question_id
        counts[question] += 1
        return f"Try {counts[question]}: {truth(body)}"

    mock.options.script = scripted(mock_model=numbered)
    _run(workspace, mock, strategies=["plurality"])
    answers = workspace.lake.read("answers")
    assert answers["answer"].n_unique() == answers["request_hash"].n_unique() == answers.height == 18
