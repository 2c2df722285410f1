"""Tests: whether a difference can be chance. Exact wherever that is feasible, and the same result each time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from shaberi_dagster.statistics.intervals import Interval

Alternative = Literal["two-sided", "less"]
"""Hypothesis that a small p speaks for: any difference, or the first is lower."""

_Floats = npt.NDArray[np.float64]
_Integers = npt.NDArray[np.int64]

_MOST_PARTS = 1000  # scores that are means over judges, runs and samples are multiples of 1 / their number
_OFF_LATTICE = 1e-9
_MOST_STEPS = 200_000_000  # additions of the exact test, about half a second
_RESAMPLES = 99_999
_RESAMPLES_AT_ONCE = 4_000
_SEED = 20_250_101
_MOST_FOR_ALL_SUBSETS = 14
_SUBSETS = 19_999


@dataclass(frozen=True)
class PermutationTest:
    """The result of a permutation test.

    Attributes:
        p_value: Over all permutations, or (b+1)/(m+1) for b of m random ones.
        exact: Whether it is over all permutations.
    """

    p_value: float
    exact: bool


def mcnemar_exact(only_first: int, only_second: int, alternative: Alternative = "two-sided") -> float:
    """Test by McNemar's exact test whether of two systems one gets more of the same questions right.

    Of the discordant questions, each falls to either side with probability 1/2 under the hypothesis: a binomial tail,
    doubled for two sides. Over several datasets the test of the sums is exact as well: each discordant question of each
    dataset is a fair coin, whatever the datasets' difficulties and sizes. Every question has the same weight then; for
    the same weight of every dataset use `sign_flip_test` with strata.

    Args:
        only_first: Questions that only the first got right.
        only_second: Questions that only the second got right.
        alternative: `less`: the first is worse.

    Returns:
        p; 1 without discordant questions.
    """
    from scipy import special

    n = only_first + only_second
    less = float(special.bdtr(only_first, n, 0.5))
    return less if alternative == "less" else _two_sided(less, float(special.bdtr(only_second, n, 0.5)))


def fisher_lower_tail(baseline_correct: int, baseline_wrong: int, current_correct: int, current_wrong: int) -> float:
    """Fisher's exact test of whether the current proportion is lower than the baseline's, over different questions.

    Returns:
        The hypergeometric probability of at most as many correct ones in the current row; 1 for an empty table.
    """
    from scipy import stats

    correct, current = baseline_correct + current_correct, current_correct + current_wrong
    total = correct + baseline_wrong + current_wrong
    return float(stats.hypergeom.cdf(current_correct, total, correct, current)) if total else 1.0


def holm(p_values: Sequence[float], weights: Sequence[float] | None = None) -> list[float]:
    """P-values adjusted for how many they are: the family's false positives stay at most alpha.

    Holm's method (1979, Scandinavian Journal of Statistics 6:65), with weights that of its section 4. The tests are
    taken in the order of p / weight; each is multiplied by the weights of those left / its own, cut off at 1, and is at
    least the one before it. With equal weights the i-th smallest of m is multiplied by m - i + 1.

    Args:
        p_values: In any order.
        weights: Positive; how the level is shared in the beginning. None: equally.

    Returns:
        In the same order.
    """
    p = np.asarray(p_values, dtype=np.float64)
    weight = np.ones_like(p) if weights is None else np.asarray(weights, dtype=np.float64)
    order = np.argsort(p / weight, kind="stable")
    left = np.cumsum(weight[order][::-1])[::-1]
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(np.minimum(p[order] * left / weight[order], 1.0))
    return [float(value) for value in adjusted]


def sign_flip_test(
    differences: Sequence[float],
    strata: Sequence[object] | None = None,
    clusters: Sequence[object] | None = None,
) -> PermutationTest:
    """The paired permutation test of a mean difference (Fisher 1935), two-sided.

    If it does not matter which system gave which of a question's two scores, each difference could as well have had
    the other sign. With strata (benchmarks) the statistic is the unweighted mean of the strata's mean differences.

    Differences of scores are multiples of some 1/k, so that the distribution over all 2^n signs is a convolution on
    whole numbers, in n x (sum of the absolute differences) steps. Where there is no such k, or too many steps are
    needed, 99,999 random sign patterns are counted, with the correction of Phipson and Smyth (2010).

    Args:
        differences: First - second, one per question.
        strata: The benchmark of each; None is one stratum.
        clusters: What changes its sign as one within a stratum, such as the categories of questions; None: each one.
    """
    values, sizes, members = _grouped(differences, strata, clusters)
    steps = _whole_numbers(values)
    if steps is not None:
        sums = np.zeros(members.max() + 1, dtype=np.int64)
        np.add.at(sums, members, steps * (math.lcm(*map(int, np.unique(sizes))) // sizes))
        if int(np.abs(sums).sum()) * np.count_nonzero(sums) <= _MOST_STEPS:
            p = _all_signs(sums[sums != 0]) if sums.any() else 1.0
            return PermutationTest(p, exact=True)
    # By size, so that neither the order of the questions and benchmarks nor which side is first makes a difference.
    weighted = np.asarray(np.bincount(members, values / sizes), dtype=np.float64)
    return PermutationTest(_random_signs(np.sort(np.abs(weighted)), abs(float(weighted.sum()))), exact=False)


def is_shown_by_sign_flips(
    differences: Sequence[float],
    level: float,
    strata: Sequence[object] | None = None,
    clusters: Sequence[object] | None = None,
) -> bool:
    """Return whether p of `sign_flip_test` is at most a level.

    A difference that is many times its error needs no sign patterns: with sums v of the weighted differences that
    change their sign together, p is at most 2 exp(-(sum of v)^2 / (2 sum of v^2)), by Hoeffding's inequality (1963,
    Journal of the American Statistical Association 58:13).

    Args:
        differences: First - second, one per question.
        level: Between 0 and 1.
        strata: The benchmark of each; None is one stratum.
        clusters: What changes its sign as one.
    """
    values, sizes, members = _grouped(differences, strata, clusters)
    sums = np.bincount(members, values / sizes)
    squares = float(np.square(sums).sum())
    if squares and 2 * math.exp(-(float(sums.sum()) ** 2) / (2 * squares)) <= level:
        return True
    return sign_flip_test(differences, strata, clusters).p_value <= level


def sign_flip_intervals(
    differences: Sequence[float],
    confidences: Sequence[float],
    strata: Sequence[object] | None = None,
    clusters: Sequence[object] | None = None,
) -> list[Interval | None]:
    """The mean differences that `sign_flip_test` does not refuse: 0 is one of them where p is above 1 - confidence.

    A difference d is refused if few sign patterns of the differences less d reach their sum. A pattern does if the
    mean of the questions whose sign it changes is on the other side of d, so that the ends are quantiles of means of
    random subsets (Hartigan 1969, Journal of the American Statistical Association 64:1303): of all subsets of up to
    14 questions or clusters, else of 19,999 random ones.

    Args:
        differences: First - second, one per question.
        confidences: Between 0 and 1, one per interval.
        strata: The benchmark of each; None is one stratum.
        clusters: What changes its sign as one.

    Returns:
        An interval for each confidence; None where there are so few questions that no difference is refused.
    """
    values, sizes, members = _grouped(differences, strata, clusters)
    shares = 1 / sizes
    sums, weights = np.bincount(members, values * shares), np.bincount(members, shares)
    side = -1.0 if sums.sum() < 0 else 1.0  # so that the same subsets are drawn for second - first
    order = np.lexsort((weights, side * sums))
    sums, weights, subsets = sums[order], weights[order], _subsets(sums.size)
    means = np.sort((subsets @ sums) / (subsets @ weights))
    intervals: list[Interval | None] = []
    for confidence in confidences:
        refused = math.floor((1 - confidence) / 2 * (means.size + 1) * (1 + _OFF_LATTICE)) - 1
        inside = 0 <= refused < means.size
        intervals.append(Interval(float(means[refused]), float(means[-1 - refused])) if inside else None)
    return intervals


def _grouped(
    differences: Sequence[float], strata: Sequence[object] | None, clusters: Sequence[object] | None
) -> tuple[_Floats, _Integers, _Integers]:
    """The differences, how many their strata have, and their clusters as numbers: those of two strata are two."""
    values = np.asarray(differences, dtype=np.float64)
    named = np.zeros(values.size) if strata is None else np.asarray(strata)
    _, index, sizes = np.unique(named, return_inverse=True, return_counts=True)
    if clusters is None:
        return values, sizes[index], np.arange(values.size)
    numbers: dict[tuple[int, object], int] = {}
    keys = zip(index.tolist(), clusters, strict=True)
    return values, sizes[index], np.array([numbers.setdefault(key, len(numbers)) for key in keys])


def _subsets(n: int) -> _Floats:
    """Rows of 0 and 1 that are not all 0: all of them for few columns, else random ones."""
    if n <= _MOST_FOR_ALL_SUBSETS:
        return ((np.arange(1, 2**n)[:, None] >> np.arange(n)) & 1).astype(np.float64)
    return np.random.default_rng(_SEED).integers(0, 2, (_SUBSETS, n), dtype=np.int8).astype(np.float64)


def _whole_numbers(values: _Floats) -> _Integers | None:
    """The values as multiples of the largest 1/k that they share; None if there is no k up to `_MOST_PARTS`."""
    for parts in range(1, _MOST_PARTS + 1):
        scaled = values * parts
        rounded = np.round(scaled)
        if np.abs(scaled - rounded).max() < _OFF_LATTICE * parts:
            return rounded.astype(np.int64)
    return None


def _all_signs(values: _Integers) -> float:
    divisor = math.gcd(*map(int, values))
    sizes = np.sort(np.abs(values // divisor))
    most, observed = int(sizes.sum()), int(values.sum()) // divisor
    # Of the sum of the sizes with a positive sign, which is (most + sum of all) / 2.
    distribution = np.zeros(most + 1)
    distribution[0], reached = 1.0, 0
    for size in map(int, sizes):
        half = distribution[: reached + 1] / 2
        reached += size
        distribution[: reached - size + 1] = half
        distribution[size : reached + 1] += half
    positive = (most + observed) // 2
    return _two_sided(float(distribution[: positive + 1].sum()), float(distribution[positive:].sum()))


def _random_signs(sizes: _Floats, observed: float) -> float:
    generator = np.random.default_rng(_SEED)
    observed -= _OFF_LATTICE * float(sizes.sum())
    as_extreme = 0
    for start in range(0, _RESAMPLES, _RESAMPLES_AT_ONCE):
        count = min(_RESAMPLES_AT_ONCE, _RESAMPLES - start)
        sums = (2.0 * generator.integers(0, 2, (count, sizes.size), dtype=np.int8) - 1.0) @ sizes
        as_extreme += int(np.count_nonzero(np.abs(sums) >= observed))
    return (as_extreme + 1) / (_RESAMPLES + 1)


def _two_sided(less: float, greater: float) -> float:
    """P of a symmetric distribution from its two tails, each with the observed value."""
    return min(2 * min(less, greater), 1.0)
