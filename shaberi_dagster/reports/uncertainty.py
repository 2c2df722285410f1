"""What is read beside scores: uncertainty, ties, what judges have in common, and what is not finished.

NumPy, for ties, and SciPy, for the quantiles of intervals, are loaded when they are needed.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import duckdb

from shaberi_dagster.reports.figures import is_number
from shaberi_dagster.reports.reading import benchmarks_in, fetch, reported_scales
from shaberi_dagster.reports.scores import (
    OVERALL,
    JudgeMean,
    JudgePair,
    RunStatistic,
    ScoreRow,
    Tie,
    Unfinished,
    benchmark_order,
    grouped,
    mean_of,
)
from shaberi_dagster.statistics.intervals import Estimate, Interval, clustered_mean_interval, mean_of_estimates

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from shaberi_dagster.statistics.comparison import Difference

K = TypeVar("K")
FEWEST_CATEGORIES = 10
"""From how many categories on they are taken for a sample of categories."""
_FEWEST_COMPARED = 2
_UNEQUAL = 0.01
"""Level at which shares of missing scores differ."""
_UNEQUAL_OF_FEW = 0.15
"""The same where so few scores are missing that no p is below `_UNEQUAL`; two or more of one side alone always do."""


class ScoreSamples(NamedTuple):
    """The scores of one run on one benchmark by one judge, on the reported scale.

    Attributes:
        questions: The question of each, as a number.
        categories: The category of each, as a number; None where it has none.
        scores: As the null policy counts them.
        scale: The ends of the reported scale; None where that is not known.
        without_score: The questions of samples that were asked and count nothing, as numbers.
    """

    questions: Sequence[int]
    categories: Sequence[int | None]
    scores: Sequence[float]
    scale: tuple[float, float] | None
    without_score: Sequence[int] = ()

    @property
    def n_categories(self) -> int:
        """How many categories there are; they are a sample of categories only if they are many."""
        return len({one for one in self.categories if one is not None})

    def clusters(self, over: str) -> Sequence[int | None]:
        """What is independent: the questions, or the categories where there are ten or more."""
        return self.categories if over == "categories" and self.n_categories >= FEWEST_CATEGORIES else self.questions


SamplesByRow = Mapping[tuple[str, str, str], ScoreSamples]
"""By run id, judge and benchmark."""


def read_samples(
    catalog: duckdb.DuckDBPyConnection, rows: Sequence[ScoreRow], question_sets: Sequence[str]
) -> SamplesByRow:
    """The single scores that the rows' means are of.

    Args:
        catalog: Where to read.
        rows: Of one pipeline and null policy.
        question_sets: Of these sets' benchmarks only their questions.
    """
    found = fetch(
        catalog,
        "samples",
        run_ids=sorted({row.run_id for row in rows}),
        judges=sorted({row.judge for row in rows}),
        pipeline=rows[0].pipeline,
        question_sets=list(question_sets),
    )
    by_row = {(one["run_id"], one["judge"], one["benchmark"]): one for one in found}
    keys = {_key(row): row for row in rows if is_number(row.score)}
    scales = reported_scales(benchmarks_in(catalog))
    samples = {key: _counted(row, by_row[key], scales.get(row.benchmark)) for key, row in keys.items() if key in by_row}
    return {key: own for key, own in samples.items() if own.scores}


def _counted(row: ScoreRow, found: Mapping[str, Any], bounds: tuple[float, float] | None) -> ScoreSamples:
    scored = list(zip(found["questions"], found["categories"], found["scores"], strict=True))
    if row.null_policy == "zero" and bounds:
        # A planned sample without a row is a missing score as well; of which question it is does not matter.
        scored += [(-number, None, None) for number in range(1, row.n_planned - found["n_rows"] + 1)]
        scored = [(*where, bounds[0] if score is None else score) for *where, score in scored]
    kept = [one for one in scored if one[2] is not None]
    questions, categories, scores = zip(*kept, strict=True) if kept else ((), (), ())
    return ScoreSamples(questions, categories, scores, bounds, [one[0] for one in scored if one[2] is None])


def _key(row: ScoreRow) -> tuple[str, str, str]:
    return row.run_id, row.judge, row.benchmark


def with_interval(row: ScoreRow, samples: SamplesByRow, over: str) -> ScoreRow:
    """The row with the interval of its score, and how much wider it is if categories are a sample as well.

    Args:
        row: A score.
        samples: The single scores of all rows.
        over: questions or categories: samples of one are one cluster.
    """
    own = samples.get(_key(row))
    if own is None:
        return row
    narrow, wide = (
        clustered_mean_interval(own.scores, own.clusters(one), own.scale) for one in ("questions", "categories")
    )
    wider = None
    if narrow and wide and own.n_categories >= FEWEST_CATEGORIES:
        wider = (wide.interval.upper - wide.interval.lower) / (narrow.interval.upper - narrow.interval.lower)
    estimate = wide if over == "categories" else narrow
    return row._replace(over_questions=estimate, n_categories=own.n_categories, over_categories=wider)


def with_intervals_over_runs(
    statistics: Sequence[RunStatistic],
    samples: SamplesByRow,
    run_ids: Mapping[tuple[str, str], Sequence[str]],
    over: str,
) -> list[RunStatistic]:
    """Aggregates over runs with the interval over questions of all their samples.

    Args:
        statistics: The aggregates.
        samples: The runs' single scores.
        run_ids: The runs of each model and base tag.
        over: questions or categories.
    """
    done = []
    for (model, base_tag, judge), own in grouped(statistics, lambda one: (one.model, one.base_tag, one.judge)):
        estimates: dict[str, Estimate | None] = {}
        for benchmark in (one.benchmark for one in own if one.benchmark != OVERALL):
            keys = [(run_id, judge, benchmark) for run_id in run_ids[model, base_tag]]
            parts = [samples[key] for key in keys if key in samples]
            scores = [score for part in parts for score in part.scores]
            clusters = [cluster for part in parts for cluster in part.clusters(over)]
            estimates[benchmark] = clustered_mean_interval(scores, clusters, parts[0].scale if parts else None)
        known = [estimate for estimate in estimates.values() if estimate]
        if known and len(known) == len(estimates):
            estimates[OVERALL] = mean_of_estimates(known)
        done += [replace(one, over_questions=estimates.get(one.benchmark)) for one in own]
    return done


# --- ties ------------------------------------------------------------------------------------------------------------


def read_ties(rows: Sequence[ScoreRow], samples: SamplesByRow) -> dict[tuple[str, str, str], Tie]:
    """Which runs are not shown to differ from the best of their judge; by model, run tag and judge.

    Runs are compared if they were asked the same and the judge scored them with the same prompts, under the same
    settings of passes: other ones have no place in one ranking. Prompts that nobody recorded are the same in one tree.
    """
    runs = grouped((row for row in rows if _key(row) in samples), lambda row: (row.model, row.run_tag, row.judge))
    alike = grouped(runs, lambda run: (run[0][2], frozenset(map(_version, run[1]))))
    ties: dict[tuple[str, str, str], Tie] = {}
    for _, group in alike:
        if len(group) > 1:
            means = [fmean(row.score for row in own if is_number(row.score)) for _, own in group]
            ties |= ties_among([key for key, _ in group], means, [own for _, own in group], samples)
    return ties


def _version(row: ScoreRow) -> tuple[str, str | None, str | None]:
    return row.asked, row.judge_prompt, row.pipeline_hash


class JudgeScores(NamedTuple):
    """What a judge gave on a benchmark, each with its question, as a number; None where it gave no score."""

    benchmark: str
    judge: str
    questions: Sequence[int]
    scores: Sequence[float | None]


def ties_among(
    keys: Sequence[K], means: Sequence[float], runs: Sequence[Sequence[ScoreRow]], samples: SamplesByRow
) -> dict[K, Tie]:
    """Compare some lines with the best of them; none when there is nothing to compare.

    Args:
        keys: What to call each.
        means: The mean of each.
        runs: The rows of each; of several runs the mean of a judge's scores of a question counts.
        samples: The single scores of all rows.
    """
    own = ([(row, samples[_key(row)]) for row in rows if _key(row) in samples] for rows in runs)
    given = [
        [
            JudgeScores(
                row.benchmark,
                row.judge,
                [*one.questions, *one.without_score],
                [*one.scores, *([None] * len(one.without_score))],
            )
            for row, one in found
        ]
        for found in own
    ]
    return ties_between(keys, means, given)


def ties_between(keys: Sequence[K], means: Sequence[float], runs: Sequence[Sequence[JudgeScores]]) -> dict[K, Tie]:
    """Compare some lines with the best of them, by scores that are at hand.

    The best is the line with the highest mean that no other one is shown to be better than: a mean over all scores can
    be the highest because a harsh judge is missing.

    Args:
        keys: What to call each.
        means: The mean of each.
        runs: The scores of each; of several of a question and judge the mean counts.
    """
    import numpy as np  # noqa: PLC0415  (costs start-up time that single runs need not pay)

    from shaberi_dagster.statistics.power import ALPHA  # noqa: PLC0415
    from shaberi_dagster.statistics.ties import compare_pairs  # noqa: PLC0415

    columns: dict[tuple[str, int], int] = {}
    judges: dict[str, int] = {}
    blocks = [
        (
            index,
            [columns.setdefault((part.benchmark, question), len(columns)) for question in part.questions],
            judges.setdefault(part.judge, len(judges)),
            np.array(part.scores, dtype=np.float64),
        )
        for index, own in enumerate(runs)
        for part in own
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
    sole = _sole_pair(table, benchmarks) if len(runs) == _FEWEST_COMPARED else None
    if sole:
        different[:] = sole.verdict in {"better", "worse"}

    level = ALPHA if sole else 1 - pairs.confidence

    def why_withheld(best: int, index: int) -> str:
        pair, sign = [index, best], float(np.sign(pairs.differences[index, best]))
        both = ~np.isnan(missing[pair]).any(axis=0)
        return unequal_missing(
            *(np.where(both, missing[line], 0).sum(axis=1).tolist() for line in pair),
            n_scores=int(both.sum()),
            sides=("its", "the best's"),
            holds=(lambda at_worst: _holds(table[pair], missing[pair], benchmarks, sign, level, at_worst=at_worst))
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


def _sole_pair(scores: "npt.NDArray[np.float64]", benchmarks: Sequence[str]) -> "Difference | None":
    """Compare two lines by themselves, with the one test that a pair has everywhere; None without a common question.

    Args:
        scores: 2 x questions x judges, NaN where there is none.
        benchmarks: The benchmark of each question.
    """
    import numpy as np  # noqa: PLC0415
    import polars as pl  # noqa: PLC0415

    from shaberi_dagster.statistics.comparison import compare  # noqa: PLC0415

    both = ~np.isnan(scores).any(axis=0)
    there = np.any(both, axis=1)
    a, b = (np.where(both, own, 0.0).sum(axis=1)[there] / both.sum(axis=1)[there] for own in scores)
    names = np.asarray(benchmarks)[there].tolist()
    return compare(pl.DataFrame({"benchmark": names, "score_a": a, "score_b": b})).rows[-1] if names else None


def _holds(
    scores: "npt.NDArray[np.float64]",
    missing: "npt.NDArray[np.float64]",
    benchmarks: Sequence[str],
    sign: float,
    level: float,
    *,
    at_worst: bool,
) -> bool:
    """Return whether a difference is shown even if what a side lacks is bad for it.

    Args:
        scores: 2 x questions x judges, NaN where there is none.
        missing: The share of each that is missing, NaN where nobody asked.
        benchmarks: The benchmark of each question.
        sign: Of the difference, first - second.
        level: At which it is shown.
        at_worst: Missing scores are the worst for it that the judge gave on the benchmark; else a standard deviation
            from the mean of those that it gave this side there.
    """
    import numpy as np  # noqa: PLC0415

    names, filled = np.asarray(benchmarks), np.nan_to_num(scores)
    for benchmark in dict.fromkeys(benchmarks):
        own = names == benchmark
        given = scores[:, own]
        ends = [
            np.where(np.isnan(given), np.inf, given).min((0, 1)),
            np.where(np.isnan(given), -np.inf, given).max((0, 1)),
        ]
        for side, end in enumerate(ends if sign > 0 else ends[::-1]):
            share, bad = missing[side, own], end
            if not at_worst:
                n_given = (~np.isnan(given[side])).sum(0)
                mean = np.nansum(given[side], 0) / np.maximum(n_given, 1)
                spread = np.sqrt(np.nansum((given[side] - mean) ** 2, 0) / np.maximum(n_given, 1))
                further = mean + (spread if (sign > 0) == bool(side) else -spread)
                bad = np.where(n_given > 0, np.clip(further, *ends), end)
            filled[side, own] = np.where(share > 0, (1 - share) * filled[side, own] + share * bad, filled[side, own])
    filled[:, np.any(np.isnan(missing), axis=0) | np.all(missing == 1, axis=0)] = np.nan
    found = _sole_pair(filled, benchmarks)
    return found is not None and sign * found.difference > 0 and found.p_value <= level


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
    from shaberi_dagster.statistics.significance import sign_flip_test  # noqa: PLC0415  (NumPy)

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


# --- judges ----------------------------------------------------------------------------------------------------------


def with_leniency(
    catalog: duckdb.DuckDBPyConnection, rows: Sequence[ScoreRow]
) -> tuple[list[ScoreRow], dict[str, set[tuple[str, ...]]]]:
    """The rows with their judges' leniency.

    Returns:
        The rows, and for each benchmark the sets of judges within which adjusted scores compare.
    """
    run_ids = sorted({row.run_id for row in rows})
    choices = {"pipeline": rows[0].pipeline, "null_policy": rows[0].null_policy}
    found = {
        (one["run_id"], one["judge"], one["benchmark"]): one
        for one in fetch(catalog, "leniency", run_ids=run_ids, **choices)
    }
    connected: dict[str, set[tuple[str, ...]]] = {}
    for one in found.values():
        connected.setdefault(one["benchmark"], set()).add(tuple(one["connected_judges"]))
    leniency = {key: one["leniency"] for key, one in found.items()}
    return [row._replace(leniency=leniency.get(_key(row))) for row in rows], connected


def read_judge_means(catalog: duckdb.DuckDBPyConnection, rows: Sequence[ScoreRow]) -> list[JudgeMean]:
    """The runs' means over the judges that runs which were asked the same share, by benchmark and overall, best first.

    A run has no mean if it shares no judge, if its model has a run with more scores, or if two others have all its
    judges and more: it would shrink their comparison to its own part.
    """
    runs = grouped(rows, lambda row: (row.model, row.run_tag))
    cells = {run: {(row.judge, row.asked) for row in own if is_number(row.score)} for run, own in runs}
    whole = {run for run, own in cells.items() if sum(own < other for other in cells.values()) < _FEWEST_COMPARED}
    means: list[JudgeMean] = []
    for asked, group in grouped(runs, lambda run: _asked(run[1])):
        if len({(run, row.judge) for run, own in group for row in own}) == 1:
            continue  # nothing to take a mean of, or to compare
        own_runs = dict(group)
        compared = [run for run in own_runs if run in whole]
        found = (
            fetch(
                catalog,
                "judge_means",
                models=sorted({model for model, _ in compared}),
                run_tags=sorted({run_tag for _, run_tag in compared}),
                judges=sorted({judge for run in compared for judge, _ in cells[run]}),
                pipeline=rows[0].pipeline,
                null_policy=rows[0].null_policy,
            )
            if compared
            else []
        )
        with_mean = [one for one in found if (one["model"], one["run_tag"]) in compared]
        means += [
            JudgeMean(
                **one,
                adjusted_score=_adjusted(own_runs[one["model"], one["run_tag"]], one["question_sets"]),
                asked=asked,
            )
            for one in with_mean
        ]
        has_mean = {(one["model"], one["run_tag"]) for one in with_mean}
        others = [_without_mean(*run, own, asked) for run, own in group if run not in has_mean]
        means += sorted(others, key=lambda one: (one.adjusted_score is None, -(one.adjusted_score or 0)))
    return means


def _asked(rows: Sequence[ScoreRow]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.asked for row in sorted(rows, key=benchmark_order())))


def _without_mean(model: str, run_tag: str, rows: Sequence[ScoreRow], asked: tuple[str, ...]) -> JudgeMean:
    question_sets = sorted({row.question_set for row in rows})
    totals = {
        name: sum(getattr(row, name) for row in rows) for name in ("n_planned", "n_scored", "n_failed", "n_excluded")
    }
    adjusted = _adjusted(rows, question_sets)
    return JudgeMean(model, run_tag, OVERALL, question_sets, (), None, adjusted_score=adjusted, asked=asked, **totals)


def _adjusted(rows: Sequence[ScoreRow], question_sets: Sequence[str]) -> float | None:
    """The mean over these sets of the mean of the judges' adjusted scores."""
    by_set = {
        name: [row.adjusted_score for row in rows if row.question_set == name and row.adjusted_score is not None]
        for name in question_sets
    }
    return mean_of([mean_of(scores) for scores in by_set.values()])


