"""A dry run is the plan: the calls that it foresees are those that the endpoint then counts, for every kind of run."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from shaberi_dagster.runs.forecast import Forecast
from shaberi_dagster.runs.planning import judged_again, plan_run
from shaberi_dagster.runs.spec import RunRequest, RunSpec
from shaberi_dagster.runs.stages.forecast import forecast
from shaberi_dagster.runs.stages.ordered import CALLING_NAMES, STAGE_NAMES
from shaberi_dagster.runs.stored import store_run
from shaberi_dagster.runs.workspace import Workspace
from tests.ensembles import DECIDER, GRADER, ask_ensemble, prompt_of
from tests.example_runs import ask, stages_made
from tests.mock_endpoint import MockEndpoint, Scripted, content_for, running_mock

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("engine", "results_left_out")]

_GUARD = {"passes": ["safety_check"], "pass_options": ["safety_check.model=guard"]}
_ALL = ["standard", "majority", "elo", "council", "plurality"]


def _says(body: dict[str, Any], number: int) -> Scripted:
    """No two answers are equal; judges, graders and guards say what can be read."""
    if body["model"] == GRADER:
        return '{"extracted": "?", "verdict": "incorrect"}'
    if body["model"] == "guard":
        return "SAFETY: clear"
    if body["model"] == DECIDER or "FINAL SCORE" in prompt_of(body):
        return content_for(body)
    return f"{number}番目の答え: {content_for(body)}"


@pytest.fixture
def mock() -> Iterator[MockEndpoint]:
    with running_mock(script=_says) as running:
        yield running


def _foreseen(spec: RunSpec, workspace: Workspace, *stages: str) -> list[Forecast]:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return forecast([spec], list(spec.benchmarks), stages or CALLING_NAMES, workspace, now=now)


def _check(found: list[Forecast], spec: RunSpec, workspace: Workspace) -> None:
    """Each stage makes the calls that were foreseen for it, between the fewest and the most."""
    for stage in STAGE_NAMES:
        own = [one for one in found if one.stage == stage]
        counted = stages_made(spec, workspace, stage)
        low, high = sum(one.calls for one in own), sum(one.calls_most for one in own)
        assert low <= counted <= high, stage
        if stage in {"answers", "judgements"} and not spec.has_consensus:
            assert counted == low, stage


@pytest.mark.parametrize(
    "wanted",
    [
        {"benchmarks": ["elyza", "tengu"], "judge_models": ["judge-a", "judge-b"]},
        {"limit": 2},
        {"tag": "many-run2"},
        _GUARD,
        {"passes": ["lang_mixing", "repetition"]},
    ],
    ids=["two judges", "limited", "one of several", "a pass that asks", "passes that ask nobody"],
)
def test_a_judged_run(wanted: dict[str, Any], workspace: Workspace, mock: MockEndpoint) -> None:
    spec = plan_run(ask(mock, **wanted), workspace)
    found = _foreseen(spec, workspace)
    assert mock.stats()["requests"] == 0
    store_run(spec, workspace)
    _check(found, spec, workspace)
    assert sum(one.calls for one in found) == mock.stats()["requests"]
    assert sum(one.calls_most for one in _foreseen(spec, workspace)) == 0, "nothing is left to do"


def _made(request: RunRequest, workspace: Workspace, *stages: str) -> RunSpec:
    spec = plan_run(request, workspace)
    store_run(spec, workspace)
    for stage in stages or (one for one in STAGE_NAMES if one in _stages_of(spec)):
        stages_made(spec, workspace, stage)
    return spec


def _stages_of(spec: RunSpec) -> set[str]:
    return {stage for name in spec.benchmarks for stage in STAGE_NAMES}


def test_a_pass_that_asks_a_model_about_answers_that_are_there_is_exact(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    _made(ask(mock), workspace)
    spec = plan_run(ask(mock, **_GUARD), workspace)
    (one,) = _foreseen(spec, workspace, "pass_outputs")
    assert (one.model, one.calls, one.calls_most, one.rows_there, one.rows_planned) == ("safety_check", 5, 5, 0, 5)
    store_run(spec, workspace)
    assert stages_made(spec, workspace, "pass_outputs") == 5


def test_one_more_judge_and_judging_anew_take_a_call_for_each_answer(workspace: Workspace, mock: MockEndpoint) -> None:
    before = _made(ask(mock), workspace)
    more = plan_run(ask(mock, judge_models=["judge-b"]), workspace)
    for spec in (more, judged_again(before, ["judge-a"], ["tengu"])):
        assert sum(one.calls for one in _foreseen(spec, workspace)) == 5


def test_a_fallback_is_within_the_range(workspace: Workspace, mock: MockEndpoint) -> None:
    spec = plan_run(ask(mock), workspace)
    (_, judging) = _foreseen(spec, workspace)
    assert (judging.calls, judging.calls_most, judging.fallback_calls) == (5, 10, None)
    mock.options.script = lambda body, number: (
        "FINAL SCORE: 3"
        if "<judgement id=" in prompt_of(body)
        else "よい"
        if body["model"] == "judge-a"
        else _says(body, number)
    )
    store_run(spec, workspace)
    stages_made(spec, workspace, "answers")
    assert stages_made(spec, workspace, "judgements") == 5 + 1, "equal outputs have one fallback"


@pytest.mark.parametrize("strategies", [_ALL, ["plurality"]], ids=["all strategies", "one that asks nobody"])
@pytest.mark.parametrize("with_samples", [False, True])
def test_a_consensus(strategies: list[str], with_samples: bool, workspace: Workspace, mock: MockEndpoint) -> None:
    request = ask_ensemble(mock, strategies=strategies, grader_model=GRADER, samples=3, sample=2)
    spec = plan_run(request, workspace)
    if with_samples:
        spec = _made(request, workspace, "answers")
    found = _foreseen(spec, workspace)
    asked_before = mock.stats()["requests"]
    store_run(spec, workspace)
    _check(found, spec, workspace)
    counted = mock.stats()["requests"] - asked_before
    assert sum(one.calls for one in found) <= counted <= sum(one.calls_most for one in found)
    purposes = workspace.lake.read("calls", {"stage": "consensus"}, ["purpose"])["purpose"]
    made = Counter(purpose.partition(":")[0] for purpose in purposes)
    deciding = {one.model: (one.calls, one.calls_most) for one in found if one.stage == "consensus"}
    assert deciding.keys() == made.keys() == set(strategies) - {"plurality"}
    for strategy, (low, high) in deciding.items():
        assert low <= made[strategy] <= high, strategy
        assert low == high or strategy == "council", "only a council may go on"
    assert sum(one.calls_most for one in _foreseen(spec, workspace)) == 0


def test_what_a_rule_cannot_tell_of_answers_that_are_there_is_exact(workspace: Workspace, mock: MockEndpoint) -> None:
    spec = _made(ask_ensemble(mock, strategies=["plurality"], grader_model=GRADER), workspace, "answers", "consensus")
    (one,) = _foreseen(spec, workspace, "judgements")
    assert one.model == f"rule:numeric+{GRADER}"
    assert one.calls == one.calls_most == stages_made(spec, workspace, "judgements")


def test_a_consensus_that_was_interrupted_takes_what_is_left(workspace: Workspace, mock: MockEndpoint) -> None:
    spec = _made(ask_ensemble(mock, strategies=["majority"]), workspace, "answers")
    (before,) = _foreseen(spec, workspace, "consensus")
    lost = [0]

    def fails(body: dict[str, Any], number: int) -> Scripted:
        lost[0] += 1
        return b"" if lost[0] % 3 == 0 else _says(body, number)

    mock.options.script = fails
    stages_made(spec, workspace, "consensus")
    mock.options.script = _says
    (after,) = _foreseen(spec, workspace, "consensus")
    assert 0 < after.calls < before.calls
    asked = mock.stats()["requests"]
    stages_made(spec, workspace, "consensus")
    assert after.calls <= mock.stats()["requests"] - asked <= after.calls_most
