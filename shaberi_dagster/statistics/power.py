"""Power: how large a difference must be to be seen with so many questions."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

ALPHA, POWER = 0.05, 0.8

_Integers = npt.NDArray[np.int64]
_PRECISION = 1e-5
_MOST_QUESTIONS = 1_000_000
_FURTHEST = 6  # standard deviations from the mean: 1 in 500 million counts is further


def detectable_mean_difference(standard_error: float, degrees_of_freedom: float, alpha: float = ALPHA) -> float:
    """The smallest true mean difference that a t test sees with probability `POWER`, two-sided.

    The noncentrality at which t exceeds its critical value that often, times the standard error. The sign-flip test
    has the same power in the limit, and nearly so from 20 questions on.

    Args:
        standard_error: Of the mean difference: sd of the differences / sqrt(n) for one benchmark.
        degrees_of_freedom: n - 1 for one benchmark.
        alpha: Level of the test.
    """
    from scipy import special

    critical = special.stdtrit(degrees_of_freedom, 1 - alpha / 2)
    return float(special.nctdtrinc(degrees_of_freedom, 1 - POWER, critical)) * standard_error


def questions_needed(difference: float, sd: float, alpha: float = ALPHA) -> int | None:
    """The fewest questions of which a paired test sees a mean difference with probability `POWER`, two-sided.

    Args:
        difference: True mean of the questions' differences.
        sd: Of the questions' differences; 0 if they are all the same.
        alpha: Level of the test.

    Returns:
        None if there is no difference, or a million questions are too few.
    """
    if not difference:
        return None
    # However small the sd is, fewer signs than these cannot be significant.
    low, high = max(math.ceil(math.log2(2 / alpha)), 2) - 1, _MOST_QUESTIONS

    def seen(n: int) -> bool:
        return detectable_mean_difference(sd / math.sqrt(n), n - 1, alpha) <= abs(difference)

    if not seen(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if seen(middle) else (middle, high)
    return high


def mcnemar_power(drop: float, n: int, churn: float, alpha: float = ALPHA) -> float:
    """Probability with which McNemar's exact test, one-sided, sees a drop of the share of right answers.

    Of all questions `churn` change for no reason, as many for the better as for the worse, and `drop` more for the
    worse. The number of discordant questions is binomial, and so are the losses among them.

    Args:
        drop: Difference of the shares of right answers.
        n: Questions.
        churn: Share of questions that two equal systems answer differently; drop + churn is at most 1.
        alpha: Level of the test.
    """
    from scipy import stats

    discordant = churn + drop
    if not discordant:
        return 0.0
    counts = np.arange(n + 1)
    critical = stats.binom.isf(alpha, counts, 0.5)
    seen = stats.binom.sf(critical, counts, (churn / 2 + drop) / discordant)
    return float(np.sum(stats.binom.pmf(counts, n, discordant) * seen))


def detectable_paired_drop(n: int, churn: float, alpha: float = ALPHA) -> float | None:
    """The smallest drop of the share of right answers that McNemar's exact test sees with probability `POWER`.

    Returns:
        None if it sees no drop that often.
    """
    return _smallest(lambda drop: mcnemar_power(drop, n, churn, alpha), 1 - churn)


def fisher_power(baseline: float, drop: float, n_baseline: int, n_current: int, alpha: float = ALPHA) -> float:
    """Probability with which Fisher's lower tail sees a drop between two sets of questions.

    Args:
        baseline: True share of right answers of the baseline.
        drop: How much lower that of the current system is; at most `baseline`.
        n_baseline: Questions of the baseline.
        n_current: Questions of the current system.
        alpha: Level of the test.
    """
    from scipy import stats

    reach = _FURTHEST * math.sqrt(n_baseline * baseline * (1 - baseline)) + 1
    middle = n_baseline * baseline
    first = np.arange(max(math.floor(middle - reach), 0), min(math.ceil(middle + reach), n_baseline) + 1)
    seen = stats.binom.cdf(_critical_counts(first, n_baseline, n_current, alpha), n_current, baseline - drop)
    return float(np.sum(stats.binom.pmf(first, n_baseline, baseline) * seen))


def detectable_fisher_drop(baseline: float, n_baseline: int, n_current: int, alpha: float = ALPHA) -> float | None:
    """The smallest drop that Fisher's lower tail sees with probability `POWER`; None if it sees none that often."""
    return _smallest(lambda drop: fisher_power(baseline, drop, n_baseline, n_current, alpha), baseline)


def _critical_counts(baseline_correct: _Integers, n_baseline: int, n_current: int, alpha: float) -> _Integers:
    """For each count of the baseline the largest current count with p <= alpha; -1 without one."""
    from scipy import stats

    low, high = np.full_like(baseline_correct, -1), np.full_like(baseline_correct, n_current + 1)
    while (high - low).max() > 1:
        middle = (low + high) // 2
        p = stats.hypergeom.cdf(middle, n_baseline + n_current, baseline_correct + middle, n_current)
        significant = p <= alpha
        inside = high - low > 1
        low, high = np.where(inside & significant, middle, low), np.where(inside & ~significant, middle, high)
    return low


def _smallest(power_of: Callable[[float], float], most: float) -> float | None:
    """Find where a growing power reaches `POWER`, by bisection."""
    if power_of(most) < POWER:
        return None
    low, high = 0.0, most
    while high - low > _PRECISION:
        middle = (low + high) / 2
        low, high = (low, middle) if power_of(middle) >= POWER else (middle, high)
    return high