def read_judge_pairs(catalog: duckdb.DuckDBPyConnection, judges: Sequence[str]) -> list[JudgePair]:
    """How far these judges agree on the answers of the lake that two of them scored."""
    return [JudgePair(**one) for one in fetch(catalog, "judge_pairs", judges=list(judges))]


def judge_remarks(
    rows: Sequence[ScoreRow], means: Sequence[JudgeMean], connected: Mapping[str, set[tuple[str, ...]]]
) -> list[str]:
    """What the means over judges leave out, and which adjusted scores do not compare."""
    compared = [one for one in means if one.benchmark != OVERALL and one.score is not None]
    shared = {(judge, *one.question_sets) for one in compared for judge in one.judges}
    missing = []
    for judge, own in grouped(rows, lambda row: row.judge):
        sets = {row.question_set for row in own}
        without = sorted(one for one in sets if (judge, one) not in shared)
        if without:
            missing.append(f"judge {judge}" + (f" on {', '.join(without)}" if len(without) < len(sets) else ""))
    left_out = sorted({f"{one.model} {one.run_tag}" for one in means if one.score is None})
    remarks = []
    if not shared:
        remarks.append("No judge scored all runs over the same questions with the same prompt: no mean over judges.")
    elif missing:
        remarks.append(f"Not in the mean over judges, as not all compared runs have it: {'; '.join(missing)}.")
    if shared and left_out:
        remarks.append(f"Not compared over judges, as other runs have all of theirs and more: {', '.join(left_out)}.")
    for benchmark, groups in sorted(connected.items()):
        if len(groups) > 1:
            names = " | ".join(sorted(", ".join(one) for one in groups))
            remarks.append(f"Adjusted scores of {benchmark} compare only within judges that share answers: {names}.")
    return remarks


