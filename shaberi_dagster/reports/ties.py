"""Ties: which lines are not shown to differ from the best."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from shaberi_dagster.reports.blocks import Row, ends_of
from shaberi_dagster.reports.rows import JudgeScores, cannot_tell
from shaberi_dagster.statistics.intervals import Interval, within
from shaberi_dagster.statistics.missing import still_shown, unequal_missing
from shaberi_dagster.statistics.power import ALPHA
from shaberi_dagster.statistics.ties import compare_pairs

if TYPE_CHECKING:
    from shaberi_dagster.statistics import comparison

_Floats = npt.NDArray[np.float64]
_Integers = npt.NDArray[np.int64]
_FEWEST_COMPARED = 2
NOT_COMPARED: Row = dict.fromkeys(
    (
        *("against_best", "p_value", "n_compared_runs", "n_common_questions", "difference", "difference_lower"),
        *("difference_upper", "difference_of_means", "why_withheld"),
    )
)
"""A line beside the best: `ties_between` says what its values mean; None where it was not compared."""


def ties_between(
    means: Sequence[float], runs: Sequence[Sequence[JudgeScores]], reach: float = math.inf
) -> dict[int, Row]:
    """Compare some lines with the best of them, by scores that are at hand.

    The best is the line with the highest mean that no other one is shown to be better than: a mean over all scores can
    be the highest because a harsh judge is missing.

    Args:
        means: The mean of each.
        runs: The scores of each; of several of a question and judge the mean counts.
        reach: The largest difference that the scales allow, within which intervals stay.

    Returns:
        Rows by the place of their line; none where nothing can be compared. against_best is `best`, `tied` (no
        difference from it is shown), `below` (it differs at level 0.05) or `withheld` (for the reason why_withheld).
        The difference is over n_common_questions, on which a judge scored both, with an interval that leaves
        out 0 exactly where p_value is at most 0.05: of two lines that of `shaberi compare`, of more Holm's adjusted
        one. difference_of_means is of the means, each over all that it has. Of the best these are None.
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

    order = sorted(range(len(runs)), key=lambda index: -means[index])
    best = next((index for index in order if not is_beaten(index)), order[0])
    ties: dict[int, Row] = {}
    for index in range(len(runs)):
        tie = {**NOT_COMPARED, "n_compared_runs": len(runs), "why_withheld": ""}
        if index == best:
            n_common = int((~np.isnan(table[best])).any(axis=1).sum())
            ties[index] = tie | {"against_best": "best", "n_common_questions": n_common, "difference_of_means": 0.0}
        elif not np.isnan(p := float(pairs.adjusted_p_values[best, index])):
            why = why_withheld(best, index)
            ends: Interval | None = within(pairs.interval(index, best), reach)
            difference = float(pairs.differences[index, best])
            if sole:  # first - second
                ends, difference, p = sole.interval, sole.difference, sole.p_value
                if index:
                    ends, difference = ends and Interval(-ends.upper, -ends.lower), 0.0 - difference
            ties[index] = tie | {
                "against_best": "withheld" if why else "below" if different[best, index] else "tied",
                "p_value": p,
                "n_common_questions": int(pairs.n_common[best, index]),
                "difference": difference,
                **ends_of(ends, "difference_"),
                "difference_of_means": means[index] - means[best],
                "why_withheld": why,
            }
    return ties if len(ties) > 1 else {}


def ties_at_both_ends(
    lower: Sequence[float],
    upper: Sequence[float],
    runs: Sequence[Sequence[JudgeScores]],
    scales: Mapping[str, tuple[float, float]],
) -> dict[int, Row]:
    """Compare some lines with the best of them; a verdict that does not hold at both ends of their scores is withheld.

    Args:
        lower: The mean of each, in which undecided answers are wrong.
        upper: The mean of each without them.
        runs: The scores of each.
        scales: Of the benchmarks.
    """
    asked = {part.benchmark for parts in runs for part in parts}
    reach = fmean(scales[name][1] - scales[name][0] for name in asked) if asked and asked <= scales.keys() else math.inf
    ties = ties_between(lower, runs, reach)
    if not ties or not any(any(part.undecided) for parts in runs for part in parts):
        return ties
    decided = ties_between(upper, [[part.decided for part in parts] for parts in runs], reach)
    best = next(runs[place] for place, tie in ties.items() if tie["against_best"] == "best")

    def at_both_ends(place: int, tie: Row) -> Row:
        if place in decided and _is_behind(tie) == _is_behind(decided[place]):
            return tie
        parts = [*runs[place], *best]
        why = cannot_tell(sum(sum(part.undecided) for part in parts), sum(len(part.scores) for part in parts))
        return {**tie, "against_best": "withheld", "why_withheld": why}

    return {place: at_both_ends(place, tie) for place, tie in ties.items()}


def _is_behind(tie: Row) -> bool | None:
    return None if tie["why_withheld"] else tie["against_best"] == "below"


def _tables(runs: Sequence[Sequence[JudgeScores]]) -> tuple[_Floats, _Floats, list[str]]:
    """Put single scores into tables of lines x questions x judges.

    Returns:
        The mean score, NaN without one; the share of samples that are missing, NaN where it was not asked; and
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
        scores: 2 x questions x judges, NaN without one.
        missing: The share of each that is missing, NaN where no one asked.
        benchmarks: The benchmark of each question.
    """
    questions, judges = np.nonzero(~np.isnan(missing).all(axis=0))
    cells = {"score": scores, "share": missing}
    columns = {
        f"{name}_{side}": cells[name][line, questions, judges] for name in cells for line, side in enumerate("ab")
    }
    return {"benchmark": np.asarray(benchmarks)[questions], "question_id": questions, "judge": judges} | columns


def _sole_pair(paired: Mapping[str, npt.NDArray[Any]]) -> "comparison.Difference | None":
    """Compare two lines by themselves, with the one test that a pair has everywhere; None without a common question."""
    import polars as pl

    from shaberi_dagster.statistics import comparison

    common = pl.DataFrame(paired, nan_to_null=True).drop_nulls(["score_a", "score_b"])
    questions = common.group_by("benchmark", "question_id", maintain_order=True)
    return comparison.compare(questions.agg(pl.mean("score_a", "score_b"))).rows[-1] if common.height else None
