"""The doubt that missing scores cast on a difference between two sides."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from shaberi_dagster.statistics.significance import is_shown_by_sign_flips, sign_flip_test

if TYPE_CHECKING:
    import polars as pl

Paired = Mapping[str, npt.ArrayLike]
"""Columns of the scores of two lines, A and B, a row for each question and judge: benchmark, question_id, judge,
score_a and score_b (NaN: no score), share_a and share_b of its samples that are missing (NaN: it was not asked),
and cluster if that is not the question."""
_UNEQUAL = 0.01
"""Level at which shares of missing scores differ."""
_UNEQUAL_OF_FEW = 0.15
"""The same where so few scores are missing that no p is below `_UNEQUAL`; two or more of one side alone always do."""


def still_shown(both: "Paired | pl.DataFrame", is_better: bool, level: float, *, at_worst: bool) -> bool:
    """Return whether a difference is shown even if missing scores are bad for it.

    Args:
        both: The scores of A and B.
        is_better: Whether A is better, as scores that are there show it.
        level: The level at which it is shown.
        at_worst: Missing scores are the worst for it that the judge gave on the benchmark; else a standard deviation
            from the mean of those that it gave this side there.
    """
    scores, shares = (
        np.array([both[f"{name}_{side}"] for side in "ab"], dtype=np.float64) for name in ("score", "share")
    )
    names = ("benchmark", "question_id", "judge")
    benchmarks, questions, judges = (np.unique(np.asarray(both[name]), return_inverse=True)[1] for name in names)
    used = ~np.isnan(scores).all(axis=0)
    filled = np.full_like(scores, np.nan)
    for cell in set(zip(benchmarks[used], judges[used], strict=True)):
        here = used & (benchmarks == cell[0]) & (judges == cell[1])
        ends = np.nanmin(scores[:, here]), np.nanmax(scores[:, here])
        for side, end in enumerate(ends if is_better else ends[::-1]):
            own, share = scores[side, here], shares[side, here]
            bad, known = end, own[~np.isnan(own)]
            if known.size and not at_worst:
                spread = known.std() if is_better == (side == 1) else -known.std()
                bad = np.clip(known.mean() + spread, *ends)
            filled[side, here] = np.nan_to_num(own) * (1 - share) + bad * share
    used = ~np.isnan(filled).any(axis=0)
    of_benchmark = (benchmarks * (questions.max() + 1) + questions)[used]
    _, first, question = np.unique(of_benchmark, return_index=True, return_inverse=True)
    differences = np.bincount(question, (filled[0] - filled[1])[used]) / np.bincount(question)
    strata = benchmarks[used][first]
    clusters = np.asarray(both["cluster"])[used][first].tolist() if "cluster" in both else None
    mean = fmean(differences[strata == benchmark].mean() for benchmark in set(strata.tolist()))
    return (mean > 0) == is_better and is_shown_by_sign_flips(differences.tolist(), level, strata.tolist(), clusters)


def unequal_missing(
    missing_a: Sequence[float],
    missing_b: Sequence[float],
    *,
    n_scores: int,
    sides: tuple[str, str],
    noun: str = "scores",
    holds: Callable[[bool], bool] | None = None,
) -> str:
    """Say why scores that both sides have do not stand for all: those that are missing follow the answers of one side.

    The exact sign-flip test of the missing scores, paired by question, as an answer that fails has no score by any
    judge. With one judge it is McNemar's. A difference that is shown however bad what is missing may be is in no doubt.
    Where so few are missing that the test could not show anything, a difference is in doubt from a lower level on, and
    where several are missing that all are of one side: there missing scores are taken for bad ones, not the worst.

    Args:
        missing_a: For each question how many of the scores that both sides were to get A lacks.
        missing_b: How many B lacks.
        n_scores: How many scores both sides were to get.
        sides: Whose scores they are, such as `A's`.
        noun: What is missing.
        holds: Whether the difference is shown even if what is missing is bad for it: the worst, or (for False) bad
            as one in six is; None: none is shown.

    Returns:
        A clause; empty where there is no such doubt.
    """
    differences = [a - b for a, b in zip(missing_a, missing_b, strict=True) if a != b]
    p = _p_of_missing(tuple(sorted(differences))) if differences else 1.0
    least = 2.0 ** (1 - len(differences))
    are_few = least >= _UNEQUAL and len(differences) > 1 and p <= max(least, _UNEQUAL_OF_FEW) and holds
    if not (p < _UNEQUAL or are_few) or (holds and holds(p < _UNEQUAL)):
        return ""
    shares = (100 * sum(missing) / n_scores for missing in (missing_a, missing_b))
    said = " and ".join(f"{share:.1f} % of {side}" for share, side in zip(shares, sides, strict=True))
    chance = f"p < {_UNEQUAL}" if p < _UNEQUAL else "too few to tell if by chance"
    return f"{said} {noun} are missing ({chance}): those that both have may not stand for the rest"


@lru_cache(maxsize=4096)
def _p_of_missing(differences: tuple[float, ...]) -> float:
    """Return p of the sign-flip test; lines of a long ranking often lack as many scores."""
    return sign_flip_test(differences).p_value
