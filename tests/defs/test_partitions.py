"""Runs of the lake become partitions of an instance that does not know them."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import orjson
import polars as pl
import pytest

from shaberi_dagster.defs.partitions import RUNS_NAME, add_missing_partitions
from shaberi_dagster.exchange.caches import import_ensemble
from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.workspace import Workspace
from tests.exchange.caches import baseline, response, result, write
from tests.exchange.trees.trees import LegacyTree, rows_of

pytestmark = pytest.mark.integration


def test_own_and_imported_runs_are_registered_once(
    registered: Callable[..., RunSpec], workspace: Workspace, tmp_path: Path
) -> None:
    own = registered(benchmarks=["elyza"])
    tree = LegacyTree(tmp_path / "tree")
    tree.answers("rakuda", rows_of("rakuda", ["一"]))
    import_trees(ImportRequest({"tree": tree.root}), workspace)
    import_ensemble([write(tmp_path / "b.json", baseline(result("q1", response("4"))))], workspace)
    assert workspace.lake.read("runs").height == 3

    with dg.DagsterInstance.ephemeral() as another:
        assert add_missing_partitions(workspace.lake, another) == 3
        assert add_missing_partitions(workspace.lake, another) == 0

        partitions = another.get_dynamic_partitions(RUNS_NAME)
        events = {
            name: another.get_latest_materialization_event(dg.AssetKey(["questions", name]))
            for name in ("elyza", "rakuda", "tengu")
        }
    assert own.run_id in partitions
    assert len(partitions) == 3
    facts = {name: dict(event.asset_materialization.metadata) for name, event in events.items()}
    assert [name for name, known in facts.items() if "sha256" in known] == ["elyza", "rakuda"]
    assert facts["tengu"] == {}, "no run asks them, but the UI need not warn that they are missing"


def test_questions_that_nobody_asked_are_told_as_soon_as_a_run_asks_them(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance
) -> None:
    def told(name: str) -> object:
        event = instance.get_latest_materialization_event(dg.AssetKey(["questions", name]))
        return event and event.asset_materialization.metadata.get("question_set")

    registered(benchmarks=["elyza"])
    assert (told("elyza"), told("tengu")) == (dg.MetadataValue.text("elyza@5"), None)
    registered(benchmarks=["tengu"], tag="later")
    assert told("tengu") == dg.MetadataValue.text("tengu@5")


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
    records_of = dg.DagsterInstance.get_asset_records

    def watched(instance: dg.DagsterInstance, keys: list[dg.AssetKey]) -> object:
        asked.append(keys)
        return records_of(instance, keys)

    monkeypatch.setattr(dg.DagsterInstance, "get_asset_records", watched)
    with dg.DagsterInstance.ephemeral() as another:
        assert add_missing_partitions(workspace.lake, another) == 1501
        assert len(another.get_dynamic_partitions(RUNS_NAME)) == 1501
    assert len(asked) == 1
