"""Who is best: one line for each model and base tag, ranked among those that were asked and judged alike."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, islice, repeat
from statistics import fmean
from typing import Any, NamedTuple

import duckdb

from shaberi_dagster.reports.figures import is_number
from shaberi_dagster.reports.reading import Scales, fetch_as
from shaberi_dagster.reports.sameness import differences, read_settings
from shaberi_dagster.reports.scores import ScoreRow, Tie, benchmark_order, grouped, is_apart
from shaberi_dagster.reports.uncertainty import JudgeScores, SamplesByRow, ties_among, ties_between
from shaberi_dagster.statistics.intervals import (
    ClusterSums,
    Estimate,
    clustered_mean_interval,
    interval_of_sums,
    mean_of_estimates,
)

_MOST_NAMES = 3
_Cell = tuple[str, str, str | None, str | None]
"""What was asked, who judged it, with which prompt, under which settings of passes."""


@dataclass(frozen=True)
class Standing:
    """The runs of one model and base tag.

    Attributes:
        model: The evaluated model.
        tag: The base tag of its runs; for a run that stands alone its own tag.
        n_runs: How many runs.
        rows: Their scores by the judges that count, equally many for each run, in the benchmarks' order.
        over_questions: The mean with its 95 % interval over questions; None when not known.
        tie: How it is beside the best; None when it was not compared.
    """

    model: str
    tag: str
    n_runs: int
    rows: tuple[ScoreRow, ...]
    over_questions: Estimate | None = None
    tie: Tie | None = None

    @cached_property
    def by_benchmark(self) -> Mapping[str, float]:
        """The mean over runs and judges of each benchmark, by what was asked, in the benchmarks' order."""
        return _means(self.rows, lambda row: row.asked)

    @cached_property
    def by_judge(self) -> Mapping[str, float]:
        """The mean over runs and benchmarks of each judge."""
        return {judge: fmean(_means(own, lambda row: row.asked).values()) for judge, own in self._judges}

    @property
    def mean(self) -> float:
        """The unweighted mean over benchmarks."""
        return fmean(self.by_benchmark.values())

    @property
    def n_planned(self) -> int:
        """Samples planned, of all runs and judges."""
        return sum(row.n_planned for row in self.rows)

    @property
    def n_scored(self) -> int:
        """Those with a score."""
        return sum(row.n_scored for row in self.rows)

    @property
    def n_failed(self) -> int:
        """Those that ended without one."""
        return sum(row.n_failed for row in self.rows)

    @property
    def n_excluded(self) -> int:
        """Those left out for a reason."""
        return sum(row.n_excluded for row in self.rows)

    @property
    def n_out_of_scale(self) -> int:
        """Scores outside of their scale, which count as they are."""
        return sum(row.n_out_of_scale for row in self.rows)

    @property
    def _judges(self) -> list[tuple[str, list[ScoreRow]]]:
        return sorted(grouped(self.rows, lambda row: row.judge))


@dataclass(frozen=True)
class Ranking:
    """Models that were asked the same and judged by the same, best first.

    Attributes:
        asked: What they were asked, benchmark by benchmark.
        judges: Over whose scores their means are.
        standings: One for each model and base tag.
    """

    asked: tuple[str, ...]
    judges: tuple[str, ...]
    standings: tuple[Standing, ...]

    @property
    def ranks(self) -> list[int]:
        """The place of each; 1 is shared by all of which no difference from the best is shown."""
        states = [one.tie.against_best if one.tie else None for one in self.standings]
        return [
            1 if state in {"best", "tied"} else place if state is None else max(place, 2)
            for place, state in enumerate(states, start=1)
        ]


def remarks_on(standings: Sequence[Standing]) -> list[str]:
    """Say on which lines there is no verdict, and where a difference from the best is not that of the two means."""
    compared = [(f"{one.model} {one.tag}", one.tie) for one in standings if one.tie]
    withheld = [f"No verdict on {name}: {tie.why}." for name, tie in compared if tie.why]
    rows = [row for one in standings if one.tie for row in one.rows if row.judge_prompt and not row.judge_prompt_hash]
    remarks = [
        f"Prompts of judge {row.judge} are {row.judge_prompt}." for row in {row.judge: row for row in rows}.values()
    ]
    remarks += withheld[:_MOST_NAMES]
    if len(withheld) > _MOST_NAMES:
        remarks.append(f"No verdict on {len(withheld) - _MOST_NAMES} more lines either, for the same reason.")
    apart = [
        f"{name} {tie.difference:+.2f} (means: {tie.of_means:+.2f})"
        for name, tie in compared
        if tie.difference is not None and is_apart(tie.difference, tie.of_means)
    ]
    if apart:
        more = f" and {len(apart) - _MOST_NAMES} more" if len(apart) > _MOST_NAMES else ""
        remarks.append(
            "Differences are over the questions and judges that both lines have, and not those of their means: "
            f"{', '.join(apart[:_MOST_NAMES])}{more}."
        )
    return remarks


