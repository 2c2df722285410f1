"""Two systems over the same questions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from shaberi_dagster.statistics.intervals import Estimate, Interval, mean_of_estimates, paired_mean_interval
from shaberi_dagster.statistics.power import ALPHA, detectable_mean_difference
from shaberi_dagster.statistics.significance import PermutationTest, holm, sign_flip_test

Verdict = Literal["better", "worse", "tied", "too few"]
OVERALL = "overall"


@dataclass(frozen=True)
class Difference:
    """How A differs from B on one benchmark, or overall.

    Attributes:
        benchmark: Its name; `overall` for the unweighted mean of the benchmarks.
        n: Questions that both have a score for.
        mean_a: Mean score of A over these questions.
        mean_b: Mean score of B over these questions.
        difference: mean_a - mean_b.
        interval: Its 95 % confidence interval over questions; None for fewer than two questions of a benchmark.
        p_value: Of the paired sign-flip test, two-sided.
        adjusted_p_value: Holm's over the benchmarks; of `overall`, which is one test, p_value itself.
        exact: Whether p is over all sign patterns, not over random ones.
        minimum_detectable_effect: The difference that would be seen with probability 0.8 at level 0.05 with as many
            questions and the same spread; None without a spread.
        verdict: `better` or `worse`: A, at level 0.05 of the adjusted p; `tied`: no difference is shown;
            `too few`: not even the clearest result could show one.
    """

    benchmark: str
    n: int
    mean_a: float
    mean_b: float
    difference: float
    interval: Interval | None
    p_value: float
    adjusted_p_value: float
    exact: bool
    minimum_detectable_effect: float | None
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
        """All of them, overall last."""
        return self.benchmarks if self.overall is None else (*self.benchmarks, self.overall)


def compare(scores: pl.DataFrame) -> Comparison:
    """A against B, paired by question.

    Args:
        scores: One row per question: benchmark, score_a, score_b (means over samples, runs and judges). Rows without
            one of the scores do not count.

    Raises:
        ValueError: No question has both scores.
    """
    common = scores.drop_nulls(["score_a", "score_b"])
    if common.is_empty():
        raise ValueError("no question has a score of both")
    parts = common.partition_by("benchmark", maintain_order=True)
    names = [part["benchmark"][0] for part in parts]
    pairs = [(part["score_a"].to_list(), part["score_b"].to_list()) for part in parts]
    estimates = [paired_mean_interval(a, b) for a, b in pairs]
    tests = [sign_flip_test([x - y for x, y in zip(a, b, strict=True)]) for a, b in pairs]
    adjusted = holm([test.p_value for test in tests])
    rows = tuple(
        _difference(name, len(a), (_mean(a), _mean(b)), estimate, test=test, adjusted_p_value=p, n_tests=len(parts))
        for name, (a, b), estimate, test, p in zip(names, pairs, estimates, tests, adjusted, strict=True)
    )
    return Comparison(rows, _overall(common, rows, estimates) if len(rows) > 1 else None)


def _overall(common: pl.DataFrame, rows: Sequence[Difference], estimates: Sequence[Estimate | None]) -> Difference:
    known = [one for one in estimates if one is not None]
    test = sign_flip_test((common["score_a"] - common["score_b"]).to_list(), common["benchmark"].to_list())
    means = _mean([row.mean_a for row in rows]), _mean([row.mean_b for row in rows])
    estimate = mean_of_estimates(known) if len(known) == len(rows) else None
    return _difference(OVERALL, common.height, means, estimate, test=test, adjusted_p_value=test.p_value, n_tests=1)


def _difference(
    benchmark: str,
    n: int,
    means: tuple[float, float],
    estimate: Estimate | None,
    *,
    test: PermutationTest,
    adjusted_p_value: float,
    n_tests: int,
) -> Difference:
    mean_a, mean_b = means
    spread = estimate is not None and estimate.standard_error > 0
    verdict: Verdict = "tied"
    if 2.0 ** (1 - n) * n_tests > ALPHA:  # p when all n differences have the same sign
        verdict = "too few"
    elif adjusted_p_value <= ALPHA:
        verdict = "better" if mean_a > mean_b else "worse"
    return Difference(
        benchmark=benchmark,
        n=n,
        mean_a=mean_a,
        mean_b=mean_b,
        difference=mean_a - mean_b,
        interval=estimate.interval if estimate and spread else None,
        p_value=test.p_value,
        adjusted_p_value=adjusted_p_value,
        exact=test.exact,
        minimum_detectable_effect=detectable_mean_difference(estimate.standard_error, estimate.degrees_of_freedom)
        if estimate and spread
        else None,
        verdict=verdict,
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