# --- what is not the same, and what is not there ---------------------------------------------------------------------

_MOST_NAMES = 3
_UNKNOWN = "not recorded"
_KEPT_APART = "such runs are kept apart in means over judges and in ties"


def version_remarks(rows: Sequence[ScoreRow]) -> list[str]:
    """Judges that judged the shown runs with different prompts or settings, and passes that had different ones."""
    remarks = []
    for judge, own in grouped(rows, lambda row: row.judge):
        if prompts := _versions(own, "judge_prompt"):
            remarks.append(f"Judge {judge} judged with different prompts: {prompts}; {_KEPT_APART}.")
        elif settings := _versions(own, "judge_config_hash"):
            remarks.append(f"Judge {judge} judged with different settings: {settings}.")
    if passes := _versions(rows, "pipeline_hash"):
        remarks.append(f"The passes {rows[0].pipeline} had different settings or versions: {passes}; {_KEPT_APART}.")
    return remarks


def _versions(rows: Sequence[ScoreRow], name: str) -> str:
    """Where there are several: `tengu: one of model july, another of model august`."""
    known = [row for row in rows if is_number(row.score)]
    if len(set(map(attrgetter("benchmark", name), known))) == len({row.benchmark for row in known}):
        return ""
    found = []
    for benchmark, own in grouped(known, attrgetter("benchmark")):
        by_version = grouped(own, lambda row: getattr(row, name) or _UNKNOWN)
        if len(by_version) > 1:
            words = ("one" if number == 0 else "another" for number in range(len(by_version)))
            parts = (
                f"{f'one that is {version}' if version.startswith(_UNKNOWN) else word} of {_names(ones)}"
                for word, (version, ones) in zip(words, by_version, strict=True)
            )
            found.append(f"{benchmark}: {', '.join(parts)}")
    return "; ".join(found)


