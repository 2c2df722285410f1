"""Many runs over the same questions: which of them cannot be told apart."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from shaberi_dagster.statistics.significance import holm

_ALPHA = 0.05
_ROUNDING = 1e-9  # of sums of squares

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Ties:
    """Which runs do not differ; rows and columns are runs in the given order.

    Attributes:
        adjusted_p_values: runs x runs: Holm's adjusted p of each pair's difference; NaN for a pair that has fewer than
            two questions of each benchmark in common, and on the diagonal.
        n_common: runs x runs: questions that both have a score for.
        tied_with_best: For each run, whether it is not shown to differ from the best, which is the one with the highest
            mean over benchmarks and tied with itself.
        groups: With the runs sorted by that mean, best first: the longest stretches of neighbours of which no two are
            shown to differ (the bars of Demsar 2006, Journal of Machine Learning Research 7). A run can be in several.
    """

    adjusted_p_values: _Floats
    n_common: npt.NDArray[np.int64]
    tied_with_best: tuple[bool, ...]
    groups: tuple[tuple[int, ...], ...]


def tied_groups(scores: npt.ArrayLike, benchmarks: Sequence[str], alpha: float = _ALPHA) -> Ties:
    """Compare each run with each other one, paired by question.

    The paired t test of the mean over benchmarks of the mean differences over common questions (degrees of freedom by
    Welch and Satterthwaite), for all pairs at once, with Holm's adjustment over all pairs: the best of many runs is
    chosen by the same scores, so that comparing it with the others alone would find differences by chance.

    Args:
        scores: runs x questions, NaN where a run has none; of one judge.
        benchmarks: The benchmark of each question.
        alpha: Level of the whole family of pairs.
    """
    table = np.asarray(scores, dtype=np.float64)
    columns = np.asarray(benchmarks)
    n_runs = len(table)
    total, variance, spread = np.zeros((3, n_runs, n_runs))
    n_common, n_benchmarks = np.zeros((2, n_runs, n_runs), dtype=np.int64)
    means = []
    for benchmark in dict.fromkeys(benchmarks):
        part = table[:, columns == benchmark]
        n, difference, squared_error = _differences(part)
        n_common += n
        shared = n > 1
        n_benchmarks += shared
        total += np.where(shared, difference, 0)
        variance += np.where(shared, squared_error, 0)
        spread += np.where(shared, squared_error**2 / np.maximum(n - 1, 1), 0)
        means.append(_row_means(part))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.abs(total) / np.sqrt(variance)
        p = 2 * special.stdtr(np.where(spread > 0, variance**2 / spread, 1), -t)
    p[(variance == 0) & (np.abs(total) < _ROUNDING)] = 1  # equal scores of all questions
    p[n_benchmarks == 0] = np.nan
    adjusted = _adjusted(p)
    overall = np.nan_to_num(_row_means(np.transpose(means)), nan=-np.inf)
    order = [int(run) for run in np.argsort(-overall, kind="stable")]
    different = adjusted <= alpha
    return Ties(adjusted, n_common, tuple(map(bool, ~different[order[0]])), _stretches(different, order))


def _differences(part: _Floats) -> tuple[npt.NDArray[np.int64], _Floats, _Floats]:
    """Of each pair: number of common questions, mean difference, and squared standard error of it."""
    there = ~np.isnan(part)
    present = there.astype(np.float64)
    # Differences do not depend on where zero is; near it sums of squares lose nothing.
    x = np.where(there, part - _row_means(part.T), 0.0)
    n = present @ present.T
    sums = x @ present.T - present @ x.T
    squares = x**2 @ present.T + present @ (x**2).T - 2 * x @ x.T
    at_least_two = np.maximum(n, 2)
    scatter = squares - sums**2 / at_least_two
    scatter[scatter < _ROUNDING * squares] = 0
    return n.astype(np.int64), sums / at_least_two, scatter / (at_least_two - 1) / at_least_two


def _row_means(table: _Floats) -> _Floats:
    """The mean of each row's numbers; NaN for a row without any."""
    there = ~np.isnan(table)
    count = there.sum(axis=1)
    return np.where(count > 0, np.where(there, table, 0).sum(axis=1) / np.maximum(count, 1), np.nan)


def _adjusted(p: _Floats) -> _Floats:
    rows, columns = np.triu_indices(len(p), 1)
    known = ~np.isnan(p[rows, columns])
    adjusted = np.full_like(p, np.nan)
    adjusted[rows[known], columns[known]] = holm(p[rows, columns][known].tolist())
    adjusted[columns[known], rows[known]] = adjusted[rows[known], columns[known]]
    return adjusted


def _stretches(different: npt.NDArray[np.bool_], order: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The longest stretches of the order without a different pair."""
    stretches: list[tuple[int, ...]] = []
    end = 0
    for start in range(len(order)):
        previous = end
        while end < len(order) and not different[order[end], order[start:end]].any():
            end += 1
        if end > previous:
            stretches.append(tuple(order[start:end]))
    return tuple(stretches)
