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
