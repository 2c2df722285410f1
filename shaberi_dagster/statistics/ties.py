"""Many runs over the same questions: how each pair differs, and which pairs cannot be told apart."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from shaberi_dagster.statistics.intervals import Interval, t_quantile
from shaberi_dagster.statistics.power import ALPHA
from shaberi_dagster.statistics.significance import holm

_ROUNDING = 1e-9  # of sums of squares

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PairwiseDifferences:
    """The difference of each pair of runs, first - second; rows and columns are runs in the given order.

    Attributes:
        differences: runs x runs: the mean over benchmarks of the mean differences over what both have; NaN for a pair
            that has fewer than two questions of each benchmark in common.
        standard_errors: runs x runs: of the differences.
        degrees_of_freedom: runs x runs: of Student's t.
        adjusted_p_values: runs x runs: Holm's adjusted p; NaN where the difference is, and on the diagonal.
        n_common: runs x runs: questions on which a judge scored both.
        confidence: Of the interval that leaves out 0 exactly where the adjusted p is at most `ALPHA`: 1 - `ALPHA` /
            (pairs of which no difference is shown), the level at which Holm's adjustment ends.
    """

    differences: _Floats
    standard_errors: _Floats
    degrees_of_freedom: _Floats
    adjusted_p_values: _Floats
    n_common: npt.NDArray[np.int64]
    confidence: float

    def interval(self, first: int, second: int) -> Interval:
        """The interval of a difference at `confidence`."""
        quantile = t_quantile(float(self.degrees_of_freedom[first, second]), self.confidence)
        margin = quantile * float(self.standard_errors[first, second])
        difference = float(self.differences[first, second])
        return Interval(difference - margin, difference + margin)


def compare_pairs(scores: npt.ArrayLike, benchmarks: Sequence[str]) -> PairwiseDifferences:
    """Compare each run with each other one, paired by question and judge.

    On each question the mean is over the judges that scored both, so that neither gains by a judge's leniency. The
    paired t test of the mean over benchmarks of the mean differences over common questions (degrees of freedom by
    Welch and Satterthwaite), for all pairs at once, with Holm's adjustment over all pairs: the best of many runs is
    chosen by the same scores, so that comparing it with the others alone would find differences by chance.

    Args:
        scores: runs x questions x judges, NaN without one.
        benchmarks: The benchmark of each question.
    """
    table = np.asarray(scores, dtype=np.float64)
    columns = np.asarray(benchmarks)
    n_runs = len(table)
    total, variance, spread = np.zeros((3, n_runs, n_runs))
    n_common, n_benchmarks = np.zeros((2, n_runs, n_runs), dtype=np.int64)
    for benchmark in dict.fromkeys(benchmarks):
        n, sums, squares = _sums(table[:, columns == benchmark])
        at_least_two = np.maximum(n, 2)
        scatter = squares - sums**2 / at_least_two
        scatter[scatter < _ROUNDING * squares] = 0
        squared_error = scatter / (at_least_two - 1) / at_least_two
        shared = n > 1
        n_common += n
        n_benchmarks += shared
        total += np.where(shared, sums / at_least_two, 0)
        variance += np.where(shared, squared_error, 0)
        spread += np.where(shared, squared_error**2 / (at_least_two - 1), 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.abs(total) / np.sqrt(variance)
        degrees_of_freedom = np.where(spread > 0, variance**2 / spread, 1)
        upper = np.triu_indices(n_runs, 1)
        p = np.full_like(t, np.nan)
        p[upper] = p.T[upper] = 2 * special.stdtr(degrees_of_freedom[upper], -t[upper])
        differences = total / n_benchmarks
        standard_errors = np.sqrt(variance) / n_benchmarks
    p[(variance == 0) & (np.abs(total) < _ROUNDING)] = 1  # equal scores of all questions
    p[n_benchmarks == 0] = np.nan
    adjusted = _adjusted(p)
    n_alike = int(np.count_nonzero(adjusted > ALPHA)) // 2
    return PairwiseDifferences(
        differences, standard_errors, degrees_of_freedom, adjusted, n_common, 1 - ALPHA / max(n_alike, 1)
    )


def _sums(part: _Floats) -> tuple[npt.NDArray[np.int64], _Floats, _Floats]:
    """Sum up each pair: number of common questions, sum of the differences, and sum of their squares."""
    there = ~np.isnan(part)
    count = there.sum(axis=2)
    everybody = there.any(axis=0).sum(axis=1)
    # Differences do not depend on where zero is; near it sums of squares lose nothing.
    centre = np.where(there, part, 0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    x = np.where(there, part - centre, 0.0)
    # Pairs that have all judges of a question: matrices of means.
    present = ((count == everybody) & (count > 0)).astype(np.float64)
    means = x.sum(axis=2) / np.maximum(everybody, 1) * present
    n = present @ present.T
    sums = means @ present.T - present @ means.T
    squares = means**2 @ present.T + present @ (means**2).T - 2 * means @ means.T
    # Pairs of which one has some of the judges only: over the judges that both have.
    partial = (count > 0) & (count < everybody)
    further = np.zeros((3, *n.shape))
    for question in np.flatnonzero(partial.any(axis=0)):
        some = np.flatnonzero(partial[:, question])
        own, by = x[:, question], there[:, question].astype(np.float64)
        n_judges = by[some] @ by.T
        share = (n_judges > 0) * np.where(partial[:, question], 0.5, 1.0)  # a pair of two such comes up twice
        difference = (own[some] @ by.T - by[some] @ own.T) / np.maximum(n_judges, 1)
        further[:, some] += np.stack([share, share * difference, share * difference**2])
    n += further[0] + further[0].T
    sums += further[1] - further[1].T
    squares += further[2] + further[2].T
    return np.rint(n).astype(np.int64), sums, squares


def _adjusted(p: _Floats) -> _Floats:
    rows, columns = np.triu_indices(len(p), 1)
    known = ~np.isnan(p[rows, columns])
    adjusted = np.full_like(p, np.nan)
    adjusted[rows[known], columns[known]] = holm(p[rows, columns][known].tolist())
    adjusted[columns[known], rows[known]] = adjusted[rows[known], columns[known]]
    return adjusted
