"""The import as the UI runs it."""

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from shaberi_dagster.definitions import defs
from shaberi_dagster.defs.code_location import run_operation
from shaberi_dagster.defs.imports import IMPORT, TREES_NAME
from shaberi_dagster.defs.jobs import EVALUATE, asset_keys
from shaberi_dagster.defs.partitions import RUNS_NAME
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.runs.workspace import Workspace
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
def run_import(tree: LegacyTree, instance: dg.DagsterInstance) -> Import:
    """Runs the job with this config."""

    def run(**config: object) -> dg.ExecuteInProcessResult:
        values = {"trees": [f"tree={tree.root}"]} | config
        instance.add_dynamic_partitions(TREES_NAME, ["tree"])
        return run_operation("import_legacy", instance, values, partition_key="tree")

    return run


def _partitions(instance: dg.DagsterInstance) -> dict[tuple[str, ...], set[str]]:
    keys = [key for key in defs.resolve_asset_graph().get_all_asset_keys() if len(key.path) > 1]
    found = {tuple(key.path): instance.get_materialized_partitions(key) for key in keys}
    return {key: partitions for key, partitions in found.items() if partitions}


def _events(instance: dg.DagsterInstance, stage: str, benchmark: str) -> int:
    return len(instance.fetch_materializations(dg.AssetKey([stage, benchmark]), limit=100).records)


def test_an_import_materializes_the_partitions_that_have_rows(run_import: Import, instance: dg.DagsterInstance) -> None:
    result = run_import()

    assert result.success
    first, second = "org%5F%5Fmodel@@legacy-tree", "second@@legacy-tree"
    assert set(instance.get_dynamic_partitions(RUNS_NAME)) == {first, second}
    stages = ("answers", "judgements", "scores", "metrics")
    assert _partitions(instance) == {(stage, "rakuda"): {first} for stage in stages} | {("answers", "elyza"): {second}}
    assert {_events(instance, "questions", name) for name in ("rakuda", "elyza")} == {1}


def test_an_import_says_what_became_of_its_files(run_import: Import) -> None:
    result = run_import()

    (event,) = [one for one in result.get_asset_materialization_events() if one.asset_key == dg.AssetKey(IMPORT)]
    metadata = {name: value.value for name, value in event.materialization.metadata.items()}
    assert (metadata["dagster/row_count"], metadata["files"], metadata["lines"]) == (5, 3, 5)
    assert (metadata["models read"], metadata["models already there"], metadata["runs imported"]) == (2, 0, 2)
    assert metadata["partitions logged"] == 5
    assert "yuzuai" in metadata["reconciliation of files"]
    assert {check.check_name: check.passed for check in result.get_asset_check_evaluations()} == {
        "reconciled": True,
        "nothing_quarantined": True,
    }


def test_partitions_are_logged_once_and_later_where_they_were_not(
    run_import: Import, instance: dg.DagsterInstance, tree: LegacyTree
) -> None:
    run_import(log_runs=False)
    assert _partitions(instance) == {}
    run_import()
    run_import()
    assert _events(instance, "metrics", "rakuda") == 1

    tree.judgements("rakuda", rows_of("rakuda", ["一", "二"], [5, 6]), "b")
    run_import()
    assert (_events(instance, "metrics", "rakuda"), _events(instance, "answers", "elyza")) == (2, 1)


def test_a_part_of_a_tree_can_be_imported_alone(run_import: Import, workspace: Workspace) -> None:
    run_import(models="second", tag="part")
    assert workspace.lake.read("runs")["run_id"].to_list() == ["second@@part-tree"]


def test_quarantined_lines_are_a_warning_with_their_place(run_import: Import, tree: LegacyTree) -> None:
    tree.answers("tengu", b'{"<script>": 1}\n', model="third")

    result = run_import()

    assert result.success
    check = next(one for one in result.get_asset_check_evaluations() if one.check_name == "nothing_quarantined")
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert check.description == "1 lines quarantined, 0 files not read"
    (event,) = [one for one in result.get_asset_materialization_events() if one.asset_key == dg.AssetKey(IMPORT)]
    assert "third" in str(event.materialization.metadata["quarantine"].value)


@pytest.mark.long
def test_a_tree_is_where_it_was_unless_its_folder_is_named(
    run_import: Import, instance: dg.DagsterInstance, tree: LegacyTree, workspace: Workspace
) -> None:
    with pytest.raises(ConfigurationError, match="where the legacy tree 'tree' is is not known yet"):
        run_import(trees=[])
    run_import()
    tree.judgements("rakuda", rows_of("rakuda", ["一", "二"], [5, 6]), "b")
    run_import(trees=[])
    assert set(workspace.lake.read("judgements")["judge"]) == {"a", "b"}
    assert instance.get_materialized_partitions(dg.AssetKey(IMPORT)) == {"tree"}


def test_several_trees_are_one_backfill_with_the_sums_of_each(
    instance: dg.DagsterInstance, tree: LegacyTree, tmp_path: Path
) -> None:
    other = LegacyTree(tmp_path / "other")
    other.answers("rakuda", rows_of("rakuda", ["別"]))
    instance.add_dynamic_partitions(TREES_NAME, ["other", "tree"])
    config = {"trees": [f"tree={tree.root}", f"other={other.root}"]}
    ends = {f"dagster/asset_partition_range_{end}": name for end, name in (("start", "other"), ("end", "tree"))}
    run_operation("import_legacy", instance, config, tags=ends)
    events = instance.fetch_materializations(dg.AssetKey(IMPORT), limit=10).records
    lines = {one.partition_key: one.asset_materialization.metadata["lines"].value for one in events}
    assert lines == {"tree": 5, "other": 1}


def test_without_a_partition_all_named_trees_are_imported(instance: dg.DagsterInstance, tree: LegacyTree) -> None:
    run_operation("import_legacy", instance, {"trees": [f"tree={tree.root}"]})
    assert instance.get_materialized_partitions(dg.AssetKey(IMPORT)) == {"tree"}
    assert list(instance.get_dynamic_partitions(TREES_NAME)) == ["tree"]


def test_a_tree_that_is_not_there_is_refused(run_import: Import) -> None:
    with pytest.raises(ConfigurationError, match="must be an existing folder"):
        run_import(trees=["gone"])


def test_an_imported_run_cannot_be_materialized(run_import: Import, instance: dg.DagsterInstance) -> None:
    run_import()
    with pytest.raises(ConfigurationError, match="was imported and cannot be continued"):
        defs.resolve_job_def(EVALUATE).execute_in_process(
            instance=instance, partition_key="second@@legacy-tree", asset_selection=asset_keys(["elyza"])
        )
