from dataclasses import replace

import pytest

from shaberi_dagster.exchange.trees.sums import Reconciliation
from tests.exchange.trees.trees import LegacyTree, import_trees, lines_of, rows_in, rows_of

pytestmark = pytest.mark.unit


@pytest.fixture
def rows(tree):
    tree.answers("rakuda", rows_of("rakuda", ["一", "", None]))
    tree.judgements("rakuda", lines_of(rows_of("rakuda", ["一", ""], [7, None])) + b"\n{\n", "a")
    return rows_in({"tree": tree.root})


def test_files_and_lines_are_summed_by_what_they_are(rows):
    files = rows.reconciliation.files
    assert files.select("kind", "judge", "status", "files", "lines", "blank", "imported", "quarantined").rows() == [
        ("answers", None, "imported", 1, 3, 0, 3, 0),
        ("judgements", "a", "imported", 1, 4, 1, 2, 1),
    ]


def test_rows_are_summed_by_outcome(rows):
    outcomes = rows.reconciliation.outcomes
    assert set(outcomes.select("kind", "judge", "benchmark", "status", "error_class", "link", "rows").rows()) == {
        ("answers", None, "rakuda", "ok", None, "stored", 1),
        ("answers", None, "rakuda", "error", "empty_answer", "stored", 1),
        ("answers", None, "rakuda", "error", "no_answer", "stored", 1),
        ("judgements", "a", "rakuda", "ok", None, "stored", 1),
        ("judgements", "a", "rakuda", "error", "no_score", "stored", 1),
    }


def test_judgements_are_summed_by_judge_and_benchmark(rows):
    cells = rows.reconciliation.cells
    assert cells.columns == [
        *("judge", "benchmark", "rows", "scored", "without_score", "superseded", "of_other_answers", "out_of_scale")
    ]
    assert cells.rows() == [("a", "rakuda", 2, 1, 1, 0, 0, 0)]


def test_a_tree_has_sums_of_its_own(tree, tmp_path):
    tree.answers("rakuda", rows_of("rakuda", ["一"]))
    tree.judgements("rakuda", lines_of(rows_of("rakuda", ["一"], [7])) + b"{\n", "a")
    other = LegacyTree(tmp_path / "other")
    other.judgements("elyza", rows_of("elyza", ["二", "三"], [1, 2]), "b")
    both = import_trees({"tree": tree.root, "other": other.root}).reconciliation

    own, others = both.of("tree"), both.of("other")
    assert (own.discrepancies(), others.discrepancies()) == ([], [])
    assert (own.quarantine.height, others.quarantine.height) == (1, 0)
    assert [int(one.files["imported"].sum()) for one in (own, others, both)] == [2, 2, 4]
    # The answers that only judgements have are rows of their tree too.
    assert [int(one.outcomes["rows"].sum()) for one in (own, others, both)] == [2, 4, 6]
    assert (own.cells["judge"].to_list(), others.cells["judge"].to_list()) == (["a"], ["b"])


def test_all_sums_agree(rows):
    assert rows.reconciliation.discrepancies() == []


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        ("answers", "stored answers: 3 by file, 2 by row"),
        ("judgements", "judgements: 2 by file, 1 by row"),
        ("quarantine", "quarantined lines: 1 by file, 0 by row"),
    ],
)
def test_a_row_that_is_missing_is_seen(rows, frame, sentence):
    quarantine = rows.quarantine.head(-1) if frame == "quarantine" else rows.quarantine
    short = rows.rows if frame == "quarantine" else replace(rows.rows, **{frame: getattr(rows.rows, frame).head(-1)})
    assert Reconciliation.of_rows(short, rows.files, quarantine).discrepancies() == [sentence]


def test_an_empty_tree_has_sums_too(tree):
    imported = import_trees(tree)
    assert imported.reconciliation.files.is_empty()
    assert imported.reconciliation.outcomes.is_empty()
