import re

import polars as pl
import pytest

from shaberi_dagster.deciding.promotion import promote
from shaberi_dagster.lake.catalog import connect, open_catalog, run_query
from shaberi_dagster.reports.baselines import baselines
from shaberi_dagster.reports.gate import check_regression
from shaberi_dagster.util.errors import ConfigurationError
from tests.commands import started
from tests.example_runs import ask, stored_run
from tests.judged_ensembles import SIZE, judged_ensemble, right, same

pytestmark = pytest.mark.integration


@pytest.fixture
def catalog_of():
    """Opens the public views; closes them at the end."""
    opened = []

    def open_it(workspace):
        opened.append(open_catalog(workspace.settings.warehouse))
        return opened[-1]

    yield open_it
    for one in opened:
        one.close()


def test_a_baseline_has_each_planned_question_of_each_dataset_and_strategy(workspace, catalog_of):
    verdicts = {"gsm8k": same(12), "math500": same(5) | {"elo": [None, *right(4)[1:]]}}
    spec = judged_ensemble(workspace, verdicts, tag="one", grader_model="g")
    promote(workspace.lake, spec.run_id, "main", "first")

    rows = workspace.lake.read("baselines")
    assert rows.height == 2 * 3 * SIZE
    assert rows["judge"].unique().sort().to_list() == ["rule:math+g", "rule:numeric+g"]
    assert rows["name"].unique().to_list() == ["main"]
    of_elo = rows.filter(benchmark="math500", strategy="elo")
    assert of_elo.filter(pl.col("correct").is_null())["error_class"].to_list() == ["timeout"]
    assert of_elo["correct"].sum() == 3
    assert rows.select("question_set_sha256", "settings_hash", "run_tag").null_count().row(0) == (0, 0, 0)
    (listed,) = baselines(catalog_of(workspace))
    assert listed["datasets"] == ["gsm8k", "math500"]
    assert listed["strategies"] == ["single", "elo", "plurality"]
    assert listed["accuracy"] == {"single": 17 / 40, "elo": 15 / 40, "plurality": 17 / 40}
    assert (listed["n_questions"], listed["n_without_verdict"], listed["note"]) == (40, 1, "first")


def test_a_name_is_given_once(workspace):
    first = judged_ensemble(workspace, {"gsm8k": same(12)}, tag="one")
    second = judged_ensemble(workspace, {"gsm8k": same(3)}, tag="two")
    promote(workspace.lake, first.run_id, "main")
    before = workspace.lake.read("baselines")

    with pytest.raises(ConfigurationError, match="baseline main exists and is never changed: give another name"):
        promote(workspace.lake, second.run_id, "main")
    promote(workspace.lake, second.run_id, "main2")

    assert workspace.lake.read("baselines", {"name": "main"}).equals(before)


@pytest.mark.long
def test_of_two_processes_one_takes_the_name(workspace):
    runs = [judged_ensemble(workspace, {"gsm8k": same(count)}, tag=f"t{count}") for count in (3, 12)]
    for attempt in range(3):
        promoting = ("shaberi", "baseline", "promote", f"main{attempt}")
        with started(*promoting, runs[0].run_id) as one, started(*promoting, runs[1].run_id) as other:
            assert sorted(command.finished().code for command in (one, other)) == [0, 2]
        assert workspace.lake.read("baselines", {"name": promoting[-1]})["run_id"].n_unique() == 1


def test_a_run_that_is_not_complete_is_refused_unless_it_is_wanted_so(workspace):
    spec = judged_ensemble(workspace, {"gsm8k": {"single": right(12), "elo": right(4, 10)}}, tag="half")
    runs = workspace.lake.read("runs")
    states = {"status": "partial", "status_by_benchmark": '{"gsm8k": "partial"}'}
    workspace.lake.replace(
        "runs", runs.with_columns(**{k: pl.lit(v) for k, v in states.items()}), {"run_id": spec.run_id}
    )

    with pytest.raises(ConfigurationError, match=re.escape("run m@@half is partial (gsm8k): finish it")):
        promote(workspace.lake, spec.run_id, "base")
    promote(workspace.lake, spec.run_id, "base", allow_partial=True)

    missing = workspace.lake.read("baselines", {"status": "missing"})
    assert missing.group_by("strategy").len().rows() == [("elo", 10)]
    judged_ensemble(workspace, {"gsm8k": {"single": right(12), "elo": right(4)}}, tag="now")
    with open_catalog(workspace.settings.warehouse) as catalog:
        warnings = check_regression(catalog, "m@@now", "base").warnings
    assert "10 of 40 answers of the baseline (25.0 %) failed and are left out: 10 missing" in warnings


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 101, "a'b"])
def test_a_name_that_is_no_plain_word_is_refused(workspace, name):
    with pytest.raises(ConfigurationError, match=r"baseline name .* must be 1 to 100 characters"):
        promote(workspace.lake, "m@@x", name)


def test_a_dataset_has_its_own_strategies_in_a_baseline(workspace):
    judged_ensemble(workspace, {"gsm8k": same(18, ("single", "plurality"))}, tag="mixed")
    run_id = judged_ensemble(workspace, {"math500": same(18, ("single", "elo"))}, tag="mixed").run_id

    promote(workspace.lake, run_id, "main", allow_partial=True)

    stored = workspace.lake.read("baselines")
    assert set(stored.select("benchmark", "strategy").iter_rows()) == {
        *(("gsm8k", name) for name in ("single", "plurality")),
        *(("math500", name) for name in ("single", "elo")),
    }
    assert set(stored["status"]) == {"ok"}


def test_only_runs_with_strategies_and_verdicts_can_be_promoted(workspace, mock):
    with pytest.raises(ConfigurationError, match="no run 'm@@x'"):
        promote(workspace.lake, "m@@x", "main")
    judged = stored_run(workspace, ask(mock))
    with pytest.raises(ConfigurationError, match="has no strategies whose answers a rule grades"):
        promote(workspace.lake, judged.run_id, "main", allow_partial=True)
    empty = judged_ensemble(workspace, {"gsm8k": {"single": [None] * 5, "elo": [None] * 5}}, tag="empty")
    with pytest.raises(ConfigurationError, match="has no verdicts"):
        promote(workspace.lake, empty.run_id, "main")
    assert workspace.lake.read("baselines").is_empty()


def test_the_views_show_what_was_promoted(workspace):
    promote(workspace.lake, judged_ensemble(workspace, {"gsm8k": same(12)}, tag="base").run_id, "base")
    with connect(workspace.lake) as catalog:
        assert run_query(catalog, "select count(*), count(distinct name) from baselines").fetchone() == (60, 1)
        assert run_query(catalog, "select name, run_id from baseline_list").fetchall() == [("base", "m@@base")]
