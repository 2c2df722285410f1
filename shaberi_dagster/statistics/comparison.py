"""Two systems over the same questions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from shaberi_dagster.statistics.intervals import Estimate, Interval, clustered_mean_interval, mean_of_estimates
from shaberi_dagster.statistics.power import ALPHA, detectable_mean_difference
from shaberi_dagster.statistics.significance import PermutationTest, holm, sign_flip_intervals, sign_flip_test

Verdict = Literal["better", "worse", "tied", "too few", "withheld"]
OVERALL = "overall"


@dataclass(frozen=True)
class Difference:
    """Difference of A and B on one benchmark, or overall.

    Attributes:
        benchmark: Its name; `overall` for the unweighted mean of the benchmarks.
        n: Questions that both have a score for.
        mean_a: Mean score of A over these questions.
        mean_b: Mean score of B over these questions.
        difference: mean_a - mean_b.
        interval: The differences that the test does not refuse: 0 is outside of it exactly where the verdict is
            `better` or `worse`. None where there are too few questions, or all differences are 0.
        confidence: That of the interval: 0.95; of one of several benchmarks 1 - 0.05 / (benchmarks of which no
            difference is shown), which is the level at which Holm's adjustment ends.
        p_value: Of the paired sign-flip test, two-sided.
        adjusted_p_value: Holm's over the benchmarks; of `overall`, which is one test, p_value itself.
        exact: Whether p is over all sign patterns, not over random ones.
        minimum_detectable_effect: The difference that would be seen with probability 0.8 at level 0.05 with as many
            questions and the same spread; None without a spread.
        margin: Differences up to it do not matter; None is unknown.
        equal: Whether the difference is shown to be within the margin: both one-sided tests at (1 - confidence) refuse
            a larger one (Schuirmann 1987).
        verdict: `better` or `worse`: A, at level 0.05 of the adjusted p; `tied`: no difference is shown, which says
            nothing of equality; `too few`: not even the clearest result could show one; `withheld`: what was compared
            allows no verdict, which a report says.
    """

    benchmark: str
    n: int
    mean_a: float
    mean_b: float
    difference: float
    interval: Interval | None
    confidence: float
    p_value: float
    adjusted_p_value: float
    exact: bool
    minimum_detectable_effect: float | None
    margin: float | None
    equal: bool
    verdict: Verdict


@dataclass(frozen=True)
class Comparison:
    """A and B on several benchmarks.

    Attributes:
        benchmarks: One per benchmark, in the order of the frame.
        overall: Their unweighted mean; None for one benchmark.
    """

    benchmarks: tuple[Difference, ...]
    overall: Difference | None

    @property
    def rows(self) -> tuple[Difference, ...]:
        """The differences of the benchmarks, then the overall one."""
        return self.benchmarks if self.overall is None else (*self.benchmarks, self.overall)


def compare(scores: pl.DataFrame, margins: Mapping[str, float] | None = None) -> Comparison:
    """A against B, paired by question.

    Args:
        scores: One row per question: benchmark, score_a, score_b (means over samples, runs and judges), and where
            questions are not independent, cluster. Rows without one of the scores do not count.
        margins: Up to which difference scores of a benchmark are as good as equal; overall it is their mean.

    Raises:
        ValueError: No question has both scores.
    """
    common = scores.drop_nulls(["score_a", "score_b"])
    if common.is_empty():
        raise ValueError("no question has a score of both")
    if "cluster" not in common.columns:
        common = common.with_row_index("cluster")
    common = common.with_columns(difference=pl.col("score_a").cast(pl.Float64) - pl.col("score_b"))
    parts = common.partition_by("benchmark", maintain_order=True)
    names = [part["benchmark"][0] for part in parts]
    tests = [sign_flip_test(*_in_lists(part)) for part in parts]
    adjusted = holm([test.p_value for test in tests])
    estimates = [clustered_mean_interval(part["difference"].to_list(), part["cluster"].to_list()) for part in parts]
    known_margins = [(margins or {}).get(name) for name in names]
    alpha = ALPHA / max(sum(p > ALPHA for p in adjusted), 1)
    rows = tuple(
        _difference(name, part, estimate, test, adjusted_p_value=p, alpha=alpha, margin=margin, n_tests=len(parts))
        for name, part, estimate, test, p, margin in zip(
            names, parts, estimates, tests, adjusted, known_margins, strict=True
        )
    )
    if len(rows) == 1:
        return Comparison(rows, None)
    known = [estimate for estimate in estimates if estimate is not None]
    estimate = mean_of_estimates(known) if len(known) == len(rows) else None
    margin = _mean([margin for margin in known_margins if margin is not None]) if None not in known_margins else None
    means = _mean([row.mean_a for row in rows]), _mean([row.mean_b for row in rows])
    test = sign_flip_test(*_in_lists(common))
    overall = _difference(
        OVERALL, common, estimate, test, adjusted_p_value=test.p_value, alpha=ALPHA, margin=margin, means=means
    )
    return Comparison(rows, overall)


def _difference(
    name: str,
    pairs: pl.DataFrame,
    estimate: Estimate | None,
    test: PermutationTest,
    *,
    adjusted_p_value: float,
    alpha: float,
    margin: float | None,
    means: tuple[float, float] | None = None,
    n_tests: int = 1,
) -> Difference:
    mean_a, mean_b = means or (_mean(pairs["score_a"]), _mean(pairs["score_b"]))
    spread = estimate is not None and estimate.standard_error > 0
    verdict: Verdict = "tied"
    least_p = 2.0 ** (1 - pairs.n_unique(["benchmark", "cluster"]))  # when all differences have the same sign
    if least_p * n_tests > ALPHA:
        verdict = "too few"
    elif adjusted_p_value <= ALPHA:
        verdict = "better" if mean_a > mean_b else "worse"
    interval = narrower = None
    if verdict != "too few" and any(pairs["difference"]):
        differences, *groups = _in_lists(pairs)
        interval, narrower = sign_flip_intervals(differences, [1 - alpha, 1 - 2 * alpha], *groups)
    return Difference(
        benchmark=name,
        n=pairs.height,
        mean_a=mean_a,
        mean_b=mean_b,
        difference=mean_a - mean_b,
        interval=interval and _agreeing(interval, verdict),
        confidence=1 - alpha,
        p_value=test.p_value,
        adjusted_p_value=adjusted_p_value,
        exact=test.exact,
        minimum_detectable_effect=detectable_mean_difference(estimate.standard_error, estimate.degrees_of_freedom)
        if estimate and spread
        else None,
        margin=margin,
        equal=bool(narrower and margin and -margin <= narrower.lower and narrower.upper <= margin),
        verdict=verdict,
    )


def _agreeing(interval: Interval, verdict: Verdict) -> Interval:
    """The interval with its end on the side of 0 that the test says: at the level itself random subsets may miss it."""
    lower, upper = interval.lower, interval.upper
    if verdict == "better":
        return Interval(max(lower, math.ulp(0.0)), upper)
    if verdict == "worse":
        return Interval(lower, min(upper, -math.ulp(0.0)))
    return Interval(min(lower, 0.0), max(upper, 0.0))


def _in_lists(pairs: pl.DataFrame) -> tuple[list[float], list[object], list[object]]:
    """Return what sign-flip tests take: differences, strata and clusters."""
    return pairs["difference"].to_list(), pairs["benchmark"].to_list(), pairs["cluster"].to_list()


def _mean(values: Sequence[float] | pl.Series) -> float:
    return float(np.mean(list(values)))
