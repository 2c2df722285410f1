"""Metrics have the single scores that they are made of, for intervals and ties."""

from pathlib import Path

import polars as pl
import pytest

from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.runs.workspace import Workspace
from tests.exchange.trees.trees import LegacyTree, rows_of

pytestmark = pytest.mark.integration

_SCORES = {"a": [5, 8, None, 7, 11], "b": [4, 4, 6, 3, 5], "c": [9, None, None, 8, 10]}


@pytest.fixture
def imported(workspace: Workspace, tmp_path: Path) -> Workspace:
    """A workspace with three imported models that one judge has judged, one of them outside of the scale."""
    tree = LegacyTree(tmp_path / "tree")
    answers = ["一", "二", "三", "四", "五"]
    for model, scores in _SCORES.items():
        tree.answers("rakuda", rows_of("rakuda", answers), model=model)
        tree.judgements("rakuda", rows_of("rakuda", answers, scores), model=model)
    import_trees(ImportRequest({"tree": tree.root}), workspace)
    return workspace


def test_each_mean_is_that_of_its_single_scores(imported: Workspace) -> None:
    metrics = imported.lake.read("metrics")
    found = metrics.select("model", "null_policy", "question_scores").rows()
    by_policy = {(model, policy): scores for model, policy, scores in found}
    assert sorted(by_policy["a", "legacy"], key=str) == sorted([5.0, 8.0, None, 7.0, 11.0], key=str)
    assert sorted(by_policy["a", "zero"]) == [1.0, 1.0, 5.0, 7.0, 8.0]
    assert by_policy["a", "strict"].count(None) == 2
    assert by_policy["b", "strict"] == by_policy["b", "legacy"]
    assert all(ids == sorted(ids) and len(set(ids)) == 5 for ids in metrics["question_ids"].to_list())
    known = metrics.filter(pl.col("score").is_not_null())
    assert known["question_scores"].list.mean().to_list() == pytest.approx(known["score"].to_list())
