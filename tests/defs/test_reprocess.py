"""The job that makes stored runs anew, and passes asked for in the launchpad."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from shaberi_dagster.definitions import defs
from shaberi_dagster.defs.code_location import run_operation
from shaberi_dagster.defs.jobs import EVALUATE
from shaberi_dagster.defs.partitions import RUNS_NAME
from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from tests.commands import lake_of
from tests.ensembles import scripted
from tests.example_runs import ask, materialized, own_engine, stored_run
from tests.exchange.trees.trees import LegacyTree, rows_of
from tests.mock_endpoint import MockEndpoint, running_mock

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("results_left_out")]

_LEAK = "日本の首都は東京です。东京には大学や博物館も多くあります。"
_IMPORTED = "org%5F%5Fmodel@@legacy-tree"
_LOWER = {"passes": ["lang_mixing"], "pass_options": ["lang_mixing.minimum_severity=0.5"]}


def _leaks(body: dict[str, Any], _: int) -> str:
    return _LEAK if body["model"] == "model" else "FINAL SCORE: 8"


@pytest.fixture
def leaking(mock: MockEndpoint) -> MockEndpoint:
    mock.options.script = _leaks
    return mock


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, RunSpec, MockEndpoint]]:
    """A folder with a lake of an imported and an own run of one question, the own one, and whom it asked."""
    folder = tmp_path_factory.mktemp("made")
    tree = LegacyTree(folder / "tree")
    tree.answers("rakuda", rows_of("rakuda", [_LEAK]))
    tree.judgements("rakuda", rows_of("rakuda", [_LEAK], [8]), "a")
    workspace = Workspace(Settings.from_environment(lake_of(folder)), environment={})
    import_trees(ImportRequest({"tree": tree.root}), workspace)
    with running_mock(script=_leaks) as mock, own_engine({}):
        spec = stored_run(workspace, ask(mock, model="model", tag="a-run1", benchmarks=["rakuda"], limit=1))
        materialized(spec, workspace)
        yield folder, spec, mock


@pytest.fixture
def own(made: tuple[Path, RunSpec, MockEndpoint], tmp_path: Path, instance: dg.DagsterInstance) -> RunSpec:
    """The own run, in a copy of this lake whose two runs the instance knows."""
    folder, spec, _ = made
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    instance.add_dynamic_partitions(RUNS_NAME, [spec.run_id, "org__model@@legacy-tree"])
    return spec


def _reprocess(instance: dg.DagsterInstance, **config: Any) -> dict[str, int]:
    done: dict[str, int] = run_operation(
        "reprocess", instance, config, Workspace(Settings.from_environment())
    ).output_for_node("reprocess_runs")
    return done


def _metrics(workspace: Workspace, run_id: str) -> dict[str, float]:
    rows = workspace.lake.read("metrics", {"run_id": run_id, "null_policy": "strict"})
    return dict(rows.select("pipeline", "score").iter_rows())


def test_own_and_imported_runs_are_made_anew_without_a_call(
    own: RunSpec,
    instance: dg.DagsterInstance,
    workspace: Workspace,
    made: tuple[Path, RunSpec, MockEndpoint],
) -> None:
    *_, mock = made
    requests = mock.stats()["requests"]

    assert _reprocess(instance, **_LOWER) == {"runs": 2, "imported": 1}

    assert mock.stats()["requests"] == requests
    assert _metrics(workspace, own.run_id) == {"baseline": 8.0, "lang_mixing": 3.5}
    assert _metrics(workspace, _IMPORTED) == {"baseline": 8.0, "lang_mixing": 3.5}
    started = instance.get_runs(dg.RunsFilter(job_name=EVALUATE))
    assert [run.tags["dagster/partition"] for run in started] == [own.run_id]


def test_a_run_that_this_instance_does_not_know_becomes_its_partition(own: RunSpec, workspace: Workspace) -> None:
    with dg.DagsterInstance.ephemeral() as another:
        assert _reprocess(another, **_LOWER) == {"runs": 2, "imported": 1}
        assert another.get_dynamic_partitions(RUNS_NAME) == [own.run_id]
    assert set(_metrics(workspace, own.run_id)) == {"baseline", "lang_mixing"}


def test_samples_and_their_consensus_are_graded_again_and_take_passes(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance, workspace: Workspace, mock: MockEndpoint
) -> None:
    mock.options.script = scripted()
    asked = {"samples": 2, "strategies": ["plurality"], "judge_models": None, "limit": None}
    asked |= {"single": "own", "sample": 2}
    spec = registered(benchmarks=["gsm8k"], **asked)
    materialized(spec, workspace, "answers", "consensus", "judgements")
    judgements = workspace.lake.read("judgements")
    workspace.lake.replace("judgements", judgements.clear(), {"run_id": spec.run_id})
    requests = mock.stats()["requests"]

    assert _reprocess(instance, **_LOWER) == {"runs": 1, "imported": 0}

    assert mock.stats()["requests"] == requests
    assert workspace.lake.read("judgements").height == judgements.height == 2 * (3 + 2)
    scored = workspace.lake.read("scores").group_by("pipeline").len()
    assert dict(scored.iter_rows()) == {"baseline": judgements.height, "lang_mixing": judgements.height}
    assert workspace.lake.read("runs")["status"].to_list() == ["complete"]


def test_what_failed_stays_a_failure_though_the_endpoint_is_gone(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance, workspace: Workspace, leaking: MockEndpoint
) -> None:
    guard = {"passes": ["safety_check"], "pass_options": ["safety_check.model=guard"]}
    spec = registered(benchmarks=["rakuda"], **guard)
    materialized(spec, workspace, "answers", "judgements", "pass_outputs")
    assert set(workspace.lake.read("pass_outputs")["error_class"]) == {"no_verdict"}
    requests = leaking.stats()["requests"]
    leaking.options.key = "changed"

    _reprocess(instance, **_LOWER)

    assert leaking.stats()["requests"] == requests
    assert _metrics(workspace, spec.run_id) == {"baseline": 8.0, "lang_mixing": 3.5, "safety_check": None}


@pytest.mark.usefixtures("own")
def test_an_imported_run_takes_passes_from_the_launchpad_of_its_assets(
    instance: dg.DagsterInstance, workspace: Workspace
) -> None:
    stages = ("pass_outputs", "scores", "metrics")
    result = defs.resolve_job_def(EVALUATE).execute_in_process(
        instance=instance,
        partition_key="org__model@@legacy-tree",
        asset_selection=[dg.AssetKey(stage) for stage in stages],
        run_config={"ops": {"pass_outputs": {"config": _LOWER}}},
    )

    assert result.success
    assert _metrics(workspace, _IMPORTED) == {"baseline": 8.0, "lang_mixing": 3.5}
    assert {event.asset_key.to_user_string() for event in result.get_asset_materialization_events()} == set(stages)
