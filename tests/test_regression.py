import collections
import csv
import importlib.util
import re
import sys
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
from rich.console import Console
from scipy.stats import binom

from shaberi_dagster.definitions import defs, run_job
from shaberi_dagster.defs.jobs import EVALUATE
from shaberi_dagster.defs.partitions import add_partition
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.evaluation import materialize
from shaberi_dagster.lake.catalog import connect, open_catalog, run_query
from shaberi_dagster.regression import (
    Tally,
    baselines,
    check_regression,
    fisher_gate,
    paired_gate,
    promote,
    regression_checks,
    weighted_holm,
)
from shaberi_dagster.runs.planning import load_questions
from shaberi_dagster.stages.result import STAGES
from shaberi_dagster.statistics.significance import fisher_lower_tail, holm, mcnemar_exact
from tests.commands import started
from tests.judged_ensembles import judged_ensemble
from tests.runs import ask, own_engine, stored_run
from tests.sizes import size

SIZE = 20
unit, integration = pytest.mark.unit, pytest.mark.integration


def check_published(baseline, current, significance=0.1):
    """The original gate over pooled counts: right answers and questions of `single` and each strategy."""
    return fisher_gate(
        [
            Tally(name, None, n_baseline, n, correct, right, n_baseline, n)
            for name, (right, n) in current.items()
            if name in baseline
            for correct, n_baseline in [baseline[name]]
        ],
        significance,
    )


def right(count, size=SIZE, first=0):
    """So many right answers among the questions, from `first` on."""
    return [first <= number < first + count for number in range(size)]


def same(count, strategies=("single", "plurality", "elo")):
    return {name: right(count) for name in strategies}


def paired(losses, gains, *, strategy="single", benchmark="a", n=100):
    both = (n - losses - gains) // 2
    return Tally(strategy, benchmark, n, n, both + losses, both + gains, n, n, losses, gains)


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


@pytest.fixture
def check(workspace, catalog_of):
    """The check of run m@@now against the baseline `base`."""

    def checked(**options):
        return check_regression(catalog_of(workspace), "m@@now", "base", **options)

    return checked


# --- the tests -------------------------------------------------------------------------------------------------------


@unit
def test_weighted_holm_with_equal_weights_is_holm():
    p = [0.04, 0.001, 0.3, 0.02, 0.02]
    assert weighted_holm(p, [0.2] * 5) == pytest.approx(holm(p))


@unit
def test_weighted_holm_gives_a_test_its_share_of_the_level_first():
    # Shares 3/4 and 1/4 of 0.1: 0.07 is within 0.075, and leaves the whole level to the other.
    assert weighted_holm([0.07, 0.09], [3, 1]) == pytest.approx([0.07 * 4 / 3, 0.07 * 4 / 3])
    assert weighted_holm([0.08, 0.02], [3, 1]) == pytest.approx([0.08, 0.08])
    assert weighted_holm([0.08, 0.04], [3, 1]) == pytest.approx([0.08 * 4 / 3, 0.08 * 4 / 3])
    assert weighted_holm([], []) == []


@unit
def test_one_dataset_has_only_the_pooled_test_of_each_strategy():
    tests = paired_gate([paired(9, 1), paired(2, 2, strategy="elo")])
    assert [(test.tally.strategy, test.tally.benchmark) for test in tests] == [("single", None), ("elo", None)]
    assert tests[0].p_value == pytest.approx(binom.cdf(1, 10, 0.5)) == mcnemar_exact(1, 9, "less")
    assert tests[0].adjusted_p_value == pytest.approx(2 * tests[0].p_value) or tests[1].adjusted_p_value is None