def _names(rows: Sequence[ScoreRow]) -> str:
    names = list(dict.fromkeys(f"{row.model} {row.run_tag}" for row in rows))
    more = [f"{len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else []
    return ", ".join([*names[:_MOST_NAMES], *more])


def read_unfinished(
    catalog: duckdb.DuckDBPyConnection, runs: Mapping[str, object], judges: Sequence[str]
) -> list[Unfinished]:
    """The benchmarks of some runs that are not complete, with what failed.

    Args:
        catalog: Where to read.
        runs: Which ones, as parameters of the statement.
        judges: Only these; none means all.
    """
    unfinished = fetch(catalog, "unfinished_runs", **runs)
    if not unfinished:
        return []
    failed = grouped(
        fetch(catalog, "failed_parts", run_ids=[run["run_id"] for run in unfinished], judges=list(judges) or None),
        lambda one: (one["run_id"], one["benchmark"]),
    )
    parts = dict(failed)
    found = []
    for run in unfinished:
        names = (run["model"], run["run_tag"])
        states = json.loads(run["status_by_benchmark"] or "{}") or {"": run["status"]}
        for benchmark, state in states.items():
            own = parts.get((run["run_id"], benchmark), [])
            details = [{name: one[name] for name in ("who", "n_planned", "n_failed")} for one in own]
            classes = [dict(sorted((one["classes"] or {}).items(), key=lambda item: -item[1])) for one in own]
            # A part of judges that are not asked for is not said.
            if state != "complete" and (own or not judges or state != "partial"):
                found += [
                    Unfinished(*names, benchmark, state, **detail, classes=ones)
                    for detail, ones in zip(details, classes, strict=True)
                ] or [Unfinished(*names, benchmark, state)]
    return found
