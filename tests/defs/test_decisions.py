"""Decisions and calibrations as assets."""

import shutil

import dagster as dg
import pytest

from shaberi_dagster.defs.decisions import decision_calibrations, decisions, links
from shaberi_dagster.defs.resources import WorkspaceResource
from tests.deciding.deciding import judging, remember, request
from tests.deciding.linking import MODELS, imported, judging_again
from tests.deciding.linking import request as link_request
from tests.example_runs import own_engine

pytestmark = pytest.mark.integration


def materialized(asset, instance, **config):
    return dg.materialize(
        [asset],
        instance=instance,
        resources={"workspace": WorkspaceResource()},
        run_config={"ops": {asset.op.name: {"config": config}}},
    )


def metadata_of(event):
    return {name: value.value for name, value in event.metadata.items()}


@pytest.mark.long
def test_a_decision_is_an_asset_with_its_curve_and_tells_of_each_look_while_it_is_made(mock, instance, tmp_path):
    mock.options.script = judging({"strong": 2.0})
    asked = request(mock, tmp_path, "weak", "strong").model_dump(exclude_none=True)

    with own_engine({}):
        done = materialized(decisions, instance, **asked)

    (event,) = done.get_asset_materialization_events()
    metadata = metadata_of(event.materialization)
    assert (metadata["state"], metadata["best"]) == ("decided", "strong@@default")
    assert metadata["curve"].count("\n") >= 2
    looks = [metadata_of(one.asset_observation_data.asset_observation) for one in done.get_asset_observation_events()]
    assert [one["questions asked"] for one in looks] == sorted(one["questions asked"] for one in looks)
    assert looks[-1]["questions asked"] == metadata["questions asked"]
    assert looks[-1]["upper"] < 0


def test_the_history_of_each_judge_is_calibrated_with_a_check(workspace, instance):
    remember(workspace)
    remember(workspace, judge="judge-b", models=20)

    done = materialized(decision_calibrations, instance, judges=["judge-a", "judge-b"])

    (check,) = done.get_asset_check_evaluations()
    assert check.passed
    assert "judge-b has too little history" in check.metadata.get("description", check.description)
    (event,) = done.get_asset_materialization_events()
    assert "judge-a" in metadata_of(event.materialization)["replays"].replace("&#45;", "-")
    assert workspace.lake.read("decision_calibrations")["judges"].to_list() == [["judge-a"]] * 3


@pytest.mark.long
def test_a_link_is_an_asset_with_its_offsets(mock, workspace, instance, tmp_path, monkeypatch):
    variant = tmp_path / "prompts" / "variants" / "strict" / "judging"
    shutil.copytree(workspace.settings.prompts, tmp_path / "prompts")
    variant.mkdir(parents=True)
    (variant / "answer_rule.jinja").write_text("厳しく採点してください。", encoding="utf-8")
    monkeypatch.setenv("SHABERI_PROMPTS", str(tmp_path / "prompts"))
    imported(workspace, tmp_path)
    mock.options.script = judging_again(share_changed=0.1)
    asked = link_request(mock, models=MODELS, questions=54).model_dump(exclude_none=True)

    with own_engine({}):
        done = materialized(links, instance, **asked)

    (event,) = done.get_asset_materialization_events()
    metadata = metadata_of(event.materialization)
    assert (metadata["judges"], metadata["granted"]) == ("judge-a, judge-a+strict", True)
    assert "overall" in metadata["offsets"]