@unit
def test_pooled_and_dataset_tests_have_half_of_the_level_each():
    tallies = [paired(8, 0, benchmark="a"), paired(9, 3, benchmark="b"), paired(0, 0, benchmark="c")]
    tests = {test.tally.benchmark: test for test in paired_gate(tallies, 0.1)}
    assert list(tests) == [None, "a", "b", "c"]
    assert tests[None].level == pytest.approx(0.05)
    assert tests["a"].level == tests["b"].level == pytest.approx(0.025)
    assert tests[None].tally.losses == 17
    assert tests[None].p_value == pytest.approx(binom.cdf(3, 20, 0.5))
    # c has no discordant question: it cannot fail and is none of the family.
    assert tests["c"].adjusted_p_value is None
    assert tests["a"].adjusted_p_value == pytest.approx(max(2 * tests[None].p_value, 0.5**8 * 2))
    assert [tests[name].regressed for name in (None, "a", "b", "c")] == [True, True, True, False]


@unit
def test_which_tests_are_in_the_family_does_not_depend_on_the_direction():
    losing = [paired(n, 0, benchmark=str(n)) for n in range(8)]
    winning = [paired(0, n, benchmark=str(n)) for n in range(8)]
    families = [
        [test.tally.benchmark for test in paired_gate(tallies) if test.adjusted_p_value is not None]
        for tallies in (losing, winning)
    ]
    assert families[0] == families[1] != []
    assert not any(test.regressed for test in paired_gate(winning))


@unit
def test_every_test_of_the_family_could_fail_by_itself():
    for counts in ([1, 2, 3], [4, 4, 4], [5, 5, 5, 5, 5, 5, 20], [6, 30]):
        tallies = [paired(n, 0, benchmark=str(at)) for at, n in enumerate(counts)]
        datasets = [one for one in paired_gate(tallies, 0.1) if one.tally.benchmark is not None]
        in_family = [one for one in datasets if one.adjusted_p_value is not None]
        assert all(0.5**one.tally.discordant <= one.level for one in in_family)
        largest_left_out = max((one.tally.discordant for one in datasets if one.adjusted_p_value is None), default=0)
        assert 0.5**largest_left_out > 0.05 / (len(in_family) + 1)


@unit
def test_equal_answers_pass_and_nothing_can_fail():
    tests = paired_gate([paired(0, 0, benchmark=name) for name in "ab"])
    assert [(test.p_value, test.adjusted_p_value, test.regressed) for test in tests] == [(1.0, None, False)] * 3


@unit
def test_the_fisher_gate_is_fishers_lower_tail_with_holm():
    tallies = [
        Tally("single", None, 100, 90, 80, 60, 100, 90),
        Tally("elo", None, 100, 90, 70, 75, 100, 90),
    ]
    tests = fisher_gate(tallies)
    p = [fisher_lower_tail(80, 20, 60, 30), fisher_lower_tail(70, 30, 75, 15)]
    assert [test.p_value for test in tests] == pytest.approx(p)
    assert [test.adjusted_p_value for test in tests] == pytest.approx(holm(p))
    assert [test.regressed for test in tests] == [True, False]
    assert tests[0].level == pytest.approx(0.05)
    assert check_published({"single": (80, 100), "elo": (70, 100), "x": (1, 2)}, {"single": (60, 90), "elo": (75, 90)}) == tests  # fmt: skip


@unit
def test_a_fisher_test_of_an_equal_share_never_fails():
    assert not fisher_gate([Tally("single", None, 10, 10, 5, 5, 10, 10)], 0.99)[0].regressed