@dataclass(frozen=True)
class NotRanked:
    """A run, or the runs of a base tag, with less than those that are ranked have.

    Attributes:
        model: The evaluated model.
        tag: Its tag.
        why: What it has, or what is missing.
        score: The mean of what it has; None without any score.
    """

    model: str
    tag: str
    why: str
    score: float | None


@dataclass(frozen=True)
class _Entry:
    """What is to be ranked: runs of one model that have the same, with their scores in the benchmarks' order."""

    model: str
    tag: str
    n_runs: int
    rows: tuple[ScoreRow, ...]
    cells: frozenset[_Cell]

    @cached_property
    def asked(self) -> tuple[str, ...]:
        return _asked(self.rows)

    def has_all(self, cells: frozenset[_Cell]) -> bool:
        """Whether these cells have a score for each benchmark that it was asked."""
        return {cell[0] for cell in cells} == set(self.asked)


def read_standings(
    catalog: duckdb.DuckDBPyConnection, rows: Sequence[ScoreRow], samples: SamplesByRow, over: str
) -> tuple[list[Ranking], list[NotRanked]]:
    """Everything that is ranked, those with most to compare first; and what is not, because others have more.

    Each model and base tag stands in one place. Of models that were asked the same, those are ranked together that
    share most judges (with the same prompts and passes): a run with fewer never takes judges off the others' means.

    Args:
        catalog: Where settings of runs are read.
        rows: The scores.
        samples: The single scores that intervals and ties are of; none for neither.
        over: questions or categories.
    """
    rankings: list[tuple[frozenset[_Cell], list[_Entry]]] = []
    unscored: list[_Entry] = []
    for _, group in grouped(_entries(catalog, rows), lambda entry: entry.asked):
        left: list[_Entry] = []
        for entry in group:
            (left if entry.has_all(entry.cells) else unscored).append(entry)
        while left:
            cells = _most_comparable(left)
            rankings.append((cells, [entry for entry in left if entry.cells >= cells]))
            left = [entry for entry in left if not entry.cells >= cells]
    rankings.sort(key=lambda one: len(one[0]) * len(one[1]), reverse=True)
    partial = [one for one in rankings if any(_is_part(one, other) for other in rankings)]
    ranked = [_ranking(cells, entries, samples, over) for cells, entries in rankings if (cells, entries) not in partial]
    missing = [_not_ranked(entry, _without_score(entry)) for entry in unscored]
    parts = [
        _not_ranked(entry, _less_than(cells, next(other for other, _ in rankings if _is_within(cells, other))))
        for cells, entries in partial
        for entry in entries
    ]
    return ranked, parts + missing


def with_intervals(
    catalog: duckdb.DuckDBPyConnection, standings: Sequence[Standing], question_sets: Sequence[str], scales: Scales
) -> list[Standing]:
    """Standings with their intervals over questions, of sums that SQL makes: of very many runs the quick way.

    The intervals are those that single scores give.

    Args:
        catalog: Where to read.
        standings: Of one pipeline and null policy.
        question_sets: Of these sets' benchmarks only their questions.
        scales: Of the benchmarks.
    """
    found = _read_sums(catalog, standings, question_sets, scales)
    return list(map(_with_interval, standings, found, repeat(scales)))


def with_ties(
    catalog: duckdb.DuckDBPyConnection,
    chosen: Sequence[tuple[Ranking, Sequence[Standing]]],
    question_sets: Sequence[str],
    scales: Scales,
) -> list[list[Standing]]:
    """Some lines of rankings with their intervals, and how they are beside the best of their ranking.

    Differences are adjusted over all pairs of the best and these lines.

    Args:
        catalog: Where to read.
        chosen: The lines of each ranking, in its order.
        question_sets: Of these sets' benchmarks only their questions.
        scales: Of the benchmarks.
    """
    compared = [
        [ranking.standings[0], *(one for one in lines if one is not ranking.standings[0])] for ranking, lines in chosen
    ]
    flat = [one for lines in compared for one in lines]
    found = iter(_read_sums(catalog, flat, question_sets, scales, with_questions=True))
    done = []
    for (_, lines), standings in zip(chosen, compared, strict=True):
        own = list(islice(found, len(standings)))
        scores = [[JudgeScores(one.benchmark, **part) for one in of.values() for part in one.by_judge] for of in own]
        ties = ties_between(range(len(own)), [one.mean for one in standings], scores) if len(own) > 1 else {}
        estimated = map(_with_interval, standings, own, repeat(scales))
        done.append([replace(one, tie=ties.get(place)) for place, one in enumerate(estimated)][-len(lines) :])
    return done


