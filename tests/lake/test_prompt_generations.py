"""The prompts that imported judgements were most likely made with."""

import pytest

from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.lake.catalog import open_catalog, write_catalog
from tests.exchange.trees.trees import LegacyTree, rows_of

pytestmark = pytest.mark.integration


@pytest.fixture
def catalog(workspace, tmp_path):
    """The views over two trees, in which several judges judged the same answers."""
    trees = {"lightblue": ["gpt-4-turbo-preview"], "fork": ["gpt-4-turbo-preview", "gpt-4.1-2025-04-14", "somebody"]}
    for name, judges in trees.items():
        tree = LegacyTree(tmp_path / name)
        tree.answers("rakuda", rows_of("rakuda", [f"{name}の答え"]))
        for judge in judges:
            tree.judgements("rakuda", rows_of("rakuda", [f"{name}の答え"], [7]), judge)
    import_trees(ImportRequest({name: tmp_path / name for name in trees}), workspace)
    write_catalog(workspace.lake)
    with open_catalog(workspace.settings.warehouse) as connection:
        yield connection


def test_a_row_says_which_generation_it_is_of_and_how_sure_that_is(catalog):
    found = catalog.sql("select judge, prompt_generation, generation_certainty from judgements order by all").fetchall()

    assert found == [
        ("gpt-4-turbo-preview", "J1", "certain"),
        ("gpt-4-turbo-preview", "J1", "very probable"),
        ("gpt-4.1-2025-04-14", "J2", "very probable"),
        ("somebody", None, "unknown"),
    ]


def test_the_leaderboard_says_it_and_keeps_generations_and_trees_apart(catalog):
    found = catalog.sql("select judge_prompt from leaderboard order by all").fetchall()

    assert [prompt for (prompt,) in found] == [
        "not recorded in fork",
        "not recorded in fork (by dates J1, very probable)",
        "not recorded in fork (by dates J2, very probable)",
        "not recorded in lightblue (by dates J1, certain)",
    ]
