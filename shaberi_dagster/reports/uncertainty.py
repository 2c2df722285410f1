"""What is read beside scores: uncertainty, ties, what judges have in common, and what is not finished.

`ties.py`, which needs NumPy and polars, is loaded when there is something to compare.
"""

import json
from collections.abc import Mapping, Sequence
from operator import attrgetter
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import duckdb

from shaberi_dagster.lake.statements import fetch
from shaberi_dagster.reports.figures import is_number
from shaberi_dagster.reports.reading import benchmarks_in, reported_scales
from shaberi_dagster.reports.report import Row
from shaberi_dagster.reports.scores import (
    OVERALL,
    ScoreRow,
    Tie,
    benchmark_order,
    grouped,
    interval_columns,
    mean_of,
)
from shaberi_dagster.statistics.intervals import Estimate, clustered_mean_interval, mean_of_estimates
from shaberi_dagster.util.lazy import lazy

if TYPE_CHECKING:  # NumPy and polars, which scores of a single run need not wait for
    from shaberi_dagster.reports import ties
else:
    ties = lazy("shaberi_dagster.reports.ties")

K = TypeVar("K")
FEWEST_CATEGORIES = 10
"""From how many categories on they are taken for a sample of categories."""
_FEWEST_COMPARED = 2


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
    statistics: Sequence[Row],
    samples: SamplesByRow,
    run_ids: Mapping[tuple[str, str], Sequence[str]],
    over: str,
) -> list[Row]:
    """Add the interval over questions of all their samples to aggregates over runs.

    Args:
        statistics: The aggregates.
        samples: The runs' single scores.
        run_ids: The runs of each model and base tag.
        over: questions or categories.
    """
    done: list[Row] = []
    for (model, base_tag, judge), rows in grouped(
        statistics, lambda row: (row["model"], row["base_tag"], row["judge"])
    ):
        estimates: dict[str, Estimate | None] = {}
        for benchmark in (row["benchmark"] for row in rows if row["benchmark"] != OVERALL):
            keys = [(run_id, judge, benchmark) for run_id in run_ids[model, base_tag]]
            parts = [samples[key] for key in keys if key in samples]
            scores = [score for part in parts for score in part.scores]
            clusters = [cluster for part in parts for cluster in part.clusters(over)]
            estimates[benchmark] = clustered_mean_interval(scores, clusters, parts[0].scale if parts else None)
        known = [estimate for estimate in estimates.values() if estimate]
        if known and len(known) == len(estimates):
            estimates[OVERALL] = mean_of_estimates(known)
        done += [{**row, **interval_columns(estimates.get(row["benchmark"]))} for row in rows]
    return done


# --- ties ------------------------------------------------------------------------------------------------------------


def read_ties(rows: Sequence[ScoreRow], samples: SamplesByRow) -> dict[tuple[str, str, str], Tie]:
    """Which runs are not shown to differ from the best of their judge; by model, run tag and judge.

    Runs are compared if they were asked the same and the judge scored them with the same prompts, under the same
    settings of passes: other ones have no place in one ranking. Prompts that nobody recorded are the same in one tree.
    """
    runs = grouped((row for row in rows if _key(row) in samples), lambda row: (row.model, row.run_tag, row.judge))
    alike = grouped(runs, lambda run: (run[0][2], frozenset(map(_version, run[1]))))
    found: dict[tuple[str, str, str], Tie] = {}
    for _, group in alike:
        if len(group) > 1:
            means = [fmean(row.score for row in of_run if is_number(row.score)) for _, of_run in group]
            found |= ties_among([key for key, _ in group], means, [of_run for _, of_run in group], samples)
    return found


def _version(row: ScoreRow) -> tuple[str, str | None, str | None]:
    return row.asked, row.judge_prompt, row.pipeline_hash


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
            ties.JudgeScores(
                row.benchmark,
                row.judge,
                [*one.questions, *one.without_score],
                [*one.scores, *([None] * len(one.without_score))],
            )
            for row, one in found
        ]
        for found in own
    ]
    return ties.ties_between(keys, means, given)


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


def read_judge_means(catalog: duckdb.DuckDBPyConnection, rows: Sequence[ScoreRow]) -> list[Row]:
    """Read the means over the judges that runs which were asked the same share, by benchmark and overall, best first.

    A run has no mean if it shares no judge, if its model has a run with more scores, or if two others have all its
    judges and more: it would shrink their comparison to its own part.
    """
    runs = grouped(rows, lambda row: (row.model, row.run_tag))
    cells = {run: {(row.judge, row.asked) for row in of_run if is_number(row.score)} for run, of_run in runs}
    whole = {run for run, has in cells.items() if sum(has < other for other in cells.values()) < _FEWEST_COMPARED}
    means: list[Row] = []
    for asked, group in grouped(runs, lambda run: _asked(run[1])):
        if len({(run, row.judge) for run, of_run in group for row in of_run}) == 1:
            continue  # nothing to take a mean of, or to compare
        rows_of = dict(group)
        compared = [run for run in rows_of if run in whole]
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
        with_mean = [mean for mean in found if (mean["model"], mean["run_tag"]) in compared]
        has_mean = {(mean["model"], mean["run_tag"]) for mean in with_mean}
        others = [_without_mean(*run, of_run) for run, of_run in group if run not in has_mean]
        for mean in [*with_mean, *others]:
            adjusted = _adjusted(rows_of[mean["model"], mean["run_tag"]], mean["question_sets"])
            mean.update(adjusted_score=adjusted, asked=asked)
        means += with_mean
        means += sorted(others, key=lambda mean: (mean["adjusted_score"] is None, -(mean["adjusted_score"] or 0)))
    return means


