"""Confidence intervals of means, proportions and paired differences, and the summary of repeated runs.

Plain Python on purpose: commands that only show scores start without NumPy and SciPy.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import repeat
from statistics import NormalDist, fmean

CONFIDENCE = 0.95
ERRORS_OF_HALF = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
"""Standard errors that half of a 95 % interval is wide."""
_BISECTIONS = 60  # halvings of [-1, 1]: to the last bit


@dataclass(frozen=True)
class Interval:
    """A confidence interval.

    Attributes:
        lower: Its lower limit.
        upper: Its upper limit.
    """

    lower: float
    upper: float

    def with_error(self, value: float, down: float, up: float) -> "Interval":
        """Return the interval with one more uncertainty of the value in it: the root of the sum of squares (MOVER)."""
        return Interval(value - math.hypot(value - self.lower, down), value + math.hypot(self.upper - value, up))


@dataclass(frozen=True)
class Estimate:
    """An estimated mean with its uncertainty over questions.

    Attributes:
        value: The mean.
        interval: Its confidence interval.
        n: Number of independent units (questions) that it rests on.
        standard_error: Standard error of the mean.
        degrees_of_freedom: Of Student's t.
        ends: Ends of the scale that the interval stays within; None for a t interval.
    """

    value: float
    interval: Interval
    n: int
    standard_error: float
    degrees_of_freedom: float
    ends: tuple[float, float] | None = None

    def moved(self, shift: float, down: float, up: float) -> "Estimate":
        """Return the estimate with a shift that may be lower by `down` or higher by `up`, within its scale."""
        wider = self.interval.with_error(self.value, down, up)
        value, lower, upper = (end + shift for end in (self.value, wider.lower, wider.upper))
        if self.ends:
            value, lower, upper = (min(max(end, self.ends[0]), self.ends[1]) for end in (value, lower, upper))
        error = math.hypot(self.standard_error, (down + up) / 2 / ERRORS_OF_HALF)
        return replace(self, value=value, interval=Interval(lower, upper), standard_error=error)


def within(interval: Interval, reach: float) -> Interval:
    """Return the part of an interval of a difference that a scale of this width allows."""
    return Interval(max(interval.lower, -reach), min(interval.upper, reach))


def margin_of_error(sd: float | None, n: int) -> float | None:
    """Half the width of the 95 % confidence interval of a mean: t(0.975, n-1) x sd / sqrt(n).

    Args:
        sd: Sample standard deviation (ddof 1), None for one value.
        n: Number of values.

    Returns:
        None when it is not defined. Of two values it is hardly worth showing: the quantile is 12.7.
    """
    if sd is None or n < 2:  # noqa: PLR2004
        return None
    return t_quantile(n - 1) * sd / math.sqrt(n)


def mean_interval(values: Sequence[float], bounds: tuple[float, float] | None = None) -> Estimate | None:
    """The mean of independent values, such as the scores of different questions.

    Args:
        values: One per question.
        bounds: Ends of the scale, for the interval of `clustered_mean_interval`; None for the t interval.

    Returns:
        None for fewer than two values.
    """
    return clustered_mean_interval(values, range(len(values)), bounds)


def clustered_mean_interval(
    values: Sequence[float],
    clusters: Sequence[Hashable],
    bounds: tuple[float, float] | None = None,
    weights: Sequence[float] | None = None,
) -> Estimate | None:
    """The mean of all values, where values of one cluster (samples of one question) are not independent.

    Standard error: sqrt(G / (G-1) x sum over clusters of (sum of the cluster's deviations from the mean)²) / N for G
    clusters and N values, with G-1 degrees of freedom (Liang and Zeger 1986; small-sample factor and degrees of
    freedom: Cameron and Miller 2015, "A Practitioner's Guide to Cluster-Robust Inference", section VI). With as many
    values in each cluster it is the t interval of the clusters' means.

    With `bounds` the interval is Wilson's, of the mean's place on the scale, for the number of independent 0/1 values
    that would have this standard error (Wilson 1927; effective number: Korn and Graubard 1998). It bends away from the
    near end of the scale as the skewed scores of good models need it; the t interval misses the mean 10 to 17 times of
    100 there with 20 questions, 6 to 9 times with 40. The variance is that of G clusters and one more that spreads over
    the whole scale, so that equal scores have an interval, too.

    Args:
        values: At least one per cluster.
        clusters: The cluster of each value.
        bounds: Ends of the scale; None for the t interval.
        weights: Of each value in the mean, 1 on average; None: 1.

    Returns:
        None for fewer than two clusters.
    """
    if not values:
        return None
    mean = fmean(values, weights)
    deviations = dict.fromkeys(clusters, 0.0)
    for value, cluster, weight in zip(values, clusters, weights or [1.0] * len(values), strict=True):
        deviations[cluster] += weight * (value - mean)
    n = len(deviations)
    if n < 2:  # noqa: PLR2004
        return None
    squares = math.fsum(deviation**2 for deviation in deviations.values())
    standard_error = math.sqrt(n / (n - 1) * squares) / len(values)
    if bounds is None:
        return _t_estimate(mean, standard_error, n, n - 1)
    # Scores outside of the scale are counted as given.
    ends = min(bounds[0], *values), max(bounds[1], *values)
    variance = _bounded_variance(mean, standard_error, n, ends)
    interval = _bounded_interval(mean, variance, n, ends, t_quantile(n - 1))
    return Estimate(mean, interval, n, standard_error, n - 1, ends)


def mean_of_estimates(estimates: Sequence[Estimate]) -> Estimate:
    """The unweighted mean of independent estimates, such as of benchmarks; of one it is that one.

    Its variance is the sum of those / k²; degrees of freedom by Welch and Satterthwaite (1946). If all of them stay
    within a scale, so does the mean: their variances are those of their intervals, with one more question each that
    spreads over the whole scale, and the interval is Wilson's within the mean of the scales. Else it is the t interval.

    Args:
        estimates: At least one; each has its standard error.
    """
    k = len(estimates)
    if k == 1:
        return estimates[0]
    value, n = fmean(estimate.value for estimate in estimates), sum(estimate.n for estimate in estimates)
    standard_error = math.sqrt(math.fsum(estimate.standard_error**2 for estimate in estimates)) / k
    scales = [estimate.ends for estimate in estimates if estimate.ends is not None]
    if len(scales) < k:
        variances = [estimate.standard_error**2 / k**2 for estimate in estimates]
        return _t_estimate(value, standard_error, n, _welch(variances, estimates))
    variances = [
        _bounded_variance(estimate.value, estimate.standard_error, estimate.n, scale) / k**2
        for estimate, scale in zip(estimates, scales, strict=True)
    ]
    degrees_of_freedom = _welch(variances, estimates)
    ends = fmean(low for low, _ in scales), fmean(high for _, high in scales)
    # As many questions as if each spread over its whole scale.
    least_n = k**2 / math.fsum(1 / estimate.n for estimate in estimates)
    interval = _bounded_interval(value, math.fsum(variances), least_n, ends, t_quantile(degrees_of_freedom))
    return Estimate(value, interval, n, standard_error, degrees_of_freedom, ends)


def _welch(variances: Sequence[float], estimates: Sequence[Estimate]) -> float:
    """Degrees of freedom of a sum of independent estimates with these variances."""
    in_units = zip(variances, estimates, strict=True)
    spread = math.fsum(variance**2 / estimate.degrees_of_freedom for variance, estimate in in_units)
    return math.fsum(variances) ** 2 / spread if spread else min(estimate.degrees_of_freedom for estimate in estimates)


def wilson_interval(successes: float, n: float) -> Interval | None:
    """The score interval of a proportion (Wilson 1927, with the exact normal quantile).

    Args:
        successes: From 0 to n.
        n: Number of trials.

    Returns:
        None without trials.
    """
    return _wilson(successes / n, n, ERRORS_OF_HALF) if n else None


def exact_interval(successes: float, n: float, confidence: float = CONFIDENCE) -> Interval:
    """The exact interval of a proportion (Clopper and Pearson 1934).

    Args:
        successes: From 0 to n; with an effective number of trials it is no whole number (Korn and Graubard 1998).
        n: Number of trials, above 0.
        confidence: Between 0 and 1.
    """
    from scipy import special

    tail = (1 - confidence) / 2
    lower = float(special.betaincinv(successes, n - successes + 1, tail)) if successes > 0 else 0.0
    upper = float(special.betaincinv(successes + 1, n - successes, 1 - tail)) if successes < n else 1.0
    return Interval(lower, upper)


def paired_proportions_interval(only_first: int, only_second: int, n: int) -> Interval | None:
    """The difference of two proportions, first - second, over the same questions.

    Tango's score interval (1998, Statistics in Medicine 17:891), which Fagerland, Lydersen and Laake (2014, Statistics
    in Medicine 33:2850) recommend for small numbers as well. It never leaves [-1, 1], and is no point without any
    discordant question.

    Args:
        only_first: Questions that only the first got right.
        only_second: Questions that only the second got right.
        n: All questions.

    Returns:
        None without questions.
    """
    if not n:
        return None
    return Interval(_tango_lower(only_first, only_second, n), -_tango_lower(only_second, only_first, n))


def _tango_lower(only_first: int, only_second: int, n: int) -> float:
    """The difference below the observed one at which the score statistic is the normal quantile."""
    low, high = -1.0, (only_first - only_second) / n
    for _ in repeat(None, _BISECTIONS):
        difference = (low + high) / 2
        # Share of only_second that is most likely under this difference.
        b = (2 * n - only_first + only_second) * difference - only_first - only_second
        c = -only_second * difference * (1 - difference)
        share = (math.sqrt(max(b * b - 8 * n * c, 0.0)) - b) / (4 * n)
        variance = n * max(2 * share + difference * (1 - difference), 0.0)
        if only_first - only_second - n * difference > ERRORS_OF_HALF * math.sqrt(variance):
            low = difference
        else:
            high = difference
    return (low + high) / 2


def _bounded_variance(mean: float, standard_error: float, n: int, ends: tuple[float, float]) -> float:
    """The mean's variance, of n questions and one more that spreads over the whole scale."""
    low, high = ends
    width = high - low
    if not width:
        return 0.0
    t = t_quantile(n - 1)
    centre = ((mean - low) / width + t * t / (2 * n)) / (1 + t * t / n)
    return ((n - 1) * standard_error**2 + width**2 * centre * (1 - centre) / n) / n


def _bounded_interval(mean: float, variance: float, least_n: float, ends: tuple[float, float], t: float) -> Interval:
    """Wilson's interval of the mean's place on the scale, for as many 0/1 values as have its variance."""
    low, high = ends
    width = high - low
    if not width:
        return Interval(mean, mean)
    share = (mean - low) / width
    effective_n = max(share * (1 - share) * width**2 / variance, least_n)
    interval = _wilson(share, effective_n, t)
    return Interval(min(low + width * interval.lower, mean), max(low + width * interval.upper, mean))


def _wilson(share: float, n: float, z: float) -> Interval:
    centre = share + z * z / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return Interval(max((centre - half) / scale, 0.0), min((centre + half) / scale, 1.0))


def _t_estimate(value: float, standard_error: float, n: int, degrees_of_freedom: float) -> Estimate:
    margin = t_quantile(degrees_of_freedom) * standard_error
    return Estimate(value, Interval(value - margin, value + margin), n, standard_error, degrees_of_freedom)


@lru_cache(maxsize=1024)
def t_quantile(degrees_of_freedom: float, confidence: float = CONFIDENCE) -> float:
    """The upper end of the middle `confidence` of Student's t."""
    from scipy import special

    return float(special.stdtrit(degrees_of_freedom, (1 + confidence) / 2))