def with_intervals_in(
    catalog: duckdb.DuckDBPyConnection, rankings: Sequence[Ranking], question_sets: Sequence[str], scales: Scales
) -> list[Ranking]:
    """Rankings of very many runs, with the intervals of all their lines."""
    standings = [one for ranking in rankings for one in ranking.standings]
    lines = iter(with_intervals(catalog, standings, question_sets, scales))
    return [replace(ranking, standings=tuple(islice(lines, len(ranking.standings)))) for ranking in rankings]


class _Sums(NamedTuple):
    """A row of `sql/reports/standing_sums.sql`."""

    line: int
    benchmark: str
    mean: float
    n_values: int
    n_clusters: int
    squares: float
    least: float
    most: float
    by_judge: Sequence[Mapping[str, Any]]

    def estimate(self, scales: Scales) -> Estimate | None:
        sums = ClusterSums(self.mean, self.n_values, self.n_clusters, self.squares, self.least, self.most)
        return interval_of_sums(sums, scales.get(self.benchmark))


def _read_sums(
    catalog: duckdb.DuckDBPyConnection,
    standings: Sequence[Standing],
    question_sets: Sequence[str],
    scales: Scales,
    *,
    with_questions: bool = False,
) -> list[dict[str, _Sums]]:
    """By benchmark, for each standing."""
    cells = [(line, row) for line, one in enumerate(standings) for row in one.rows]
    if not cells:
        return []
    columns = {"run_ids": "run_id", "judges": "judge", "benchmarks": "benchmark", "n_planned": "n_planned"}
    found = fetch_as(
        _Sums,
        catalog,
        "standing_sums",
        lines=[line for line, _ in cells],
        **{name: [getattr(row, column) for _, row in cells] for name, column in columns.items()},
        minimums=[scales[row.benchmark][0] if row.benchmark in scales else None for _, row in cells],
        pipeline=cells[0][1].pipeline,
        null_policy=cells[0][1].null_policy,
        question_sets=list(question_sets),
        with_questions=with_questions,
    )
    by_line = dict(grouped(found, lambda sums: sums.line))
    return [{sums.benchmark: sums for sums in by_line.get(line, [])} for line in range(len(standings))]


def _with_interval(one: Standing, found: Mapping[str, _Sums], scales: Scales) -> Standing:
    estimates = [found[name].estimate(scales) if name in found else None for name in _benchmarks(one.rows)]
    return replace(one, over_questions=_mean_of(estimates))


# --- which runs are one entry ----------------------------------------------------------------------------------------


def _entries(catalog: duckdb.DuckDBPyConnection, rows: Sequence[ScoreRow]) -> list[_Entry]:
    # A run without a number is no part of the multi-run that was made under the same tag.
    tags = grouped(rows, lambda row: (row.model, row.base_tag or row.run_tag, row.run_number is None))
    several = [row for _, own in tags if len({row.run_id for row in own}) > 1 for row in own]
    settings = (
        read_settings(
            catalog,
            sorted({row.run_id for row in several}),
            {row.benchmark for row in several},
            {row.judge for row in several},
            several[0].pipeline,
        )
        if several
        else {}
    )
    in_order = benchmark_order()

    def entry(tag: str, own: Iterable[ScoreRow], n_runs: int) -> _Entry:
        ordered = tuple(sorted(own, key=in_order))
        return _Entry(ordered[0].model, tag, n_runs, ordered, _cells(ordered))

    entries = []
    for (_, base_tag, _), own in tags:
        runs = grouped(own, lambda row: row.run_tag)
        if len(runs) == 1:
            ((tag, of_run),) = runs
            entries.append(entry(tag, of_run, 1))
            continue
        alike = sorted(grouped(runs, lambda run: _cells(run[1])), key=lambda one: len(one[0]) * len(one[1]))
        *_, (_, fullest) = alike
        run_ids = {tag: [of_run[0].run_id] for tag, of_run in fullest}
        together = len(fullest) > 1 and not differences(settings, run_ids)
        if together:
            entries.append(entry(base_tag, [row for _, of_run in fullest for row in of_run], len(fullest)))
        alone = [run for run in runs if not (together and run in fullest)]
        entries += [entry(tag, of_run, 1) for tag, of_run in alone]
    return entries


def _cells(rows: Iterable[ScoreRow]) -> frozenset[_Cell]:
    return frozenset(_cell(row) for row in rows if is_number(row.score))


def _cell(row: ScoreRow) -> _Cell:
    return row.asked, row.judge, row.judge_prompt, row.pipeline_hash


# --- which entries compare -------------------------------------------------------------------------------------------


