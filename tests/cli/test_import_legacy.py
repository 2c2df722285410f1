"""What `shaberi import-legacy` does in Dagster, and what `--report` says about what was imported."""

import json
from contextlib import nullcontext

import dagster as dg
import pytest

from shaberi_dagster.cli.command import FAILED_PARTS, FINE
from shaberi_dagster.cli.import_legacy import show_report
from shaberi_dagster.defs import execution
from shaberi_dagster.defs.imports import IMPORT
from shaberi_dagster.defs.operations import import_trees as import_from
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.lake.formats import FORMAT, FORMAT_NAME
from tests.exchange.trees.trees import LegacyTree, rows_of

pytestmark = pytest.mark.integration


@pytest.fixture
def tree(tmp_path) -> LegacyTree:
    return LegacyTree(tmp_path / "tree")


@pytest.fixture
def imported(workspace, tree):
    tree.answers("elyza", rows_of("elyza", ["一", "二"]))
    tree.judgements("elyza", rows_of("elyza", ["一", "二"], [3, 4]), "a")
    import_trees(ImportRequest({"tree": tree.root}), workspace)
    return workspace.settings


def test_sums_are_shown_by_tree_and_with_all_by_judge(imported, capsys) -> None:
    assert show_report(imported, "legacy", full=False, as_json=False) == FINE
    short = capsys.readouterr().out
    assert "4 lines: 4 imported, 0 repeated, 0 blank, 0 quarantined; all sums agree." in short.splitlines()
    assert "Judgements by judge and benchmark" not in short
    show_report(imported, "legacy", full=True, as_json=False)
    assert "Judgements by judge and benchmark" in capsys.readouterr().out


def test_what_could_not_be_read_is_said_and_is_exit_code_3(imported, tree, workspace, capsys) -> None:
    tree.answers("tengu", b'{"Question": 1}\n')
    (tree.root / "data" / "notes.txt").write_text("?", encoding="utf-8")
    import_trees(ImportRequest({"tree": tree.root}), workspace)
    assert show_report(imported, "legacy", full=False, as_json=False) == FAILED_PARTS
    said = capsys.readouterr().out
    assert "1 quarantined; all sums agree." in said
    assert "1 files or folders were not read, or not to their end." in said
    show_report(imported, "legacy", full=False, as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert [one["path"] for one in document["not_read"]] == ["data/notes.txt"]
    assert document["discrepancies"] == []


def test_a_lake_of_an_older_format_is_not_counted(imported) -> None:
    (imported.warehouse / FORMAT_NAME).write_text(json.dumps({"format": 3}), encoding="utf-8")
    with pytest.raises(ConfigurationError, match=f"has format 3, .*: `shaberi compact` brings it to {FORMAT}"):
        show_report(imported, "legacy", full=False, as_json=False)


def test_several_trees_are_one_dagster_run_with_a_partition_for_each(settings, tree, tmp_path, monkeypatch) -> None:
    tree.answers("elyza", rows_of("elyza", ["一", "二"]))
    other = LegacyTree(tmp_path / "other")
    other.answers("elyza", rows_of("elyza", ["一", "三"]))
    trees = [str(one.root) for one in (tree, other)]

    with dg.DagsterInstance.ephemeral() as instance:
        monkeypatch.setattr(execution, "ready_instance", lambda _: nullcontext(instance))
        import_from(settings, trees, "legacy", "*", log_runs=True)

        assert [run.status for run in instance.get_runs()] == [dg.DagsterRunStatus.SUCCESS]
        assert instance.get_materialized_partitions(dg.AssetKey(IMPORT)) == {"tree", "other"}
        runs = instance.get_materialized_partitions(dg.AssetKey(["answers", "elyza"]))
        assert runs == {"org%5F%5Fmodel@@legacy-tree", "org%5F%5Fmodel@@legacy-other"}
