"""Runs of the lake become partitions of an instance that does not know them."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import orjson
import polars as pl
import pytest

from shaberi_dagster.defs.partitions import RUNS_NAME, add_missing_partitions
from shaberi_dagster.legacy.ensemble import import_ensemble
from shaberi_dagster.legacy.importing import ImportRequest, import_trees
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.workspace import Workspace
from tests.legacy.caches import baseline, response, result, write
from tests.legacy.trees import LegacyTree, rows_of

pytestmark = pytest.mark.integration


def test_own_runs_and_those_of_imported_trees_are_registered_once(
    registered: Callable[..., RunSpec], workspace: Workspace, tmp_path: Path
) -> None:
    own = registered(benchmarks=["elyza"])
    tree = LegacyTree(tmp_path / "tree")
    tree.answers("rakuda", rows_of("rakuda", ["一"]))
    import_trees(ImportRequest({"tree": tree.root}), workspace)
    import_ensemble([write(tmp_path / "b.json", baseline(result("q1", response("4"))))], workspace)
    assert workspace.lake.read("runs").height == 3

    with dg.DagsterInstance.ephemeral() as another:
        assert add_missing_partitions(workspace.lake, another) == 2
        assert add_missing_partitions(workspace.lake, another) == 0

        partitions = another.get_dynamic_partitions(RUNS_NAME)
        events = {
            name: another.get_latest_materialization_event(dg.AssetKey(["questions", name]))
            for name in ("elyza", "rakuda", "tengu")
        }
    assert own.run_id in partitions
    assert len(partitions) == 2
    assert [name for name, event in events.items() if event is None] == ["tengu"]


def test_there_is_nothing_to_register_without_a_lake(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    assert add_missing_partitions(workspace.lake, instance) == 0
    assert not workspace.settings.warehouse.exists()


def test_many_runs_are_registered_without_a_query_for_each(
    registered: Callable[..., RunSpec], workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = registered(benchmarks=["elyza", "tengu"])
    row = workspace.lake.read("runs")
    names = [f"{spec.run_id}-{number}" for number in range(1500)]
    many = pl.concat([row] * len(names)).with_columns(run_id=pl.Series(names), created_at=pl.lit(datetime.now(UTC)))
    workspace.lake.append("runs", many)
    assert orjson.loads(row["spec"][0])["benchmarks"].keys() == {"elyza", "tengu"}
    asked = []
    event_of = dg.DagsterInstance.get_latest_materialization_event

    def watched(instance: dg.DagsterInstance, key: dg.AssetKey) -> object:
        asked.append(key)
        return event_of(instance, key)

    monkeypatch.setattr(dg.DagsterInstance, "get_latest_materialization_event", watched)
    with dg.DagsterInstance.ephemeral() as another:
        assert add_missing_partitions(workspace.lake, another) == 1501
        assert len(another.get_dynamic_partitions(RUNS_NAME)) == 1501
    assert len(asked) == 2