def _most_comparable(entries: Sequence[_Entry]) -> frozenset[_Cell]:
    """What as many entries as possible have as much as possible of."""
    own = list(dict.fromkeys(entry.cells for entry in entries))
    shared = (a & b for a, b in combinations(own, 2))
    usable = [cells for cells in dict.fromkeys([*own, *shared]) if entries[0].has_all(cells)]

    def compared(cells: frozenset[_Cell]) -> tuple[int, int, list[str]]:
        n = sum(entry.cells >= cells for entry in entries)
        return (n - 1) * len(cells), len(cells), sorted(map(str, cells))

    return max(usable, key=compared)


def _is_part(one: tuple[frozenset[_Cell], Sequence[_Entry]], other: tuple[frozenset[_Cell], Sequence[_Entry]]) -> bool:
    """Whether at least as many have all that these have, and more."""
    return len(other[1]) >= len(one[1]) and _is_within(one[0], other[0])


def _is_within(cells: frozenset[_Cell], other: frozenset[_Cell]) -> bool:
    """Whether all of some cells, or more questions of the same set, are among others."""
    whole = {(cell[0].partition(",")[0], *cell[1:]) for cell in other}
    return cells != other and all(cell in other or (cell[0].partition(",")[0], *cell[1:]) in whole for cell in cells)


def _less_than(cells: frozenset[_Cell], other: frozenset[_Cell]) -> str:
    """What somebody has, where others have more: `tengu@120 only, 1 of 4 judges`."""
    asked, more = ({cell[0] for cell in one} for one in (cells, other))
    judges, more_judges = ({cell[1] for cell in one} for one in (cells, other))
    said = [] if asked == more else [f"{', '.join(sorted(asked))} only"]
    if len(judges) < len(more_judges):
        said.append(f"{len(judges)} of {len(more_judges)} judges ({', '.join(sorted(judges))})")
    return ", ".join(said) or "not judged on all of it by all judges"


def _without_score(entry: _Entry) -> str:
    return f"no score for {', '.join(sorted(set(entry.asked) - {cell[0] for cell in entry.cells}))}"


def _not_ranked(entry: _Entry, why: str) -> NotRanked:
    means = _means(entry.rows, lambda row: row.asked)
    return NotRanked(entry.model, entry.tag, why, fmean(means.values()) if means else None)


# --- numbers ---------------------------------------------------------------------------------------------------------


def _ranking(cells: frozenset[_Cell], entries: Sequence[_Entry], samples: SamplesByRow, over: str) -> Ranking:
    counted = {(entry.model, entry.tag): tuple(row for row in entry.rows if _cell(row) in cells) for entry in entries}
    standings = [
        Standing(*key, entry.n_runs, rows, _estimate(rows, samples, over))
        for entry, (key, rows) in zip(entries, counted.items(), strict=True)
    ]
    standings.sort(key=lambda one: (-one.mean, one.model, one.tag))
    if samples and len(standings) > 1:
        means = [one.mean for one in standings]
        ties = ties_among(range(len(standings)), means, [one.rows for one in standings], samples)
        standings = [replace(one, tie=ties.get(place)) for place, one in enumerate(standings)]
    judges = tuple(sorted({cell[1] for cell in cells}))
    return Ranking(_asked(standings[0].rows), judges, tuple(standings))


def _estimate(rows: Sequence[ScoreRow], samples: SamplesByRow, over: str) -> Estimate | None:
    """The mean over benchmarks with its interval: all samples of a question, of all runs and judges, are as one."""
    estimates = []
    for benchmark, own in grouped(rows, lambda row: row.benchmark):
        if len(own) == 1:
            estimates.append(own[0].over_questions)
            continue
        parts = [samples.get((row.run_id, row.judge, benchmark)) for row in own]
        known = [part for part in parts if part]
        scores = [score for part in known for score in part.scores]
        clusters = [cluster for part in known for cluster in part.clusters(over)]
        estimates.append(clustered_mean_interval(scores, clusters, known[0].scale if known else None))
    return _mean_of(estimates)


def _mean_of(estimates: Sequence[Estimate | None]) -> Estimate | None:
    """The mean over benchmarks; None when one is not known."""
    known = [estimate for estimate in estimates if estimate]
    return mean_of_estimates(known) if known and len(known) == len(estimates) else None


def _benchmarks(rows: Iterable[ScoreRow]) -> list[str]:
    return list(dict.fromkeys(row.benchmark for row in rows))


def _means(rows: Iterable[ScoreRow], key: Callable[[ScoreRow], str]) -> dict[str, float]:
    scored = [(row, row.score) for row in rows if is_number(row.score)]
    return {name: fmean(score for _, score in own) for name, own in grouped(scored, lambda one: key(one[0]))}


def _asked(rows: Iterable[ScoreRow]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.asked for row in rows))
