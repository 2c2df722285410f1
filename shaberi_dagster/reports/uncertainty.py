"""Facts beside scores: uncertainty, ties, agreement of judges, and unfinished parts.

`ties.py`, which needs NumPy and polars, is loaded when there is something to compare.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

from shaberi_dagster.lake.statements import fetch, fetch_as
from shaberi_dagster.reports.audited import corrected
from shaberi_dagster.reports.figures import is_number
from shaberi_dagster.reports.linked import widened
from shaberi_dagster.reports.reading import Scales
from shaberi_dagster.reports.report import Row
from shaberi_dagster.reports.scores import (
    OVERALL,
    ScoreRow,
    Tie,
    benchmark_order,
    grouped,
    mean_of,
)
from shaberi_dagster.statistics.intervals import ClusterSums, Estimate, interval_of_sums, mean_of_estimates
from shaberi_dagster.util.lazy import lazy

if TYPE_CHECKING:  # NumPy and polars, which scores of a single run need not wait for
    from shaberi_dagster.reports import ties
else:
    ties = lazy("shaberi_dagster.reports.ties")

FEWEST_CATEGORIES = 10
"""From how many categories on they are taken for a sample of categories."""
_FEWEST_COMPARED = 2


class LineSums(NamedTuple):
    """A row of `line_sums.sql`: sums over the scores of one benchmark of a line, on the reported scale."""

    line: int
    benchmark: str
    mean: float
    n_values: int
    n_clusters: int
    squares: float
    least: float
    most: float
    n_categories: int
    by_judge: Sequence[Row] | None

    def estimate(self, scales: Scales) -> Estimate | None:
        """Return the mean with its interval."""
        sums = ClusterSums(self.mean, self.n_values, self.n_clusters, self.squares, self.least, self.most)
        return interval_of_sums(sums, scales.get(self.benchmark))


class SumsReader(NamedTuple):
    """A reader of what intervals and ties need of single scores; SQL makes the sums.

    Attributes:
        catalog: The public views.
        question_sets: Of these sets' benchmarks only their questions.
        scales: Scales of the benchmarks.
        over: questions or categories: samples of one are one cluster.
    """

    catalog: duckdb.DuckDBPyConnection
    question_sets: Sequence[str]
    scales: Scales
    over: str = "questions"

    def read(self, lines: Sequence[Sequence[ScoreRow]], *, with_questions: bool = False) -> list[dict[str, LineSums]]:
        """Read the sums of lines by benchmark, in the order of their rows.

        Args:
            lines: The scores of each line, all of one pipeline and null policy; their single scores are put together.
            with_questions: With the single scores of each judge.
        """
        cells = [(line, row) for line, rows in enumerate(lines) for row in rows if is_number(row.score)]
        if not cells:
            return [{} for _ in lines]
        columns = {"run_ids": "run_id", "judges": "judge", "benchmarks": "benchmark", "n_planned": "n_planned"}
        found = fetch_as(
            LineSums,
            self.catalog,
            "line_sums",
            lines=[line for line, _ in cells],
            **{name: [getattr(row, column) for _, row in cells] for name, column in columns.items()},
            minimums=[self.scales[row.benchmark][0] if row.benchmark in self.scales else None for _, row in cells],
            pipeline=cells[0][1].pipeline,
            null_policy=cells[0][1].null_policy,
            question_sets=list(self.question_sets),
            fewest_categories=FEWEST_CATEGORIES if self.over == "categories" else None,
            with_questions=with_questions,
        )
        by_cell = {(sums.line, sums.benchmark): sums for sums in found}
        names = [dict.fromkeys(row.benchmark for row in rows) for rows in lines]
        return [
            {benchmark: by_cell[line, benchmark] for benchmark in benchmarks if (line, benchmark) in by_cell}
            for line, benchmarks in enumerate(names)
        ]

    def estimates(self, rows: Sequence[ScoreRow], sums: Mapping[str, LineSums]) -> dict[str, Estimate | None]:
        """Return the estimate of each benchmark of a line, and the overall one: None when one is not known."""
        found = {
            row.benchmark: corrected(of_it.estimate(self.scales), row.audit) if of_it else None
            for row in rows
            for of_it in [sums.get(row.benchmark)]
        }
        known = [estimate for estimate in found.values() if estimate]
        return found | {OVERALL: mean_of_estimates(known) if known and len(known) == len(found) else None}


def with_intervals(reader: SumsReader, rows: Sequence[ScoreRow]) -> list[ScoreRow]:
    """Return rows with the interval of each score, and how much wider it is if categories are a sample as well."""
    scored = [row for row in rows if is_number(row.score)]
    by_question = _by_row(reader._replace(over="questions"), scored)
    several = [row for row in scored if (sums := by_question.get(_key(row))) and sums.n_categories >= FEWEST_CATEGORIES]
    by_category = _by_row(reader._replace(over="categories"), several)

    def with_interval(row: ScoreRow) -> ScoreRow:
        sums, sums_of_categories = by_question.get(_key(row)), by_category.get(_key(row))
        if sums is None:
            return row
        estimate, wider = widened(sums.estimate(reader.scales), row.link.error if row.link else 0.0), None
        wide = sums_of_categories and sums_of_categories.estimate(reader.scales)
        if estimate and wide:
            wider = (wide.interval.upper - wide.interval.lower) / (estimate.interval.upper - estimate.interval.lower)
            estimate = wide if reader.over == "categories" else estimate
        estimate = corrected(estimate, row.audit)
        return row._replace(over_questions=estimate, n_categories=sums.n_categories, over_categories=wider)

    return [with_interval(row) for row in rows]


def _by_row(reader: SumsReader, rows: Sequence[ScoreRow]) -> dict[tuple[str, str, str], LineSums]:
    found = zip(rows, reader.read([[row] for row in rows]), strict=True)
    return {_key(row): sums for row, by_benchmark in found for sums in by_benchmark.values()}


def _key(row: ScoreRow) -> tuple[str, str, str]:
    return row.run_id, row.judge, row.benchmark


# --- ties ------------------------------------------------------------------------------------------------------------


def read_ties(reader: SumsReader, rows: Sequence[ScoreRow]) -> dict[tuple[str, str, str], Tie]:
    """Compare runs with the best of their judge; by model, run tag and judge.

    Runs are compared if they were asked the same and the judge scored them with the same prompts, under the same
    settings of passes: other ones have no place in one ranking. Prompts that nobody recorded are the same in one tree.
    """
    runs = grouped((row for row in rows if is_number(row.score)), lambda row: (row.model, row.run_tag, row.judge))
    alike = grouped(runs, lambda run: (run[0][2], frozenset(map(_version, run[1]))))
    groups = [group for _, group in alike if len(group) > 1]
    found = iter(reader.read([of_run for group in groups for _, of_run in group], with_questions=True))
    compared: dict[tuple[str, str, str], Tie] = {}
    for group in groups:
        means = [fmean(row.score for row in of_run if is_number(row.score)) for _, of_run in group]
        scores = [judge_scores(next(found)) for _ in group]
        compared |= ties.ties_between([key for key, _ in group], means, scores)
    return compared


def judge_scores(sums: Mapping[str, LineSums]) -> "list[ties.JudgeScores]":
    """Return the single scores of a line, judge by judge."""
    return [
        ties.JudgeScores(of_benchmark.benchmark, **part)
        for of_benchmark in sums.values()
        for part in of_benchmark.by_judge or ()
    ]


def _version(row: ScoreRow) -> tuple[str, str | None, str | None]:
    return row.asked, row.judge_prompt, row.pipeline_hash


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
        (row["run_id"], row["judge"], row["benchmark"]): row
        for row in fetch(catalog, "leniency", run_ids=run_ids, **choices)
    }
    connected: dict[str, set[tuple[str, ...]]] = {}
    for row in found.values():
        connected.setdefault(row["benchmark"], set()).add(tuple(row["connected_judges"]))
    leniency = {key: row["leniency"] for key, row in found.items()}
    return [row._replace(leniency=leniency.get(_key(row))) for row in rows], connected


def read_judge_means(catalog: duckdb.DuckDBPyConnection, rows: Sequence[ScoreRow]) -> list[Row]:
    """Read the means over the judges that runs which were asked the same share, by benchmark and overall, best first.

    A run has no mean if it shares no judge, if its model has a run with more scores, or if two others have all its
    judges and more: it would shrink their comparison to its own part.
    """
    runs = grouped(rows, lambda row: (row.model, row.run_tag))
    cells = {run: {(row.judge, row.asked) for row in of_run if is_number(row.score)} for run, of_run in runs}
    n_runs = Counter(map(frozenset, cells.values()))
    n_with_more = {has: sum(n for other, n in n_runs.items() if has < other) for has in n_runs}
    whole = {run for run, has in cells.items() if n_with_more[frozenset(has)] < _FEWEST_COMPARED}
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
    for judge, of_judge in grouped(rows, lambda row: row.judge):
        if prompts := _versions(of_judge, "judge_prompt"):
            remarks.append(f"Judge {judge} judged with different prompts: {prompts}; {_KEPT_APART}.")
        elif settings := _versions(of_judge, "judge_config_hash"):
            remarks.append(f"Judge {judge} judged with different settings: {settings}.")
    if passes := _versions(rows, "pipeline_hash"):
        remarks.append(f"The passes {rows[0].pipeline} had different settings or versions: {passes}; {_KEPT_APART}.")
    return remarks


def _versions(rows: Sequence[ScoreRow], name: str) -> str:
    """Name the versions where there are several: `tengu: one of model july, another of model august`."""
    known = [row for row in rows if is_number(row.score)]
    if len(set(map(attrgetter("benchmark", name), known))) == len({row.benchmark for row in known}):
        return ""
    found = []
    for benchmark, of_benchmark in grouped(known, attrgetter("benchmark")):
        by_version = grouped(of_benchmark, lambda row: getattr(row, name) or _UNKNOWN)
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
