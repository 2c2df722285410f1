"""Imported scores outside of their scale: kept, left out where missing scores count, or too far away to be scores."""

import pytest

from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.runs.workspace import Workspace
from tests.exchange.trees.trees import LegacyTree, rows_of

pytestmark = pytest.mark.integration

_TEXTS = ("一", "二", "三", "四")
_POLICIES = "select null_policy, score, n_scored, n_failed, n_out_of_scale from metrics order by null_policy"


def _imported(tree: LegacyTree, workspace: Workspace, *scores: object) -> None:
    tree.answers("rakuda", rows_of("rakuda", _TEXTS[: len(scores)]))
    tree.judgements("rakuda", rows_of("rakuda", _TEXTS[: len(scores)], scores))
    import_trees(ImportRequest({"tree": tree.root}), workspace)


def _policies(workspace: Workspace) -> list[tuple[object, ...]]:
    with open_catalog(workspace.settings.warehouse) as catalog:
        return catalog.execute(_POLICIES).fetchall()


def test_a_score_outside_of_the_scale_counts_under_legacy_only_and_is_counted(
    tree: LegacyTree, workspace: Workspace
) -> None:
    _imported(tree, workspace, 5, 7, 11, 9)
    assert _policies(workspace) == [("legacy", 8.0, 4, 0, 1), ("strict", None, 3, 1, 1), ("zero", 5.5, 3, 1, 1)]


@pytest.mark.parametrize("score", [1e30, -1e30, 100.5, {"score": 1e30}])
def test_a_score_beyond_ten_times_the_scale_is_quarantined_with_its_reason(
    score: object, tree: LegacyTree, workspace: Workspace
) -> None:
    _imported(tree, workspace, 5, 7, score, 100)
    (row,) = workspace.lake.read("legacy_quarantine").to_dicts()
    assert (row["source_line"], row["path"].split("/")[2]) == (3, "judge_gpt-4-turbo-preview")
    assert row["reason"].endswith("is beyond 10 times the scale of rakuda, 1 to 10")
    assert workspace.lake.read("judgements")["score"].sort().to_list() == [5.0, 7.0, 100.0]