def _asked(rows: Sequence[ScoreRow]) -> tuple[str, ...]:
    order = benchmark_order()
    return tuple(dict.fromkeys(row.asked for row in sorted(rows, key=lambda row: order(row.benchmark))))


def _without_mean(model: str, run_tag: str, rows: Sequence[ScoreRow]) -> dict[str, Any]:
    counts = ("n_planned", "n_scored", "n_failed", "n_excluded")
    return {
        "model": model,
        "run_tag": run_tag,
        "benchmark": OVERALL,
        "question_sets": sorted({row.question_set for row in rows}),
        "judges": [],
        "score": None,
        **{name: sum(getattr(row, name) for row in rows) for name in counts},
    }


def _adjusted(rows: Sequence[ScoreRow], question_sets: Sequence[str]) -> float | None:
    """The mean over these sets of the mean of the judges' adjusted scores."""
    by_set = {
        name: [row.adjusted_score for row in rows if row.question_set == name and row.adjusted_score is not None]
        for name in question_sets
    }
    return mean_of([mean_of(scores) for scores in by_set.values()])


def judge_remarks(
    rows: Sequence[ScoreRow], means: Sequence[Row], connected: Mapping[str, set[tuple[str, ...]]]
) -> list[str]:
    """Say what the means over judges leave out, and which adjusted scores do not compare."""
    compared = [mean for mean in means if mean["benchmark"] != OVERALL and mean["score"] is not None]
    shared = {(judge, *mean["question_sets"]) for mean in compared for judge in mean["judges"]}
    missing = []
    for judge, of_judge in grouped(rows, lambda row: row.judge):
        sets = {row.question_set for row in of_judge}
        without = sorted(name for name in sets if (judge, name) not in shared)
        if without:
            missing.append(f"judge {judge}" + (f" on {', '.join(without)}" if len(without) < len(sets) else ""))
    left_out = sorted({f"{mean['model']} {mean['run_tag']}" for mean in means if mean["score"] is None})
    remarks = []
    if not shared:
        remarks.append("No judge scored all runs over the same questions with the same prompt: no mean over judges.")
    elif missing:
        remarks.append(f"Not in the mean over judges, as not all compared runs have it: {'; '.join(missing)}.")
    if shared and left_out:
        remarks.append(f"Not compared over judges, as other runs have all of theirs and more: {', '.join(left_out)}.")
    for benchmark, groups in sorted(connected.items()):
        if len(groups) > 1:
            names = " | ".join(sorted(", ".join(judges) for judges in groups))
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


def read_unfinished(catalog: duckdb.DuckDBPyConnection, runs: Mapping[str, object], judges: Sequence[str]) -> list[Row]:
    """Read the benchmarks of some runs that are not complete, with their failures.

    Args:
        catalog: The public views.
        runs: The runs, as parameters of the statement.
        judges: Only these; none means all.
    """
    unfinished = fetch(catalog, "unfinished_runs", **runs)
    if not unfinished:
        return []
    run_ids = [run["run_id"] for run in unfinished]
    failed = fetch(catalog, "failed_parts", run_ids=run_ids, judges=list(judges) or None)
    parts = dict(grouped(failed, lambda part: (part["run_id"], part["benchmark"])))
    found: list[Row] = []
    for run in unfinished:
        states = json.loads(run["status_by_benchmark"] or "{}") or {"": run["status"]}
        for benchmark, state in states.items():
            of_it = parts.get((run["run_id"], benchmark), [])
            # A part of judges that are not asked for is not said.
            if state == "complete" or (judges and not of_it and state == "partial"):
                continue
            place = {"model": run["model"], "run_tag": run["run_tag"], "benchmark": benchmark, "state": state}
            for part in of_it or [_NOTHING_THERE]:
                classes = dict(sorted((part["classes"] or {}).items(), key=lambda item: -item[1]))
                found.append(place | {name: part[name] for name in _NOTHING_THERE} | {"classes": classes})
    return found


_NOTHING_THERE: dict[str, Any] = {"who": "", "n_planned": 0, "n_failed": 0, "classes": {}}
