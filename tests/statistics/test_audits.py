"""The share of wrong verdicts and its interval, against SciPy and by simulation."""

import numpy as np
import pytest
from scipy import stats

from shaberi_dagster.statistics.audits import AuditSums
from shaberi_dagster.statistics.intervals import exact_interval

pytestmark = pytest.mark.unit
_REPEATS = 400


@pytest.mark.parametrize(("count", "n"), [(0, 1), (0, 200), (1, 200), (13, 40), (40, 40), (2.5, 33.3), (1, 20_000)])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_the_exact_interval_is_scipys(count, n, confidence):
    tail = (1 - confidence) / 2
    found = exact_interval(count, n, confidence)
    assert found.lower == pytest.approx(stats.beta.ppf(tail, count, n - count + 1) if count else 0, abs=1e-12)
    assert found.upper == pytest.approx(stats.beta.ppf(1 - tail, count + 1, n - count) if count < n else 1, abs=1e-12)


def sums(weights, errors, settled=True):
    """Sums of some verdicts; errors are +1 for a false wrong, -1 for a false right."""
    rights, wrongs = weights[errors < 0].sum(), weights[errors > 0].sum()
    return AuditSums(len(weights), weights.sum(), weights.max(), rights, wrongs, 0 if settled else rights + wrongs)


def test_with_equal_probabilities_it_is_the_exact_interval():
    errors = np.array([1] * 2 + [-1] * 3 + [0] * 195)
    found = sums(np.full(200, 7.0), errors)
    exact = stats.binomtest(5, 200).proportion_ci(0.95, method="exact")
    assert found.share_wrong == pytest.approx(0.025)
    assert (found.interval.lower, found.interval.upper) == pytest.approx((exact.low, exact.high))


def test_what_nobody_settled_counts_for_the_upper_end_alone():
    errors = np.array([1] * 5 + [0] * 195)
    found = sums(np.ones(200), errors, settled=False)
    assert found.interval.lower == 0
    assert found.interval.upper == pytest.approx(sums(np.ones(200), errors).interval.upper)


@pytest.mark.parametrize(
    ("sizes", "probabilities", "errors"),
    [
        ((4000,), (0.05,), (0.01,)),
        ((2000, 2000), (0.5, 0.02), (0.03, 0.03)),
        ((500, 4000), (0.4, 0.02), (0.001, 0.05)),
        ((500, 4000), (0.4, 0.02), (0.2, 0.001)),
    ],
)
def test_the_interval_covers_the_share_of_all_verdicts(sizes, probabilities, errors):
    random = np.random.default_rng(1)
    wrong = [np.arange(size) < rate * size for size, rate in zip(sizes, errors, strict=True)]
    truth, missed = np.concatenate(wrong).mean(), 0
    for _ in range(_REPEATS):
        drawn = [
            random.choice(part, round(share * len(part)), replace=False)
            for part, share in zip(wrong, probabilities, strict=True)
        ]
        weights = np.concatenate(
            [np.full(len(part), 1 / share) for part, share in zip(drawn, probabilities, strict=True)]
        )
        found = sums(weights, np.concatenate(drawn).astype(int)).interval
        missed += not found.lower <= truth <= found.upper
    assert missed <= 0.07 * _REPEATS


def test_the_shift_covers_what_the_errors_do_to_a_score():
    random, missed = np.random.default_rng(2), 0
    population = np.array([1] * 90 + [-1] * 30 + [0] * 2880)
    for _ in range(_REPEATS):
        drawn = random.choice(population, 200, replace=False)
        shift, ends = sums(np.full(200, 15.0), drawn).shift
        assert ends.lower <= shift <= ends.upper
        missed += not ends.lower <= population.mean() <= ends.upper
    assert missed <= 0.07 * _REPEATS
