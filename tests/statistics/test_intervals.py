import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.proportion import proportion_confint

from shaberi_dagster.statistics.intervals import (
    Interval,
    clustered_mean_interval,
    margin_of_error,
    mean_interval,
    mean_of_estimates,
    paired_proportions_interval,
    wilson_interval,
)

pytestmark = pytest.mark.unit

# Shares of the scores 0 to 10 as judges give them to a good model: most are 10, some are disasters.
SKEWED = np.array([3, 2, 3, 1, 3, 3, 4, 4, 3, 9, 85]) / 120


def ends(interval):
    return interval.lower, interval.upper


def test_the_margin_of_error_is_that_of_students_t():
    assert margin_of_error(2.0, 3) == pytest.approx(stats.t.ppf(0.975, 2) * 2 / math.sqrt(3))
    assert margin_of_error(None, 1) is None
    assert margin_of_error(0.0, 1) is None


def test_the_interval_of_a_mean_is_the_t_interval():
    values = np.random.default_rng(1).normal(size=30)
    expected = stats.t.interval(0.95, 29, values.mean(), stats.sem(values))

    estimate = mean_interval(values.tolist())

    assert ends(estimate.interval) == pytest.approx(expected)
    assert (estimate.n, estimate.degrees_of_freedom) == (30, 29)


@pytest.mark.parametrize("values", [[], [5.0]])
def test_fewer_than_two_values_have_no_interval(values):
    assert mean_interval(values) is None


def test_samples_of_one_question_count_as_one():
    generator = np.random.default_rng(2)
    questions = np.repeat(np.arange(25), 4)
    values = generator.normal(size=25)[questions] + 0.1 * generator.normal(size=100)
    means = [values[questions == question].mean() for question in range(25)]

    estimate = clustered_mean_interval(values.tolist(), questions.tolist())

    assert ends(estimate.interval) == pytest.approx(ends(mean_interval(means).interval))
    assert estimate.n == 25
    independent = ends(mean_interval(values.tolist()).interval)
    assert estimate.interval.upper - estimate.interval.lower > 1.5 * (independent[1] - independent[0])


def test_the_clustered_standard_error_is_that_of_statsmodels():
    generator = np.random.default_rng(3)
    questions = np.sort(generator.integers(0, 20, 90))
    values = generator.normal(size=20)[questions] + generator.normal(size=90)
    groups = len(set(questions.tolist()))
    fit = OLS(values, np.ones(90)).fit(cov_type="cluster", cov_kwds={"groups": questions, "use_correction": False})

    estimate = clustered_mean_interval(values.tolist(), questions.tolist())

    assert estimate.value == pytest.approx(fit.params[0])
    assert estimate.standard_error == pytest.approx(fit.bse[0] * math.sqrt(groups / (groups - 1)))


@given(
    st.lists(st.integers(0, 10), min_size=2, max_size=60),
    st.sampled_from([(0.0, 10.0), (-5.0, 20.0)]),
)
def test_a_bounded_interval_is_on_the_scale_around_the_mean_and_never_a_point(values, bounds):
    estimate = mean_interval(values, bounds)

    assert bounds[0] <= estimate.interval.lower <= estimate.value + 1e-9
    assert estimate.value - 1e-9 <= estimate.interval.upper <= bounds[1]
    assert estimate.interval.upper > estimate.interval.lower


def test_a_bounded_interval_does_not_depend_on_the_scales_numbers():
    values = [9.0, 10.0, 10.0, 3.0, 8.0, 10.0]
    lower, upper = ends(mean_interval(values, (0, 10)).interval)

    shifted = mean_interval([5 - value / 2 for value in values], (0, 5))

    assert ends(shifted.interval) == pytest.approx((5 - upper / 2, 5 - lower / 2))


def test_a_bounded_interval_of_zeros_and_ones_is_wilsons_with_students_t():
    values = [1.0] * 8 + [0.0] * 2
    z = stats.t.ppf(0.975, 9)
    expected = proportion_confint(8, 10, alpha=2 * stats.norm.sf(z), method="wilson")

    assert ends(mean_interval(values, (0, 1)).interval) == pytest.approx(expected)


def test_scores_outside_of_the_scale_widen_it():
    estimate = mean_interval([12.0, 10.0, 9.0], (0, 10))

    assert estimate.value < estimate.interval.upper <= 12


def test_values_and_clusters_must_be_as_many():
    with pytest.raises(ValueError, match="zip"):
        clustered_mean_interval([1.0, 2.0], ["a"])


def test_the_mean_of_benchmarks_has_their_mean_and_welchs_degrees_of_freedom():
    generator = np.random.default_rng(4)
    first, second = generator.normal(5, 1, 12), generator.normal(7, 3, 30)
    welch = stats.ttest_ind(first, -second, equal_var=False).confidence_interval()

    estimate = mean_of_estimates([mean_interval(part.tolist()) for part in (first, second)])

    assert ends(estimate.interval) == pytest.approx((welch.low / 2, welch.high / 2))
    assert estimate.value == pytest.approx((first.mean() + second.mean()) / 2)
    assert estimate.n == 42


