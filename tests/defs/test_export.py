"""The exports as assets."""

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from shaberi_dagster.defs.export import results, shaberi_v1
from shaberi_dagster.defs.partitions import RUNS_NAME
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.workspace import Workspace
from tests.example_runs import materialized
from tests.results_tree import assert_valid_tree

pytestmark = pytest.mark.integration


def _materialized(instance: dg.DagsterInstance, **config: object) -> dict[str, object]:
    result = dg.materialize(
        [shaberi_v1],
        instance=instance,
        resources={"workspace": WorkspaceResource()},
        run_config={"ops": {"jsonl_export__shaberi_v1": {"config": config}}},
    )
    (event,) = result.get_asset_materialization_events()
    return {name: value.value for name, value in event.materialization.metadata.items()}


def test_the_asset_writes_the_lake_beside_its_tables_and_says_how_much(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance, workspace: Workspace
) -> None:
    materialized(registered(benchmarks=["elyza"]), workspace, "answers", "judgements")

    metadata = _materialized(instance)

    folder = workspace.settings.warehouse / "_export" / "shaberi-v1"
    assert metadata["folder"] == str(folder)
    assert (metadata["files"], metadata["dagster/row_count"], metadata["not written"]) == (2, 6, 0)
    assert (folder / "data" / "model_answers" / "elyza__ELYZA-tasks-100" / "model.json").is_file()


def _results_of(instance: dg.DagsterInstance, *run_ids: str, **config: object) -> dict[str, object]:
    """Metadata of the results after a backfill of these runs, which is one Dagster run."""
    first, last = run_ids[0], run_ids[-1]
    result = dg.materialize(
        [results],
        instance=instance,
        resources={"workspace": WorkspaceResource()},
        run_config={"ops": {"jsonl_export__results": {"config": config}}},
        tags={"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last},
    )
    event, *_ = result.get_asset_materialization_events()
    return {name: value.value for name, value in event.materialization.metadata.items()}


def test_the_results_of_a_run_are_an_asset_of_its_partition(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance, workspace: Workspace
) -> None:
    spec = registered(benchmarks=["elyza"])
    materialized(spec, workspace)

    metadata = _results_of(instance, spec.run_id)

    tree = workspace.settings.results
    assert assert_valid_tree(tree)["manifest"] == 1
    assert metadata["folder"] == str(tree / "model" / "default")
    assert (metadata["status"], metadata["not exported"]) == ("complete", 0)
    assert metadata["files"] == sum(path.is_file() for path in tree.rglob("*"))
    assert metadata["bytes"] == sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())


def test_a_backfill_writes_all_its_runs_into_the_folder_that_was_chosen(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    run_ids = [registered(benchmarks=["elyza"], tag=f"july-run{number}").run_id for number in (1, 2)]

    metadata = _results_of(instance, *run_ids, output=str(tmp_path / "tree"), compact=True)

    assert assert_valid_tree(tmp_path / "tree")["manifest"] == 2
    assert (metadata["folder"], metadata["status"], metadata["summaries"]) == (str(tmp_path / "tree"), "running", 1)


def test_a_partition_without_a_run_is_told_and_fails_nothing(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance
) -> None:
    spec = registered(benchmarks=["elyza"])
    instance.add_dynamic_partitions(RUNS_NAME, ["nobody@@x"])

    metadata = _results_of(instance, spec.run_id, "nobody@@x")

    assert (metadata["not exported"], metadata["status"]) == (1, "running")
