"""The import as the UI runs it."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import dagster as dg
import pytest

from shaberi_dagster.definitions import defs
from shaberi_dagster.defs.code_location import run_operation
from shaberi_dagster.defs.imports import IMPORT, TREES_NAME
from shaberi_dagster.defs.jobs import EVALUATE
from shaberi_dagster.defs.partitions import RUNS_NAME
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.util.errors import ConfigurationError
from tests.exchange.trees.trees import LegacyTree, rows_of

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("results_left_out")]

Import = Callable[..., dg.ExecuteInProcessResult]


@pytest.fixture
def tree(tmp_path: Path) -> LegacyTree:
    """A judged model, and one that nobody judged."""
    made = LegacyTree(tmp_path / "tree")
    made.answers("rakuda", rows_of("rakuda", ["一", "二"]))
    made.judgements("rakuda", rows_of("rakuda", ["一", "二"], [7, 8]), "a")
    made.answers("elyza", rows_of("elyza", ["一"]), model="second")
    return made


@pytest.fixture
def run_import(tree: LegacyTree, instance: dg.DagsterInstance, workspace: Workspace) -> Import:
    """Runs the job with this config."""

    def run(**config: object) -> dg.ExecuteInProcessResult:
        values = {"trees": [f"tree={tree.root}"]} | config
        instance.add_dynamic_partitions(TREES_NAME, ["tree"])
        return run_operation("import_legacy", instance, values, workspace, "tree")

    return run


def test_a_part_of_a_tree_can_be_imported_alone(run_import: Import, workspace: Workspace) -> None:
    run_import(models="second", tag="part")
    assert workspace.lake.read("runs")["run_id"].to_list() == ["second@@part-tree"]


@pytest.mark.long
def test_a_tree_is_where_it_was_unless_its_folder_is_named(
    run_import: Import, instance: dg.DagsterInstance, tree: LegacyTree, workspace: Workspace
) -> None:
    with pytest.raises(ConfigurationError, match="the folder of tree 'tree' is not known yet"):
        run_import(trees=[])
    run_import()
    tree.judgements("rakuda", rows_of("rakuda", ["一", "二"], [5, 6]), "b")
    run_import(trees=[])
    assert set(workspace.lake.read("judgements")["judge"]) == {"a", "b"}
    assert instance.get_materialized_partitions(dg.AssetKey(IMPORT)) == {"tree"}


@pytest.mark.parametrize("lost", [[], ["gone"]])
def test_several_trees_are_one_backfill_with_the_sums_of_each_and_one_that_is_lost_loses_no_other(
    instance: dg.DagsterInstance, tree: LegacyTree, workspace: Workspace, tmp_path: Path, lost: list[str]
) -> None:
    other = LegacyTree(tmp_path / "other")
    other.answers("rakuda", rows_of("rakuda", ["別"]))
    instance.add_dynamic_partitions(TREES_NAME, ["other", *lost, "tree"])
    config = {"trees": [f"tree={tree.root}", f"other={other.root}"]}
    ends = {f"dagster/asset_partition_range_{end}": name for end, name in (("start", "other"), ("end", "tree"))}
    with pytest.raises(ConfigurationError, match="'gone' is not known yet") if lost else nullcontext():
        run_operation("import_legacy", instance, config, workspace, **ends)
    events = instance.fetch_materializations(dg.AssetKey(IMPORT), limit=10).records
    lines = {one.partition_key: one.asset_materialization.metadata["lines"].value for one in events}
    assert lines == {"tree": 5, "other": 1}


def test_without_a_partition_all_named_trees_are_imported(
    instance: dg.DagsterInstance, tree: LegacyTree, workspace: Workspace
) -> None:
    run_operation("import_legacy", instance, {"trees": [f"tree={tree.root}"]}, workspace)
    assert instance.get_materialized_partitions(dg.AssetKey(IMPORT)) == {"tree"}
    assert list(instance.get_dynamic_partitions(TREES_NAME)) == ["tree"]


def test_a_tree_that_is_not_there_is_refused(run_import: Import) -> None:
    with pytest.raises(ConfigurationError, match="trees: no folder"):
        run_import(trees=["gone"])


def test_an_imported_run_cannot_be_materialized(run_import: Import, instance: dg.DagsterInstance) -> None:
    run_import()
    instance.add_dynamic_partitions(RUNS_NAME, ["second@@legacy-tree"])
    with pytest.raises(dg.Failure, match="was imported and cannot be continued"):
        defs.resolve_job_def(EVALUATE).execute_in_process(
            instance=instance, partition_key="second@@legacy-tree", asset_selection=[dg.AssetKey("answers")]
        )