def test_the_paired_interval_is_that_of_the_paired_t_test():
    generator = np.random.default_rng(5)
    first, second = generator.normal(size=(2, 40))
    expected = stats.ttest_rel(first, second).confidence_interval()

    estimate = mean_interval((first - second).tolist())

    assert ends(estimate.interval) == pytest.approx((expected.low, expected.high))


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilsons_interval_is_that_of_statsmodels(trials):
    successes, n = trials
    assert ends(wilson_interval(successes, n)) == pytest.approx(
        proportion_confint(successes, n, method="wilson"), abs=1e-12
    )


def test_nothing_tried_has_no_interval():
    assert wilson_interval(0, 0) is None
    assert paired_proportions_interval(0, 0, 0) is None


def test_the_paired_difference_is_that_of_a_published_example():
    # Airway reactivity before and after transplantation: 1 and 7 of 21 changed (Fagerland et al. 2014, table V).
    interval = paired_proportions_interval(1, 7, 21)
    assert ends(interval) == pytest.approx((-0.517, -0.026), abs=5e-4)


@pytest.mark.parametrize(("only_first", "only_second", "n"), [(3, 9, 40), (0, 5, 30), (12, 0, 20), (0, 0, 25)])
def test_at_tangos_limits_the_score_statistic_is_the_normal_quantile(only_first, only_second, n):
    def score(difference):
        """With the restricted maximum likelihood found by search."""
        low, high = max(0, -difference), (1 - difference) / 2

        def unlikely(share):
            cells = (only_first, share + difference), (only_second, share)
            rest = (n - only_first - only_second, 1 - 2 * share - difference)
            return -sum(count * math.log(max(p, 1e-300)) for count, p in (*cells, rest) if count)

        share = optimize.minimize_scalar(unlikely, bounds=(low, high), options={"xatol": 1e-12}).x
        return (only_first - only_second - n * difference) / math.sqrt(n * (2 * share + difference * (1 - difference)))

    interval = paired_proportions_interval(only_first, only_second, n)

    assert score(interval.lower) == pytest.approx(1.959964, abs=1e-3)
    assert score(interval.upper) == pytest.approx(-1.959964, abs=1e-3)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 60))
def test_tangos_interval_is_the_mirror_of_the_exchanged_one(only_first, only_second, others):
    n = only_first + only_second + others
    interval = paired_proportions_interval(only_first, only_second, n)
    if interval is None:
        assert n == 0
        return
    mirrored = paired_proportions_interval(only_second, only_first, n)
    assert ends(interval) == pytest.approx((-mirrored.upper, -mirrored.lower))
    assert -1 <= interval.lower < interval.upper <= 1
    assert interval.lower - 1e-9 <= (only_first - only_second) / n <= interval.upper + 1e-9


def covered(intervals, truth):
    return np.mean([interval.lower <= truth <= interval.upper for interval in intervals])


def test_the_bounded_interval_covers_the_mean_of_skewed_scores_where_the_t_interval_misses_it():
    generator = np.random.default_rng(6)
    samples = generator.choice(11, p=SKEWED, size=(2000, 40)).tolist()
    truth = float(SKEWED @ np.arange(11))

    bounded = covered([mean_interval(sample, (0, 10)).interval for sample in samples], truth)
    plain = covered([mean_interval(sample).interval for sample in samples], truth)

    assert 0.935 < bounded < 0.97
    assert plain < 0.94


def test_tangos_interval_covers_the_difference():
    generator = np.random.default_rng(7)
    counts = generator.multinomial(40, [0.15, 0.05, 0.8], size=2000)
    intervals: list[Interval] = [paired_proportions_interval(int(b), int(c), 40) for b, c, _ in counts]

    assert 0.935 < covered(intervals, 0.1) < 0.975


def test_intervals_are_there_without_loading_numpy():
    code = "import sys; import shaberi_dagster.statistics.intervals; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_mean_of_benchmarks_stays_within_the_scale_and_is_no_point():
    tens = mean_of_estimates([mean_interval([10.0] * 5, (0, 10)) for _ in range(4)])
    near = mean_of_estimates([mean_interval([10.0] * 39 + [low], (0, 10)) for low in (9.0, 8.0, 10.0, 3.0)])

    assert tens.interval.lower < 9 < tens.interval.upper == 10
    assert near.interval.lower < near.value < near.interval.upper <= 10
    assert tens.ends == near.ends == (0, 10)


def test_a_mean_of_one_benchmark_has_the_interval_of_the_benchmark():
    one = mean_interval([10.0, 9.0, 10.0, 4.0, 8.0], (0, 10))
    mean = mean_of_estimates([one])
    assert (mean.interval.lower, mean.interval.upper) == pytest.approx((one.interval.lower, one.interval.upper))


def test_scales_are_averaged_with_the_benchmarks():
    mean = mean_of_estimates([mean_interval([2.0] * 10, (2, 10)), mean_interval([0.0] * 10, (0, 10))])
    assert mean.ends == (1, 10)
    assert mean.interval.lower == 1
