"""Metrics have the single scores that they are made of, for intervals and ties."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from shaberi_dagster import open_lake
from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.workspace import Workspace
from tests.exchange.trees.trees import LegacyTree, rows_of

pytestmark = pytest.mark.integration

_SCORES = {"a": [5, 8, None, 7, 11], "b": [4, 4, 6, 3, 5], "c": [9, None, None, 8, 10]}
_KEYS = ["run_id", "judge", "null_policy"]


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


def _metrics(lake: Lake) -> pl.DataFrame:
    return Lake(lake.folder).read("metrics").drop("created_at").sort(_KEYS)


def _said(workspace: Workspace, **choices: Any) -> list[dict[str, Any]]:
    report = open_lake(workspace.settings.warehouse).scores(**choices)
    rows = [*report.rows]
    return [*rows, *(row for ranking in report.rankings for row in ranking["standings"])]


def test_each_mean_is_that_of_its_single_scores(imported: Workspace) -> None:
    metrics = _metrics(imported.lake)
    by_policy = {
        (row["model"], row["null_policy"]): row["question_scores"]
        for row in metrics.sort("question_ids").iter_rows(named=True)
    }
    assert sorted(by_policy["a", "legacy"], key=str) == sorted([5.0, 8.0, None, 7.0, 11.0], key=str)
    assert sorted(by_policy["a", "zero"]) == [1.0, 1.0, 5.0, 7.0, 8.0]
    assert by_policy["a", "strict"].count(None) == 2
    assert by_policy["b", "strict"] == by_policy["b", "legacy"]
    assert all(ids == sorted(ids) and len(set(ids)) == 5 for ids in metrics["question_ids"].to_list())
    known = metrics.filter(pl.col("score").is_not_null())
    assert known["question_scores"].list.mean().to_list() == pytest.approx(known["score"].to_list())


def test_scores_that_metrics_do_not_know_yet_change_no_interval(imported: Workspace) -> None:
    said = _said(imported)
    scores = imported.lake.read("scores")
    then = datetime.now(UTC)
    imported.lake.replace("scores", scores.with_columns(score=pl.lit(1.0)), {"benchmark": "rakuda"})
    assert _said(imported) == said
    assert _said(imported, as_of=then) == said
