import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from shaberi_dagster.statistics.power import (
    detectable_fisher_drop,
    detectable_mean_difference,
    detectable_paired_drop,
    fisher_power,
    mcnemar_power,
    questions_needed,
)
from shaberi_dagster.statistics.significance import fisher_lower_tail, mcnemar_exact

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("n", [20, 40, 120])
def test_the_detectable_mean_difference_is_that_of_statsmodels(n):
    in_sd = TTestPower().solve_power(nobs=n, alpha=0.05, power=0.8)

    found = detectable_mean_difference(2.0 / np.sqrt(n), n - 1)

    assert found == pytest.approx(2.0 * in_sd, rel=1e-4)


def test_mcnemars_power_is_how_often_it_is_significant():
    generator = np.random.default_rng(1)
    counts = generator.multinomial(60, [0.1 + 0.15, 0.1, 0.65], size=4000)
    significant = np.mean([mcnemar_exact(int(gain), int(loss), "less") <= 0.1 for loss, gain, _ in counts])

    assert mcnemar_power(0.15, 60, 0.2, 0.1) == pytest.approx(significant, abs=0.03)


def test_without_any_change_mcnemar_sees_nothing():
    assert mcnemar_power(0.0, 30, 0.0) == 0


def test_fishers_power_is_how_often_it_is_significant():
    generator = np.random.default_rng(2)
    baseline, current = generator.binomial(30, 0.7, 3000), generator.binomial(30, 0.55, 3000)
    significant = np.mean(
        [
            fisher_lower_tail(int(a), 30 - int(a), int(c), 30 - int(c)) <= 0.1
            for a, c in zip(baseline, current, strict=True)
        ]
    )

    assert fisher_power(0.7, 0.15, 30, 30, 0.1) == pytest.approx(significant, abs=0.03)


def test_fishers_power_is_the_sum_over_all_tables():
    expected = sum(
        stats.binom.pmf(a, 12, 0.8) * stats.binom.pmf(c, 9, 0.5)
        for a in range(13)
        for c in range(10)
        if fisher_lower_tail(a, 12 - a, c, 9 - c) <= 0.1
    )
    assert fisher_power(0.8, 0.3, 12, 9, 0.1) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("churn", [0.0, 0.1, 0.3])
def test_the_detectable_drop_has_the_power_asked_for(churn):
    drop = detectable_paired_drop(100, churn, 0.1)
    assert mcnemar_power(drop, 100, churn, 0.1) == pytest.approx(0.8, abs=1e-3)
    drop = detectable_fisher_drop(0.7, 100, 100, 0.1)
    assert fisher_power(0.7, drop, 100, 100, 0.1) == pytest.approx(0.8, abs=1e-3)


def test_too_few_questions_show_no_drop():
    assert detectable_paired_drop(3, 0.2) is None
    assert detectable_fisher_drop(0.5, 3, 3) is None


def test_pairs_see_smaller_drops_than_two_sets_of_questions():
    assert detectable_paired_drop(100, 0.1, 0.1) < detectable_fisher_drop(0.7, 100, 100, 0.1)


@pytest.mark.parametrize(("difference", "sd"), [(0.05, 0.4), (-0.2, 0.5), (0.01, 0.3)])
def test_so_many_questions_show_a_difference_and_one_less_does_not(difference, sd):
    n = questions_needed(difference, sd, 0.01)

    assert detectable_mean_difference(sd / n**0.5, n - 1, 0.01) <= abs(difference)
    assert detectable_mean_difference(sd / (n - 1) ** 0.5, n - 2, 0.01) > abs(difference)


def test_no_number_of_questions_shows_no_difference_and_a_handful_shows_the_same_in_each():
    assert questions_needed(0.0, 0.4) is None
    assert questions_needed(1e-6, 0.4) is None
    # Of six equal signs p is 2 / 64.
    assert questions_needed(0.5, 0.0) == 6
