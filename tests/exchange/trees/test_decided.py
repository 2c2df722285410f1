"""Decisions between runs that were imported."""

import pytest

from shaberi_dagster.deciding.decision import prepare
from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.util.errors import ConfigurationError
from tests.deciding.deciding import decided
from tests.deciding.deciding import request as asked_for
from tests.exchange.trees.trees import rows_of

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("engine", "results_left_out")]


@pytest.fixture
def imported(workspace, tree):
    """Two models with five answers each and scores of judge `a`, one of them with the better ones."""
    texts = ["一", "二", "三", "四", "五"]
    for model, score in (("org__weak", 3), ("org__strong", 8)):
        tree.answers("elyza", rows_of("elyza", texts), model=model)
        tree.judgements("elyza", rows_of("elyza", texts, [score] * 5), "a", model=model)
    import_trees(ImportRequest({"tree": tree.root}), workspace)
    return workspace


def request(mock, tmp_path, judge, **values):
    own = {"judge_models": [judge], "benchmarks": None, "base_url": None, "questions": None}
    return asked_for(mock, tmp_path, "org__weak", "org__strong", **(own | values))


def test_imported_runs_are_decided_between_by_who_judged_them(imported, mock, tmp_path):
    row, _ = decided(request(mock, tmp_path, "a"), imported)

    assert (row["state"], row["best"], row["calls"]) == ("decided", ["org__strong@@legacy-tree"], 0)


def test_a_judge_that_never_judged_an_imported_run_is_named_with_what_can_be_done(imported, mock, tmp_path):
    with pytest.raises(ConfigurationError) as refused:
        prepare(request(mock, tmp_path, "judge-b"), imported)

    assert str(refused.value) == (
        "run org__weak@@legacy-tree was imported, and judge-b never judged its elyza: give --judge a, or have it judged "
        "first: run-evals --model org__weak --tag legacy-tree --benchmark elyza --judge-model judge-b"
    )