@unit
def test_the_detectable_drop_shrinks_with_questions_and_is_none_where_no_drop_can_be_seen():
    drops = [paired_gate([paired(n // 20, n // 20, n=n)])[0].minimum_detectable_effect for n in (40, 100, 1000)]
    assert drops[0] > drops[1] > drops[2] > 0
    assert paired_gate([paired(0, 0, n=2)])[0].minimum_detectable_effect is None
    unpaired = [
        fisher_gate([Tally("single", None, n, n, n // 2, n // 2, n, n)])[0].minimum_detectable_effect
        for n in (40, 1000)
    ]
    assert unpaired[0] > unpaired[1] > drops[2]


# --- baselines -------------------------------------------------------------------------------------------------------


@integration
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


@integration
def test_a_name_is_given_once(workspace):
    first = judged_ensemble(workspace, {"gsm8k": same(12)}, tag="one")
    second = judged_ensemble(workspace, {"gsm8k": same(3)}, tag="two")
    promote(workspace.lake, first.run_id, "main")
    before = workspace.lake.read("baselines")

    with pytest.raises(ConfigurationError, match="baseline main exists and is never changed: give another name"):
        promote(workspace.lake, second.run_id, "main")
    promote(workspace.lake, second.run_id, "main2")

    assert workspace.lake.read("baselines", {"name": "main"}).equals(before)


@integration
def test_of_two_processes_one_takes_the_name(workspace):
    runs = [judged_ensemble(workspace, {"gsm8k": same(count)}, tag=f"t{count}") for count in (3, 12)]
    for attempt in range(3):
        promoting = ("shaberi", "baseline", "promote", f"main{attempt}")
        with started(*promoting, runs[0].run_id) as one, started(*promoting, runs[1].run_id) as other:
            assert sorted(command.finished().code for command in (one, other)) == [0, 2]
        assert workspace.lake.read("baselines", {"name": promoting[-1]})["run_id"].n_unique() == 1


@integration
def test_a_run_that_is_not_complete_is_refused_unless_it_is_wanted_so(workspace, check):
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
    assert (
        "10 of 40 answers of the baseline (25.0 %) have no verdict and count as wrong: 10 missing" in check().warnings
    )


@integration
@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 101, "a'b"])
def test_a_name_that_is_no_plain_word_is_refused(workspace, name):
    with pytest.raises(ConfigurationError, match=r"baseline name .* must be 1 to 100 characters"):
        promote(workspace.lake, "m@@x", name)


@integration
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


@integration
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


# --- checks ----------------------------------------------------------------------------------------------------------


@integration
@pytest.mark.parametrize("gate", ["paired", "fisher"])
def test_a_run_that_is_worse_fails_and_the_baseline_stays_as_it_was(workspace, check, gate):
    base = judged_ensemble(workspace, {"gsm8k": same(18), "math500": same(17)}, tag="base")
    promote(workspace.lake, base.run_id, "base")
    before = workspace.lake.read("baselines")
    judged_ensemble(workspace, {"gsm8k": same(6), "math500": same(17)}, tag="now")

    report = check(gate=gate)

    assert not report.passed
    assert report.verdict.startswith("FAILED: worse than baseline base: single on all datasets")
    assert workspace.lake.read("baselines").equals(before)
    pooled = report.tests[0]
    assert (pooled.tally.baseline_correct, pooled.tally.current_correct, pooled.tally.n_current) == (35, 23, 40)
    expected = mcnemar_exact(0, 12, "less") if gate == "paired" else fisher_lower_tail(35, 5, 23, 17)
    assert pooled.p_value == pytest.approx(expected)


@integration
@pytest.mark.parametrize("gate", ["paired", "fisher"])
def test_an_equal_run_and_a_better_one_pass(workspace, check, gate):
    promote(workspace.lake, judged_ensemble(workspace, {"gsm8k": same(12)}, tag="base").run_id, "base")
    judged_ensemble(workspace, {"gsm8k": same(12)}, tag="now")
    assert check(gate=gate).passed
    judged_ensemble(workspace, {"gsm8k": same(19)}, tag="better")
    with open_catalog(workspace.settings.warehouse) as catalog:
        assert check_regression(catalog, "m@@better", "base", gate=gate).passed


@integration
def test_a_drop_that_pairs_show_is_hidden_from_fisher(workspace, check):
    promote(workspace.lake, judged_ensemble(workspace, {"gsm8k": same(15)}, tag="base").run_id, "base")
    judged_ensemble(workspace, {"gsm8k": same(9)}, tag="now")
    assert not check(gate="paired").passed
    assert check(gate="fisher").passed


@integration
def test_failures_and_missing_answers_count_as_wrong_and_are_said(workspace, check):
    promote(workspace.lake, judged_ensemble(workspace, {"gsm8k": same(20)}, tag="base").run_id, "base")
    failing = {"single": [None] * 10 + [True] * 10, "plurality": [True] * 12, "elo": right(20)}
    judged_ensemble(workspace, {"gsm8k": failing}, tag="now")

    report = check()

    rows = {test.tally.strategy: test for test in report.tests}
    assert rows["single"].regressed
    assert rows["plurality"].regressed
    assert not rows["elo"].regressed
    assert (rows["single"].tally.current_accuracy, rows["single"].tally.current_scored_accuracy) == (0.5, 1.0)
    assert (rows["plurality"].tally.current_accuracy, rows["plurality"].tally.current_scored_accuracy) == (0.6, 1.0)
    assert report.warnings == (
        "18 of 60 answers of this run (30.0 %) have no verdict and count as wrong: 10 timeout, 8 missing",
    )


@integration
def test_other_questions_models_judges_and_settings_are_said(workspace):
    base = judged_ensemble(workspace, {"gsm8k": same(12), "math500": same(12)}, tag="base", grader_model="g")
    promote(workspace.lake, base.run_id, "base")
    fewer = {name: verdicts[:12] for name, verdicts in same(9, ("single", "plurality", "majority")).items()}
    now = judged_ensemble(workspace, {"gsm8k": fewer, "simpleqa": fewer}, model="other", tag="now", temperature=0.1)

    with open_catalog(workspace.settings.warehouse) as catalog:
        report = check_regression(catalog, now.run_id, "base")

    said = "\n".join(report.warnings)
    for part in (
        "models differ: baseline m, this run other",
        "datasets of the baseline that this run has not: math500",
        "datasets of this run that the baseline has not, and that are not checked: simpleqa",
        "strategies of the baseline that this run has not: elo",
        "strategies of this run that the baseline has not, and that are not checked: majority",
        "gsm8k: the questions differ: 12 in common, 8 only in the baseline, 0 only in this run",
        "gsm8k: judges differ: baseline rule:numeric+g, this run rule:numeric",
        "temperature changed (baseline 0.7, this run 0.1) in gsm8k/single, gsm8k/plurality",
    ):
        assert part in said, said
    assert {(test.tally.strategy, test.tally.n_current) for test in report.tests} == {("single", 12), ("plurality", 12)}


@integration
def test_the_judge_of_the_baseline_is_taken_where_the_run_has_it(workspace, check):
    promote(workspace.lake, judged_ensemble(workspace, {"gsm8k": same(12)}, tag="base").run_id, "base")
    judged_ensemble(workspace, {"gsm8k": same(12)}, tag="now", grader_model="g")
    assert check().warnings == ()


@integration
def test_only_some_datasets_can_be_compared(workspace, check):
    promote(workspace.lake, judged_ensemble(workspace, {"gsm8k": same(18), "math500": same(18)}, tag="base").run_id, "base")  # fmt: skip
    judged_ensemble(workspace, {"gsm8k": same(18), "math500": same(2)}, tag="now")
    assert check(benchmarks=["gsm8k"]).passed
    assert not check(benchmarks=["math500"]).passed
    assert check(benchmarks=["gsm8k"]).warnings == ()


@integration
def test_fisher_can_test_each_dataset(workspace, check):
    promote(workspace.lake, judged_ensemble(workspace, {"gsm8k": same(18), "math500": same(18)}, tag="base").run_id, "base")  # fmt: skip
    judged_ensemble(workspace, {"gsm8k": same(18), "math500": same(2)}, tag="now")
    report = check(gate="fisher", per_dataset=True)
    assert {test.tally.benchmark for test in report.tests if test.regressed} == {"math500"}
    assert len(report.tests) == 6
    assert len(report.lifts) == 2


@integration
def test_lifts_are_of_each_strategy_over_the_single_answer(workspace, check):
    before = {"single": right(10), "plurality": right(14)}
    promote(workspace.lake, judged_ensemble(workspace, {"gsm8k": before}, tag="base").run_id, "base")
    judged_ensemble(workspace, {"gsm8k": {"single": right(12), "plurality": right(12)}}, tag="now")
    (lift,) = check().lifts
    assert (lift.strategy, lift.baseline, lift.current, lift.change) == (
        "plurality", pytest.approx(0.2), pytest.approx(0.0), pytest.approx(-0.2),
    )  # fmt: skip


@integration
def test_what_cannot_be_checked_is_refused(workspace, check, catalog_of):
    judged_ensemble(workspace, {"gsm8k": same(12)}, tag="now")
    with pytest.raises(ConfigurationError, match="no baseline 'base'; there is none"):
        check()
    promote(workspace.lake, judged_ensemble(workspace, {"math500": same(12)}, tag="base").run_id, "base")
    with pytest.raises(ConfigurationError, match="have no dataset and strategy in common"):
        check()
    with pytest.raises(ConfigurationError, match='no baseline "x\' or 1=1"; there are base'):
        check_regression(catalog_of(workspace), "m@@now", "x' or 1=1")
    with pytest.raises(ConfigurationError, match="gate must be one of paired, fisher, not 'both'"):
        check(gate="both")
    for level in (0, 1, -1, 2):
        with pytest.raises(ConfigurationError, match="significance must be between 0 and 1"):
            check(significance=level)


@integration
def test_without_a_common_question_only_fisher_compares(workspace, check):
    promote(workspace.lake, judged_ensemble(workspace, {"gsm8k": same(20)}, tag="base").run_id, "base")
    folder = workspace.settings.warehouse.parent / "others"
    folder.mkdir()
    lines = [f'{{"question": "another {number}", "reference": "1"}}\n' for number in range(SIZE)]
    (folder / "gsm8k.jsonl").write_text("".join(lines), encoding="utf-8")
    judged_ensemble(workspace, {"gsm8k": same(5)}, tag="now", questions=str(folder))

    with pytest.raises(ConfigurationError, match="have no question in common"):
        check()
    report = check(gate="fisher")
    assert not report.passed
    assert "gsm8k: the questions differ: 0 in common" in report.warnings[0]


@integration
def test_the_report_says_everything_as_text_and_as_json(workspace, check):
    promote(workspace.lake, judged_ensemble(workspace, {"gsm8k": same(18), "math500": same(18)}, tag="base").run_id, "base")  # fmt: skip
    judged_ensemble(workspace, {"gsm8k": same(6), "math500": same(18)}, tag="now", temperature=0.1)
    report = check()
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(report.render())
    text = console.export_text()

    assert "single     all datasets  40     90.0%  60.0%   -30.0  90.0% 60.0%      12/0" in text
    for part in ("too few", "lift over single", "Warning: temperature changed", "at level 0.1", "Result: FAILED"):
        assert part in text
    values = report.as_dict()
    assert (values["passed"], values["gate"], values["significance"]) == (False, "paired", 0.1)
    assert values["warnings"] == list(report.warnings)
    row = values["tests"][0]
    assert (row["strategy"], row["benchmark"], row["losses"], row["gains"]) == ("single", None, 12, 0)
    assert row["minimum_detectable_effect"] == report.tests[0].minimum_detectable_effect > 0
    assert f"{-100 * row['minimum_detectable_effect']:.1f}" in text
    assert [lift["change"] for lift in values["lifts"]] == [0.0, 0.0]


@integration
def test_the_views_show_what_was_promoted(workspace):
    promote(workspace.lake, judged_ensemble(workspace, {"gsm8k": same(12)}, tag="base").run_id, "base")
    with connect(workspace.lake) as catalog:
        assert run_query(catalog, "select count(*), count(distinct name) from baselines").fetchone() == (60, 1)
        assert run_query(catalog, "select name, run_id from baseline_list").fetchall() == [("base", "m@@base")]


@integration
def test_two_real_runs_are_compared_question_by_question(workspace, mock, catalog_of):
    specs = {}
    with own_engine({}):
        for tag, offset in (("base", 0), ("now", 1)):
            request = ask(mock, tag=tag, benchmarks=["gsm8k"], judge_models=None, samples=3, strategies=["plurality"])
            spec = specs[tag] = stored_run(workspace, request.model_copy(update={"temperature": 0.5 + offset}))
            references = {
                one.question: int(one.reference) for one in load_questions(spec, "gsm8k", workspace).questions
            }
            mock.options.script = lambda body, _, add=offset, known=references: next(
                f"The answer is {reference + add}."
                for question, reference in known.items()
                if question in body["messages"][-1]["content"]
            )
            for stage in STAGES:
                materialize(stage, spec.run_id, ["gsm8k"], workspace)
    promote(workspace.lake, specs["base"].run_id, "base")

    report = check_regression(catalog_of(workspace), specs["now"].run_id, "base")

    rows = workspace.lake.read("baselines")
    assert rows.select("status", "correct").unique().rows() == [("ok", True)]
    assert rows.select("answer_hash", "judge_config_hash", "settings").null_count().row(0) == (0, 0, 0)
    assert {(one.tally.strategy, one.tally.losses, one.tally.gains) for one in report.tests} == {
        ("single", 5, 0),
        ("plurality", 5, 0),
    }
    assert not report.passed
    assert report.warnings == ("temperature changed (baseline 0.5, this run 1.5) in gsm8k/single, gsm8k/plurality",)


# --- in Dagster ------------------------------------------------------------------------------------------------------


@unit
def test_only_metrics_of_what_rules_grade_have_the_check():
    graph = defs.resolve_asset_graph()
    having = {key.asset_key.to_user_string() for key in graph.asset_check_keys if key.name == "no_regression"}
    assert "metrics/gsm8k" in having
    assert len(having) == 10
    assert {name.split("/")[0] for name in having} == {"metrics"}
    assert "metrics/tengu" not in having


@integration
def test_the_check_is_of_the_datasets_own_tests_and_the_pooled_ones(workspace):
    promote(workspace.lake, judged_ensemble(workspace, {"gsm8k": same(18), "math500": same(18)}, tag="base").run_id, "base")  # fmt: skip
    judged_ensemble(workspace, {"gsm8k": same(18), "math500": same(2)}, tag="now")
    warehouse = workspace.settings.warehouse
    checks = regression_checks(warehouse, "m@@now", "base", ["gsm8k", "math500"])
    assert {name: (one.passed, one.severe) for name, one in checks.items()} == {
        "gsm8k": (False, True),
        "math500": (False, True),
    }
    assert checks["gsm8k"].description.startswith("FAILED: worse than baseline base")
    assert regression_checks(warehouse, "m@@now", "base", ["gsm8k"])["gsm8k"].passed
    unknown = regression_checks(warehouse, "m@@now", "nothing", ["gsm8k"])["gsm8k"]
    assert (unknown.passed, unknown.severe) == (False, False)
    assert unknown.description.startswith("not compared: no baseline 'nothing'")


@integration
def test_materialized_metrics_carry_the_check_and_a_regression_does_not_stop_the_run(workspace):
    promote(workspace.lake, judged_ensemble(workspace, {"gsm8k": same(18)}, tag="base").run_id, "base")
    now = judged_ensemble(workspace, {"gsm8k": same(2)}, tag="now")
    with dg.DagsterInstance.ephemeral() as instance:
        add_partition(now, instance)
        found = {}
        for baseline in (None, "base"):
            result = run_job(
                EVALUATE,
                instance,
                ops={"metrics": {"config": {"baseline": baseline}}} if baseline else {},
                partition_key=now.run_id,
                asset_selection=[dg.AssetKey(["metrics", "gsm8k"])],
            )
            assert result.success
            (found[baseline],) = (
                one for one in result.get_asset_check_evaluations() if one.check_name == "no_regression"
            )
    assert (found[None].passed, found[None].description) == (True, "no baseline was named")
    assert (found["base"].passed, found["base"].severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "single on all datasets" in found["base"].description


# --- quality ---------------------------------------------------------------------------------------------------------


def _gate_quality():
    path = Path(__file__).resolve().parent.parent / "perf" / "gate_quality.py"
    spec = importlib.util.spec_from_file_location("gate_quality", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@unit
@pytest.mark.acceptance
def test_in_simulations_equal_runs_seldom_fail_and_pairs_see_more_than_fisher(monkeypatch):
    monkeypatch.setitem(sys.modules, "gate_quality", module := _gate_quality())
    equal = module.alarms(module.Scenario(30, copies=0.0), size(300, 4000))
    # Level 0.1: more than 0.15 of 300 has probability 0.003, of more simulations less.
    assert max(vars(equal).values()) <= 0.15
    lower = module.alarms(module.Scenario(30, 0.05), size(60, 1000))
    assert lower.paired > 0.9
    assert lower.fisher < 0.3
    broken = module.alarms(module.Scenario(30, 0.3, broken=3), size(60, 1000))
    assert broken.paired > 0.7
    assert broken.fisher < 0.2


@pytest.mark.corpus
def test_the_26_published_checks_come_out_the_same(corpus):
    with (corpus / "golden" / "regression_checks.csv").open(encoding="utf-8", newline="") as file:
        rest = list(csv.DictReader(file))
    checks = []
    while rest:
        size = int(rest[0]["family_size"])
        checks.append(rest[:size])
        rest = rest[size:]
    assert len(checks) == 26
    failed = []
    for rows in checks:
        before, now = (
            {row["series"]: (int(row[f"{side}_correct"]), int(row[f"{side}_total"])) for row in rows}
            for side in ("prev", "cur")
        )
        tests = check_published(before, now, float(rows[0]["alpha"]))
        assert [test.tally.strategy for test in tests] == [row["series"] for row in rows]
        assert [test.p_value for test in tests] == pytest.approx([float(row["p_raw"]) for row in rows], rel=0, abs=1e-9)
        adjusted = [float(row["p_holm"]) for row in rows]
        assert [test.adjusted_p_value for test in tests] == pytest.approx(adjusted, rel=0, abs=1e-9)
        assert [test.tally.delta for test in tests] == pytest.approx([float(row["delta"]) for row in rows], abs=1e-6)
        significant = [row["significant"] == "True" for row in rows]
        assert [test.adjusted_p_value <= float(rows[0]["alpha"]) for test in tests] == significant
        passed = not any(test.regressed for test in tests)
        assert passed == (rows[0]["passed"] == "True")
        failed += [] if passed else [rows[0]["current_updatedAt"][:16]]
    assert failed == ["2026-02-17T17:40", "2026-02-19T20:28"]


@pytest.mark.corpus
def test_the_golden_checks_are_of_the_published_baselines(corpus):
    history = collections.defaultdict(set)
    with (corpus / "golden" / "published_quick_eval_history.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            history[row["updatedAt"], row["series"]].add((int(row["correct"]), int(row["total"])))
    with (corpus / "golden" / "regression_checks.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        counts = int(row["cur_correct"]), int(row["cur_total"])
        assert counts in history[row["current_updatedAt"], row["series"]]


@pytest.mark.corpus
def test_the_correlation_of_the_simulations_is_that_of_the_cached_samples(corpus, monkeypatch):
    monkeypatch.setitem(sys.modules, "gate_quality", module := _gate_quality())
    *_, (name, n, accuracy, churn, correlation) = module.measured_correlation(corpus)
    assert (name, n) == ("all", 398)
    assert (accuracy, churn) == (pytest.approx(0.953, abs=5e-4), pytest.approx(0.017, abs=5e-4))
    assert correlation == pytest.approx(module.MEASURED, abs=0.01)
