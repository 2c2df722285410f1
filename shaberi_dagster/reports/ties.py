"""Ties: which lines are not shown to differ from the best, and the doubt that missing scores cast on a difference."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from shaberi_dagster.reports.scores import Tie
from shaberi_dagster.statistics.intervals import Interval
from shaberi_dagster.statistics.power import ALPHA
from shaberi_dagster.statistics.significance import is_shown_by_sign_flips, sign_flip_test
from shaberi_dagster.statistics.ties import compare_pairs
from shaberi_dagster.util.lazy import lazily

with lazily(__name__):  # only where two lines are compared by themselves
    import polars as pl

    from shaberi_dagster.statistics import comparison

K = TypeVar("K")
_FEWEST_COMPARED = 2
_UNEQUAL = 0.01
"""Level at which shares of missing scores differ."""
_UNEQUAL_OF_FEW = 0.15
"""The same where so few scores are missing that no p is below `_UNEQUAL`; two or more of one side alone always do."""


class JudgeScores(NamedTuple):
    """The scores of a judge on a benchmark, each with its question as a number; None where it gave no score."""

    benchmark: str
    judge: str
    questions: Sequence[int]
    scores: Sequence[float | None]


def ties_between(keys: Sequence[K], means: Sequence[float], runs: Sequence[Sequence[JudgeScores]]) -> dict[K, Tie]:
    """Compare some lines with the best of them, by scores that are at hand.

    The best is the line with the highest mean that no other one is shown to be better than: a mean over all scores can
    be the highest because a harsh judge is missing.

    Args:
        keys: What to call each.
        means: The mean of each.
        runs: The scores of each; of several of a question and judge the mean counts.
    """
    columns: dict[tuple[str, int], int] = {}
    judges: dict[str, int] = {}
    blocks = [
        (
            index,
            [columns.setdefault((part.benchmark, question), len(columns)) for question in part.questions],
            judges.setdefault(part.judge, len(judges)),
            np.array(part.scores, dtype=np.float64),
        )
        for index, parts in enumerate(runs)
        for part in parts
    ]
    sums, n_scored, n_asked = np.zeros((3, len(runs), len(columns), len(judges)))
    for index, places, judge, scores in blocks:
        where, there = np.array(places, dtype=np.int64), ~np.isnan(scores)
        np.add.at(sums[index, :, judge], where[there], scores[there])
        np.add.at(n_scored[index, :, judge], where[there], 1)
        np.add.at(n_asked[index, :, judge], where, 1)
    table = np.divide(sums, n_scored, out=np.full_like(sums, np.nan), where=n_scored > 0)
    missing = np.divide(n_asked - n_scored, n_asked, out=np.full_like(sums, np.nan), where=n_asked > 0)
    benchmarks = [benchmark for benchmark, _ in columns]
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
            ties[key] = Tie("best", len(keys), int((n_scored[best].sum(axis=1) > 0).sum()), None)
        elif not np.isnan(p := float(pairs.adjusted_p_values[best, index])):
            why = why_withheld(best, index)
            tie = Tie(
                "withheld" if why else "below" if different[best, index] else "tied",
                len(keys),
                int(pairs.n_common[best, index]),
                p,
                float(pairs.differences[index, best]),
                pairs.interval(index, best),
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


def _paired(
    scores: npt.NDArray[np.float64], missing: npt.NDArray[np.float64], benchmarks: Sequence[str]
) -> "pl.DataFrame":
    """Make a row of each question and judge of two lines, as `still_shown` needs them.

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
    names = {"benchmark": np.asarray(benchmarks)[questions].tolist(), "question_id": questions, "judge": judges}
    return pl.DataFrame(names | columns, nan_to_null=True)


def _sole_pair(pair: "pl.DataFrame") -> "comparison.Difference | None":
    """Compare two lines by themselves, with the one test that a pair has everywhere; None without a common question."""
    common = pair.drop_nulls(["score_a", "score_b"])
    return comparison.compare(_by_question(common)).rows[-1] if common.height else None


def _by_question(scored: "pl.DataFrame") -> "pl.DataFrame":
    cluster = [pl.first("cluster")] if "cluster" in scored.columns else []
    questions = scored.group_by("benchmark", "question_id", maintain_order=True)
    return questions.agg(pl.mean("score_a", "score_b"), *cluster)


def still_shown(both: "pl.DataFrame", is_better: bool, level: float, *, at_worst: bool) -> bool:
    """Return whether a difference is shown even if missing scores are bad for it.

    Args:
        both: A row of each question and judge: benchmark, question_id, judge, score_a and score_b (null: there is
            none), share_a and share_b of its samples that are missing (null: it was not asked), and cluster if that is
            not the question.
        is_better: Whether A is better, as scores that are there show it.
        level: The level at which it is shown.
        at_worst: Missing scores are the worst for it that the judge gave on the benchmark; else a standard deviation
            from the mean of those that it gave this side there.
    """
    seen = [f(f"score_{side}").over("benchmark", "judge") for f in (pl.min, pl.max) for side in "ab"]
    ends = pl.min_horizontal(seen[:2]), pl.max_horizontal(seen[2:])
    filled = []
    for side, end in zip("ab", ends if is_better else ends[::-1], strict=True):
        score, share = pl.col(f"score_{side}"), pl.col(f"share_{side}")
        spread = score.std(ddof=0) if is_better == (side == "b") else -score.std(ddof=0)
        bad = end if at_worst else (score.mean() + spread).over("benchmark", "judge").clip(*ends).fill_null(end)
        filled.append((score.fill_null(0) * (1 - share) + bad * share).alias(f"score_{side}"))
    is_known = pl.any_horizontal(pl.col("score_a", "score_b").is_not_null())
    known = both.filter(is_known).with_columns(filled).drop_nulls(["share_a", "share_b"])
    questions = _by_question(known).with_columns(difference=pl.col("score_a") - pl.col("score_b"))
    questions = questions.drop_nulls("difference")
    differences, benchmarks = questions["difference"].to_list(), questions["benchmark"].to_list()
    clusters = questions["cluster"].to_list() if "cluster" in questions.columns else None
    mean = fmean(questions.group_by("benchmark").agg(pl.mean("difference"))["difference"].to_list())
    return (mean > 0) == is_better and is_shown_by_sign_flips(differences, level, benchmarks, clusters)


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
    p = sign_flip_test(differences).p_value if differences else 1.0
    least = 2.0 ** (1 - len(differences))
    are_few = least >= _UNEQUAL and len(differences) > 1 and p <= max(least, _UNEQUAL_OF_FEW) and holds
    if not (p < _UNEQUAL or are_few) or (holds and holds(p < _UNEQUAL)):
        return ""
    shares = (100 * sum(missing) / n_scores for missing in (missing_a, missing_b))
    said = " and ".join(f"{share:.1f} % of {side}" for share, side in zip(shares, sides, strict=True))
    chance = f"p < {_UNEQUAL}" if p < _UNEQUAL else "too few to tell if by chance"
    return f"{said} {noun} are missing ({chance}): those that both have may not stand for the rest"
