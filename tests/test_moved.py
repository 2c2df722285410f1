"""A server that moves to another address: what was made there stands and is found, and nobody is asked again."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from shaberi_dagster.runs import workspace as workspace_module
from shaberi_dagster.runs.plan import RunPlan
from shaberi_dagster.runs.planning import plan_run
from shaberi_dagster.runs.spec import RunRequest, RunSpec
from shaberi_dagster.runs.stages.base import RowStage
from shaberi_dagster.runs.stages.forecast import forecast
from shaberi_dagster.runs.stages.ordered import CALLING_NAMES, calling_stage
from shaberi_dagster.runs.workspace import Workspace
from tests.ensembles import DECIDER, GRADER, ask_ensemble, scripted
from tests.example_runs import ask, materialized, own_engine, stored_run, without_results
from tests.mock_endpoint import MockEndpoint, content_for, running_mock
from tests.random_runs import half_made, on_frames, random_request
from tests.sizes import size

pytestmark = pytest.mark.integration
_RUNS = size(12, 30)
_HERE, _ELSEWHERE = ([f"http://127.0.0.1:{port}/v1" for port in ports] for ports in ((1, 2), (3, 4)))


@pytest.fixture
def varied(workspace: Workspace, tmp_path: Path) -> Workspace:
    """A workspace whose prompts have the variant `strict`."""
    folder = shutil.copytree(workspace.settings.prompts, tmp_path / "prompts")
    for template in ("judging/answer_rule", "grading/verdict"):
        file = folder / "variants" / "strict" / f"{template}.jinja"
        file.parent.mkdir(parents=True)
        file.write_text("別の文面", encoding="utf-8")
    return Workspace(replace(workspace.settings, prompts=folder), environment={})


def _stages(spec: RunSpec, workspace: Workspace) -> Iterator[RowStage[Any]]:
    plan = RunPlan(spec, list(spec.benchmarks), workspace)
    for name in CALLING_NAMES:
        if (name != "consensus" or spec.has_consensus) and (name != "pass_outputs" or spec.passes):
            yield calling_stage(name)(plan)


def _foreseen(spec: RunSpec, workspace: Workspace) -> list[tuple[Any, ...]]:
    stages = [stage.name for stage in _stages(spec, workspace)]
    estimates = forecast([spec], list(spec.benchmarks), stages, workspace, now=datetime.now(UTC))
    return [(one.benchmark, one.stage, one.model, one.rows_there, one.calls, one.calls_most) for one in estimates]


@pytest.mark.long
@pytest.mark.acceptance
def test_of_any_run_the_same_rows_stand_and_the_same_calls_are_missing_at_any_address(
    varied: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace_module, "EngineThread", None)  # nobody can be asked
    random, standing = Random(11), 0
    for number in range(_RUNS):
        workspace = on_frames(varied)
        request = random_request(random, lambda: random.choice(_HERE)).model_copy(update={"model": f"m{number}"})
        spec = half_made(request, random, workspace)
        urls = {"base_url": random.choice(_ELSEWHERE), "judge_base_url": random.choice(_ELSEWHERE)}
        moved = plan_run(request.model_copy(update=urls), workspace)
        for before, now in zip(_stages(spec, workspace), _stages(moved, workspace), strict=True):
            first, second, key = before.survey(), now.survey(), list(before.key)
            assert_frame_equal(first.standing.select(key), second.standing.select(key))
            assert_frame_equal(first.pending.select(key), second.pending.select(key))
            assert_frame_equal(first.outdated, second.outdated)
            standing += second.standing.height
        assert _foreseen(moved, workspace) == _foreseen(spec, workspace)
    assert standing > 10 * _RUNS


@pytest.fixture
def elsewhere() -> Iterator[MockEndpoint]:
    """Where the server of `mock` is after it moved."""
    with own_engine({}), without_results(), running_mock() as running:
        yield running


def _ask_all(mock: MockEndpoint, **values: Any) -> RunRequest:
    mock.options.script = lambda body, _: "SAFETY: clear" if body["model"] == "guard" else content_for(body)
    guard = {"passes": ["safety_check"], "pass_options": ["safety_check.model=guard"]}
    return ask(mock, **{"limit": 2} | guard | values)


def test_a_judged_run_is_complete_where_its_servers_went(
    workspace: Workspace, mock: MockEndpoint, elsewhere: MockEndpoint
) -> None:
    materialized(stored_run(workspace, _ask_all(mock)), workspace)
    before = {table: workspace.lake.read(table) for table in ("answers", "judgements", "pass_outputs")}

    spec = stored_run(workspace, _ask_all(elsewhere))
    materialized(spec, workspace)

    assert not elsewhere.bodies
    for table, rows in before.items():
        assert_frame_equal(workspace.lake.read(table), rows)
    materialized(stored_run(workspace, _ask_all(elsewhere, limit=3)), workspace)
    assert [body["model"] for body in elsewhere.bodies].count("mock-model") == 1
    materialized(stored_run(workspace, _ask_all(mock, limit=3)), workspace)
    assert mock.stats()["answered"] + elsewhere.stats()["answered"] == len(workspace.lake.read("calls")) == 9


def test_an_ensemble_is_complete_where_its_servers_went(
    workspace: Workspace, mock: MockEndpoint, elsewhere: MockEndpoint
) -> None:
    says = scripted(decider="Winner: A", mock_model="I would rather not say.", grader='{"verdict": "incorrect"}')
    mock.options.script = elsewhere.options.script = says
    asked = {"grader_model": GRADER, "sample": None, "limit": 1}
    materialized(stored_run(workspace, ask_ensemble(mock, **asked)), workspace)
    assert {DECIDER, GRADER} < {body["model"] for body in mock.bodies}

    materialized(stored_run(workspace, ask_ensemble(elsewhere, **asked)), workspace)

    assert not elsewhere.bodies


def test_a_judgement_without_a_score_is_asked_for_again_at_the_new_address(
    workspace: Workspace, mock: MockEndpoint, elsewhere: MockEndpoint
) -> None:
    mock.options.script = lambda body, _: "何とも言えません。" if body["model"] == "judge-a" else content_for(body)
    materialized(stored_run(workspace, ask(mock, limit=1)), workspace, "answers", "judgements")

    materialized(stored_run(workspace, ask(elsewhere, limit=1)), workspace, "answers", "judgements")

    assert [body["model"] for body in elsewhere.bodies] == ["judge-a"]
    current = workspace.lake.read("judgements").filter(superseded=False)
    assert current["status"].to_list() == ["ok"]
