"""Ties: which lines are not shown to differ from the best, and the doubt that missing scores cast on a difference."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from shaberi_dagster.reports.scores import JudgeScores, Tie
from shaberi_dagster.reports.undecided import cannot_tell
from shaberi_dagster.statistics.intervals import Interval, within
from shaberi_dagster.statistics.power import ALPHA
from shaberi_dagster.statistics.significance import is_shown_by_sign_flips, sign_flip_test
from shaberi_dagster.statistics.ties import compare_pairs

if TYPE_CHECKING:
    import polars as pl

    from shaberi_dagster.statistics import comparison

K = TypeVar("K")
_Floats = npt.NDArray[np.float64]
_Integers = npt.NDArray[np.int64]
_Paired = Mapping[str, npt.ArrayLike]
"""Columns of the scores of two lines, A and B, a row for each question and judge: benchmark, question_id, judge,
score_a and score_b (NaN: there is none), share_a and share_b of its samples that are missing (NaN: it was not asked),
and cluster if that is not the question."""
_FEWEST_COMPARED = 2
_UNEQUAL = 0.01
"""Level at which shares of missing scores differ."""
_UNEQUAL_OF_FEW = 0.15
"""The same where so few scores are missing that no p is below `_UNEQUAL`; two or more of one side alone always do."""


def ties_between(
    keys: Sequence[K], means: Sequence[float], runs: Sequence[Sequence[JudgeScores]], reach: float = math.inf
) -> dict[K, Tie]:
    """Compare some lines with the best of them, by scores that are at hand.

    The best is the line with the highest mean that no other one is shown to be better than: a mean over all scores can
    be the highest because a harsh judge is missing.

    Args:
        keys: What to call each.
        means: The mean of each.
        runs: The scores of each; of several of a question and judge the mean counts.
        reach: The largest difference that the scales allow, within which intervals stay.
    """
    table, missing, benchmarks = _tables(runs)
    pairs = compare_pairs(table, benchmarks)
    different = pairs.adjusted_p_values <= ALPHA
    sole = _sole_pair(_paired(table, missing, benchmarks)) if len(runs) == _FEWEST_COMPARED else None
    if sole:
        different[:] = sole.verdict in {"better", "worse"}

    level = ALPHA if sole else 1 - pairs.confidence

    def why_withheld(best: int, index: int) -> str:
        pair, is_better = [index, best], bool(pairs.differences[index, best] > 0)
        both = ~np.isnan(missing[pair]).any(axis=0)
        return unequal_missing(
            *(np.where(both, missing[line], 0).sum(axis=1).tolist() for line in pair),
            n_scores=int(both.sum()),
            sides=("its", "the best's"),
            holds=(
                lambda at_worst: still_shown(
                    _paired(table[pair], missing[pair], benchmarks), is_better, level, at_worst=at_worst
                )
            )
            if different[best, index]
            else None,
        )

    def is_beaten(best: int) -> bool:
        better = np.flatnonzero(different[best] & (pairs.differences[best] < 0))
        return any(not why_withheld(best, int(index)) for index in better)

    order = sorted(range(len(keys)), key=lambda index: -means[index])
    best = next((index for index in order if not is_beaten(index)), order[0])
    ties: dict[K, Tie] = {}
    for index, key in enumerate(keys):
        if index == best:
            ties[key] = Tie("best", len(keys), int((~np.isnan(table[best])).any(axis=1).sum()), None)
        elif not np.isnan(p := float(pairs.adjusted_p_values[best, index])):
            why = why_withheld(best, index)
            tie = Tie(
                "withheld" if why else "below" if different[best, index] else "tied",
                len(keys),
                int(pairs.n_common[best, index]),
                p,
                float(pairs.differences[index, best]),
                within(pairs.interval(index, best), reach),
                means[index] - means[best],
                why,
            )
            if sole:  # first - second
                ends = sole.interval and (
                    Interval(-sole.interval.upper, -sole.interval.lower) if index else sole.interval
                )
                difference = 0.0 - sole.difference if index else sole.difference
                tie = replace(tie, p_value=sole.p_value, difference=difference, interval=ends)
            ties[key] = tie
    return ties if len(ties) > 1 else {}


def ties_at_both_ends(
    keys: Sequence[K],
    lower: Sequence[float],
    upper: Sequence[float],
    runs: Sequence[Sequence[JudgeScores]],
    scales: Mapping[str, tuple[float, float]],
) -> dict[K, Tie]:
    """Compare some lines with the best of them; a verdict that does not hold at both ends of their scores is withheld.

    Args:
        keys: What to call each.
        lower: The mean of each, in which undecided answers are wrong.
        upper: The mean of each without them.
        runs: The scores of each.
        scales: Of the benchmarks.
    """
    asked = {part.benchmark for parts in runs for part in parts}
    reach = fmean(scales[name][1] - scales[name][0] for name in asked) if asked and asked <= scales.keys() else math.inf
    ties = ties_between(keys, lower, runs, reach)
    if not ties or not any(any(part.undecided) for parts in runs for part in parts):
        return ties
    decided = ties_between(keys, upper, [[part.decided for part in parts] for parts in runs], reach)
    best = next(
        parts for key, parts in zip(keys, runs, strict=True) if key in ties and ties[key].against_best == "best"
    )
    return {
        key: ties[key]
        if key in decided and _is_behind(ties[key]) == _is_behind(decided[key])
        else replace(ties[key], against_best="withheld", why=_cannot_tell([*parts, *best]))
        for key, parts in zip(keys, runs, strict=True)
        if key in ties
    }


def _is_behind(tie: Tie) -> bool | None:
    return None if tie.why else tie.against_best == "below"


def _cannot_tell(parts: Sequence[JudgeScores]) -> str:
    return cannot_tell(sum(sum(part.undecided) for part in parts), sum(len(part.scores) for part in parts))


def _tables(runs: Sequence[Sequence[JudgeScores]]) -> tuple[_Floats, _Floats, list[str]]:
    """Put single scores into tables of lines x questions x judges.

    Returns:
        The mean score, NaN where there is none; the share of samples that are missing, NaN where it was not asked; and
        the benchmark of each question.
    """
    columns: dict[tuple[str, str | int], int] = {}
    judges: dict[str, int] = {}
    places: dict[tuple[str, int], _Integers] = {}  # most lists of questions are the very same
    cells, scores = list[tuple[int, _Integers, int]](), list[float | None]()
    for index, parts in enumerate(runs):
        for part in parts:
            key = (part.benchmark, id(part.questions))
            if key not in places:
                named = [columns.setdefault((part.benchmark, question), len(columns)) for question in part.questions]
                places[key] = np.array(named, dtype=np.int64)
            cells.append((index, places[key], judges.setdefault(part.judge, len(judges))))
            scores += part.scores
    shape = len(runs), len(columns), len(judges)
    flat = [(index * shape[1] + where) * shape[2] + judge for index, where, judge in cells]
    where, given = np.concatenate([np.zeros(0, dtype=np.int64), *flat]), np.array(scores, dtype=np.float64)
    there = ~np.isnan(given)
    sums, n_scored, n_asked = (
        np.bincount(where, of_cells, minlength=math.prod(shape)).reshape(shape).astype(float)  # integers, if of nothing
        for of_cells in (np.where(there, given, 0), there, np.ones_like(given))
    )
    table = np.divide(sums, n_scored, out=np.full_like(sums, np.nan), where=n_scored > 0)
    missing = np.divide(n_asked - n_scored, n_asked, out=np.full_like(sums, np.nan), where=n_asked > 0)
    return table, missing, [benchmark for benchmark, _ in columns]


def _paired(scores: _Floats, missing: _Floats, benchmarks: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Make a row of each question and judge of two lines.

    Args:
        scores: 2 x questions x judges, NaN where there is none.
        missing: The share of each that is missing, NaN where nobody asked.
        benchmarks: The benchmark of each question.
    """
    questions, judges = np.nonzero(~np.isnan(missing).all(axis=0))
    cells = {"score": scores, "share": missing}
    columns = {
        f"{name}_{side}": cells[name][line, questions, judges] for name in cells for line, side in enumerate("ab")
    }
    return {"benchmark": np.asarray(benchmarks)[questions], "question_id": questions, "judge": judges} | columns


def _sole_pair(paired: _Paired) -> "comparison.Difference | None":
    """Compare two lines by themselves, with the one test that a pair has everywhere; None without a common question."""
    import polars as pl

    from shaberi_dagster.statistics import comparison

    common = pl.DataFrame(paired, nan_to_null=True).drop_nulls(["score_a", "score_b"])
    questions = common.group_by("benchmark", "question_id", maintain_order=True)
    return comparison.compare(questions.agg(pl.mean("score_a", "score_b"))).rows[-1] if common.height else None


def still_shown(both: "_Paired | pl.DataFrame", is_better: bool, level: float, *, at_worst: bool) -> bool:
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
