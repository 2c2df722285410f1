import collections
import csv
import importlib.util
import itertools
import sys
from pathlib import Path

import pytest
from scipy.stats import binom

from shaberi_dagster.statistics.gates import Tally, could_fail, fisher_gate, paired_gate
from shaberi_dagster.statistics.significance import fisher_lower_tail, holm, mcnemar_exact
from tests.sizes import size

unit = pytest.mark.unit


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


def paired(losses, gains, *, strategy="single", benchmark="a", n=100):
    both = (n - losses - gains) // 2
    return Tally(strategy, benchmark, n, n, both + losses, both + gains, n, n, losses, gains)


@unit
def test_holm_with_equal_weights_is_that_without():
    p = [0.04, 0.001, 0.3, 0.02, 0.02]
    assert holm(p, [0.2] * 5) == pytest.approx(holm(p))


@unit
def test_weighted_holm_gives_a_test_its_share_of_the_level_first():
    # Shares 3/4 and 1/4 of 0.1: 0.07 is within 0.075, and leaves the whole level to the other.
    assert holm([0.07, 0.09], [3, 1]) == pytest.approx([0.07 * 4 / 3, 0.07 * 4 / 3])
    assert holm([0.08, 0.02], [3, 1]) == pytest.approx([0.08, 0.08])
    assert holm([0.08, 0.04], [3, 1]) == pytest.approx([0.08 * 4 / 3, 0.08 * 4 / 3])
    assert holm([], []) == []


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


@unit
@pytest.mark.parametrize("gate", [paired_gate, fisher_gate])
def test_a_gate_could_fail_if_some_outcome_of_so_many_questions_fails(gate):
    for n, right_before in itertools.product(range(1, 8), range(8)):
        outcomes = [
            Tally("single", "a", n, n, right_before, right_before - losses + gains, n, n, losses, gains)
            for losses in range(right_before + 1)
            for gains in range(max(n - right_before, 0) + 1)
            if right_before <= n
        ]
        failing = {any(test.regressed for test in gate([one], 0.1)) for one in outcomes}
        # That it could fail is known before the outcome, and the same for each.
        assert {could_fail(gate, [one], 0.1) for one in outcomes} == ({True in failing} if outcomes else set())


# --- quality ---------------------------------------------------------------------------------------------------------


def _gate_quality():
    path = Path(__file__).resolve().parents[2] / "perf" / "gate_quality.py"
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
