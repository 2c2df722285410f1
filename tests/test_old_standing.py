"""What stands was decided with addresses; today it is decided without. Both must agree until the old way goes."""

import shutil
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from shaberi_dagster.evaluation import CALLING_STAGES, stage_of
from shaberi_dagster.forecast import forecast
from shaberi_dagster.llm.endpoints import EMBEDDED_URL
from shaberi_dagster.runs import workspace as workspace_module
from shaberi_dagster.runs.plan import RunPlan
from shaberi_dagster.runs.planning import plan_run
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.workspace import Workspace
from tests import old_standing
from tests.kept_lake.contents import ARCHIVE, specs_of, workspace_of
from tests.kept_lake.keys import stages_with_rows, standing_and_pending
from tests.random_runs import half_made, on_frames, random_request

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
_URLS = [f"http://127.0.0.1:{port}/v1" for port in (1, 2)]
_OTHER_URLS = [f"http://127.0.0.1:{port}/v1" for port in (3, 4)]


@pytest.fixture(autouse=True)
def nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def engine(*_: object) -> None:
        raise AssertionError("somebody is asked")

    monkeypatch.setattr(workspace_module, "EngineThread", engine)


@pytest.fixture
def varied(workspace: Workspace, tmp_path: Path) -> Iterator[Workspace]:
    """A workspace whose prompts have a variant."""
    folder = shutil.copytree(workspace.settings.prompts, tmp_path / "prompts")
    file = folder / "variants" / "strict" / "judging" / "answer_rule.jinja"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("別の文面", encoding="utf-8")
    settings = workspace.settings.__class__(**vars(workspace.settings) | {"prompts": folder})
    return Workspace(settings, environment={})


def _stages(spec: RunSpec, workspace: Workspace) -> Iterator[tuple[Any, RunPlan]]:
    plan = RunPlan(spec, list(spec.benchmarks), workspace)
    for name in CALLING_STAGES:
        if (name != "consensus" or spec.ensemble) and (name != "pass_outputs" or spec.passes):
            yield stage_of(name, plan), plan


def _agree(spec: RunSpec, workspace: Workspace) -> int:
    """How many rows stand, by both."""
    count = 0
    for stage, plan in _stages(spec, workspace):
        survey, key = stage.survey(), list(stage.key)
        standing, pending = old_standing.standing_and_pending(stage, plan)
        assert_frame_equal(survey.standing.select(key), standing)
        assert_frame_equal(survey.pending.select(key), pending)
        count += standing.height
    return count


def _same_elsewhere(spec: RunSpec, moved: RunSpec, workspace: Workspace) -> None:
    """At another address the same rows stand, and the same are to be made."""
    assert moved.endpoint.base_url != spec.endpoint.base_url
    for (before, _), (now, _) in zip(_stages(spec, workspace), _stages(moved, workspace), strict=True):
        first, second, key = before.survey(), now.survey(), list(before.key)
        assert_frame_equal(first.standing.select(key), second.standing.select(key))
        assert_frame_equal(first.pending.select(key), second.pending.select(key))
        assert_frame_equal(first.outdated, second.outdated)


def test_random_runs_stand_as_before_and_anywhere(varied: Workspace) -> None:
    random, standing = Random(11), 0
    for number in range(500):
        workspace = on_frames(varied)
        request = random_request(random, lambda: random.choice(_URLS))
        request = request.model_copy(update={"model": f"m{number}"})
        spec = half_made(request, random, workspace, old_standing.as_planned)
        standing += _agree(spec, workspace)
        urls = {"base_url": random.choice(_OTHER_URLS), "judge_base_url": random.choice(_OTHER_URLS)}
        moved = plan_run(request.model_copy(update=urls), workspace)
        _same_elsewhere(spec, moved, workspace)
        stages = [stage.name for stage, _ in _stages(spec, workspace)]
        foreseen, foreseen_elsewhere = (
            [
                (one.benchmark, one.stage, one.model, one.rows_there, one.calls, one.calls_most)
                for one in forecast([each], list(spec.benchmarks), stages, workspace, now=datetime.now(UTC))
            ]
            for each in (spec, moved)
        )
        assert foreseen == foreseen_elsewhere
    assert standing > 5000


def test_the_kept_lake_stands_as_before_and_anywhere(tmp_path: Path) -> None:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    workspace, standing = workspace_of(tmp_path), 0
    for spec in specs_of(workspace).values():
        standing += _agree(spec, workspace)
        moved = _moved(spec)
        _same_elsewhere(spec, moved, workspace)
        for stage in stages_with_rows(spec):
            before, now = (standing_and_pending(workspace, one, stage) for one in (spec, moved))
            places, places_now = (
                [[*key, [place for *_, place in calls]] for *key, calls in one["pending"]] for one in (before, now)
            )
            assert (before["standing"], places) == (now["standing"], places_now)
    assert standing > 200


def _moved(spec: RunSpec) -> RunSpec:
    """The run with all of its servers elsewhere."""

    def walked(value: Any) -> Any:
        if isinstance(value, dict):
            found = {name: walked(one) for name, one in value.items()}
            if "base_url" in value and value["base_url"] != EMBEDDED_URL:
                found |= {"base_url": _OTHER_URLS[0], "earlier": [value["base_url"]]}
            return found
        return list(map(walked, value)) if isinstance(value, list) else value

    return RunSpec.model_validate(walked(spec.model_dump(mode="json")))
