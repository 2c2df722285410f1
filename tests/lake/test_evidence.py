"""One piece of evidence counts once: in views and queries that are not of single runs, and in what decisions learn from."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs
import pytest

from shaberi_dagster.deciding.candidates import Pool
from shaberi_dagster.deciding.history import past_scores
from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.lake.catalog import connect, open_catalog, run_query
from shaberi_dagster.lake.connections import frame_of
from shaberi_dagster.lake.queries import find_query
from shaberi_dagster.lake.statements import statement
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from tests.exchange.trees.trees import LegacyTree, questions_of, rows_of
from tests.views import Views

pytestmark = pytest.mark.integration

_VIEWS = (
    *("question_statistics", "null_rates", "drift", "judge_agreement", "judge_leniency", "judge_alpha"),
    *("scores_by_answer", "score_patterns"),
)
_QUERIES = {
    "hardest_questions": {"benchmark": "rakuda"},
    "most_discriminating_questions": {"benchmark": "rakuda"},
    "null_rates_of_judges": {},
    "drift_of_model": {"model": "model-1"},
    "agreement": {},
    "leniency": {},
    "prompt_ab": {"judge_a": "a", "judge_b": "b"},
}
_REPORTS = ("judge_overview", "judge_lengths")
_LENIENCY = (
    "select distinct model, judge, benchmark, leniency, n_shared_answers, connected_judges from leniency_adjusted"
)
_TEXTS = ("一", "二つ", "三つの", "四", "五番目", "六")


def _tree(root: Path, models: Sequence[int] = range(4)) -> LegacyTree:
    """Models with answers to two benchmarks, of which two judges scored most; one score is missing, one is repeated."""
    tree = LegacyTree(root)
    for model in models:
        name = f"model-{model}"
        for benchmark in ("rakuda", "elyza"):
            answers = [f"{text}{model}{benchmark}" for text in _TEXTS[: len(questions_of(benchmark))]]
            tree.answers(benchmark, rows_of(benchmark, answers), model=name)
            for judge in ("a", "b")[: 1 + (model != 2)]:
                scores: list[Any] = [
                    1 + (7 * model + 3 * place + 5 * (judge == "b")) % 5 for place in range(len(answers))
                ]
                if model == 1:
                    scores[0] = None
                rows = [*rows_of(benchmark, answers, scores)]
                tree.judgements(benchmark, [*rows, rows[1]] if model == 3 else rows, judge, model=name)
    return tree


def _figures(workspace: Workspace) -> dict[str, list[tuple[Any, ...]]]:
    """Every figure that is not of single runs."""
    found = {}
    with open_catalog(workspace.settings.warehouse) as catalog:

        def ask(name: str, sql: str, values: dict[str, Any] | None = None) -> None:
            frame = frame_of(run_query(catalog, sql, values))
            # Sums over many rows have no fixed order.
            found[name] = sorted(frame.with_columns(cs.float().round(9)).rows(), key=repr)

        for view in _VIEWS:
            ask(view, f"from {view}")
        for name, given in _QUERIES.items():
            query = find_query(name)
            assert query is not None
            ask(name, query.sql, query.bound(given))
        for name in _REPORTS:
            ask(name, statement(name))
        ask("leniency_adjusted", _LENIENCY)
    questions = tuple(("rakuda", question.question_id) for question in questions_of("rakuda")[: len(_TEXTS)])
    past = past_scores(Pool.of(questions, ("rakuda@6",), {"rakuda": ("a",)}), workspace.lake)
    found["decide"] = [past.models, *map(tuple, past.scores.tolist())]
    return found


@pytest.fixture
def elsewhere(tmp_path: Path) -> Workspace:
    return Workspace(Settings.from_environment({"SHABERI_WAREHOUSE": str(tmp_path / "elsewhere")}), environment={})


@pytest.mark.long
def test_one_tree_under_four_names_changes_no_figure(
    workspace: Workspace, elsewhere: Workspace, tmp_path: Path
) -> None:
    tree = _tree(tmp_path / "tree")
    import_trees(ImportRequest({"first": tree.root}), workspace)
    import_trees(ImportRequest({"first": tree.root, "second": tree.root, "third": tree.root}), elsewhere)
    import_trees(ImportRequest({"fourth": tree.root}), elsewhere)
    once, four = _figures(workspace), _figures(elsewhere)
    assert len(elsewhere.lake.read("judgements")) == 4 * len(workspace.lake.read("judgements"))
    for name, rows in once.items():
        assert rows, name
        assert four[name] == rows, name
    with connect(elsewhere.lake) as catalog:
        assert catalog.execute("select distinct trees from evidence").fetchall() == [
            (["first", "fourth", "second", "third"],)
        ]


@pytest.mark.long
def test_a_fork_that_has_some_models_changes_no_figure(workspace: Workspace, tmp_path: Path) -> None:
    import_trees(ImportRequest({"first": _tree(tmp_path / "tree").root}), workspace)
    once = _figures(workspace)
    import_trees(ImportRequest({"fork": _tree(tmp_path / "fork", models=(0, 2)).root}), workspace)
    assert _figures(workspace) == once


@pytest.mark.long
def test_of_two_scores_of_the_same_bytes_the_newest_counts_and_is_named(workspace: Workspace, tmp_path: Path) -> None:
    for name, score in (("first", 3), ("second", 5), ("third", None)):
        tree = LegacyTree(tmp_path / name)
        tree.answers("rakuda", rows_of("rakuda", ["一", "二"]))
        tree.judgements("rakuda", rows_of("rakuda", ["一", "二"], [score, 4]), "a")
        import_trees(ImportRequest({name: tree.root}), workspace)
    query = find_query("differing_scores")
    assert query is not None
    with open_catalog(workspace.settings.warehouse) as catalog:
        (row,) = frame_of(run_query(catalog, query.sql, query.bound({}))).to_dicts()
        means = catalog.execute("select difficulty from question_statistics order by position").fetchall()
    assert (row["score"], row["scores"], row["trees"]) == (5.0, [3.0, 5.0], ["first", "second", "third"])
    assert means == [(5.0,), (4.0,)], "a score that is missing in one tree is no other score"


def test_the_same_text_under_two_names_is_listed_and_stays_evidence_of_both(
    workspace: Workspace, tmp_path: Path
) -> None:
    tree = LegacyTree(tmp_path)
    for model in ("model-a", "model-b"):
        tree.answers("rakuda", rows_of("rakuda", ["一", model]), model=model)
        tree.judgements("rakuda", rows_of("rakuda", ["一", model], [3, 4]), "a", model=model)
    import_trees(ImportRequest({"tree": tree.root}), workspace)
    query = find_query("shared_answers")
    assert query is not None
    with open_catalog(workspace.settings.warehouse) as catalog:
        (row,) = frame_of(run_query(catalog, query.sql, query.bound({}))).to_dicts()
        assert catalog.execute("select count(*) from evidence").fetchall() == [(4,)]
    assert (row["models"], row["answer"]) == (["model-a", "model-b"], "一")


_OWN = {"model": "m", "benchmark": "rakuda", "question_set": "rakuda@1", "question_id": "q", "sample_index": 0}


def _pieces(views: Views, rows: Sequence[dict[str, Any]], runs: Sequence[dict[str, Any]] = ()) -> int:
    created = pl.datetime(2026, 1, 1, time_zone="UTC")
    defaults = _OWN | {"answer_hash": "text", "status": "ok", "score": 4.0, "pipeline": "baseline", "judge": "j"}
    frame = pl.DataFrame([defaults | row for row in rows]).with_columns(created_at=created, run_tag=pl.lit("t"))
    views.add("scores", frame.to_dicts())
    if runs:
        of_run = {"model": "m", "run_tag": "t", "spec": "{}", "spec_hash": "", "status": "complete"}
        made = pl.DataFrame([of_run | run for run in runs]).with_columns(created_at=created, updated_at=created)
        views.add("runs", made.to_dicts())
    return views.catalog.execute("select count(*) from evidence").fetchall()[0][0]


@pytest.mark.parametrize(
    ("first", "second", "pieces"),
    [
        ({"call_hash": "x"}, {"call_hash": "x"}, 1),
        ({"call_hash": "x"}, {"call_hash": "y"}, 2),
        ({"call_hash": None}, {"call_hash": None}, 2),
        ({"call_hash": "x"}, {"call_hash": "x", "judge": "other"}, 2),
        ({"call_hash": "x"}, {"call_hash": "x", "judge_config_hash": "other"}, 2),
        ({"call_hash": "x", "judge": "rule:mcq"}, {"call_hash": "x", "judge": "rule:mcq"}, 1),
    ],
)
def test_a_judgement_made_here_is_one_piece_for_each_call(
    first: dict[str, Any], second: dict[str, Any], pieces: int, views: Views
) -> None:
    assert _pieces(views, [{"run_id": "a"} | first, {"run_id": "b"} | second]) == pieces


def test_replaced_runs_are_no_evidence(views: Views) -> None:
    runs: list[dict[str, Any]] = [{"run_id": "a", "superseded_by": "b"}, {"run_id": "b"}]
    assert _pieces(views, [{"run_id": "a", "call_hash": "x"}, {"run_id": "b", "call_hash": "y"}], runs) == 1


def test_answers_that_a_run_drew_several_times_are_several_though_they_say_the_same(views: Views) -> None:
    rule = {"run_id": "a", "judge": "rule:mcq"}
    imported: Callable[[int], dict[str, Any]] = lambda index: rule | {"sample_index": index, "call_hash": None}  # noqa: E731
    assert _pieces(views, [imported(0), imported(1)], [{"run_id": "a", "source": "caches"}]) == 2
