"""Runs of the lake that Dagster does not know are shown by a sensor."""

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from shaberi_dagster.defs.partitions import RUNS_NAME
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.defs.sensors import lake_runs
from shaberi_dagster.exchange.caches import import_ensemble
from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.stages.ordered import STAGE_NAMES
from shaberi_dagster.runs.workspace import Workspace
from tests.exchange.caches import baseline, response, result, write
from tests.exchange.trees.trees import LegacyTree, rows_of

pytestmark = pytest.mark.integration


def _look(instance: dg.DagsterInstance) -> dg.SensorResult | dg.SkipReason:
    with dg.build_sensor_context(instance, resources={"workspace": WorkspaceResource()}) as context:
        return lake_runs(context)


def test_own_and_imported_runs_are_shown_once(
    registered: Callable[..., RunSpec], workspace: Workspace, tmp_path: Path
) -> None:
    own = registered(benchmarks=["elyza"])
    tree = LegacyTree(tmp_path / "tree")
    tree.answers("rakuda", rows_of("rakuda", ["一"]))
    import_trees(ImportRequest({"tree": tree.root}), workspace)
    import_ensemble([write(tmp_path / "b.json", baseline(result("q1", response("4"))))], workspace)

    with dg.DagsterInstance.ephemeral() as another:
        found = _look(another)
        (request,) = found.dynamic_partitions_requests
        another.add_dynamic_partitions(RUNS_NAME, request.partition_keys)
        for event in found.asset_events:
            another.report_runless_asset_event(event)
        assert isinstance(_look(another), dg.SkipReason)

    answered, graded = "org__model@@legacy-tree", "google:small@@legacy-baseline"
    assert set(request.partition_keys) == {own.run_id, answered, graded}
    shown = {(event.asset_key.to_user_string(), event.partition) for event in found.asset_events}
    assert shown == {("answers", answered), *((stage, graded) for stage in STAGE_NAMES)}


def test_the_first_run_tells_of_its_questions(registered: Callable[..., RunSpec], instance: dg.DagsterInstance) -> None:
    registered(benchmarks=["elyza"])
    event = instance.get_latest_materialization_event(dg.AssetKey("questions"))
    assert "elyza@5" in str(event.asset_materialization.metadata["question sets"].value)


def test_there_is_nothing_to_show_without_a_lake(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    assert isinstance(_look(instance), dg.SkipReason)
    assert not workspace.settings.warehouse.exists()
