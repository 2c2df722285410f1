"""Rankings: one line for each model and base tag, among those that were asked and judged alike."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from statistics import fmean
from typing import Any

import duckdb

from shaberi_dagster.benchmarks.registry import RULE
from shaberi_dagster.reports.audited import unaudited_sentence
from shaberi_dagster.reports.figures import is_number, signed
from shaberi_dagster.reports.linked import across, widened
from shaberi_dagster.reports.report import Row
from shaberi_dagster.reports.score_settings import differences, read_settings
from shaberi_dagster.reports.scores import (
    OVERALL,
    Counts,
    JudgeScores,
    RowLink,
    ScoreRow,
    Tie,
    benchmark_order,
    grouped,
    interval_columns,
    is_apart,
    undecided_parts,
)
from shaberi_dagster.reports.single_scores import SingleScores
from shaberi_dagster.reports.undecided import undecided_sentences
from shaberi_dagster.statistics.intervals import Estimate
from shaberi_dagster.util.identity import NUMBERED

_COUNTS = ("n_planned", "n_scored", "n_failed", "n_undecided", "n_excluded", "n_out_of_scale")
_MOST_NAMES = 3
_OF_OTHERS, _FEWEST_LINES = 6, 3
_Cell = tuple[str, str, str | None, str | None]
"""Key of comparable scores: questions, judge, judge's prompt, settings of passes."""


@dataclass(frozen=True)
class Standing(Counts):
    """The runs of one model and base tag.

    Attributes:
        model: The evaluated model.
        tag: The base tag of its runs; for a run that stands alone its own tag.
        n_runs: How many runs.
        rows: Their scores by the judges that count, equally many for each run, in the benchmarks' order.
        over_questions: The mean with its 95 % interval over questions; None when not known.
        estimates: The same of each benchmark.
        tie: How it is beside the best; None when it was not compared.
    """

    model: str
    tag: str
    n_runs: int
    rows: tuple[ScoreRow, ...]
    over_questions: Estimate | None = None
    estimates: Mapping[str, Estimate | None] = field(default_factory=dict)
    tie: Tie | None = None

    @cached_property
    def by_benchmark(self) -> Mapping[str, float]:
        """The mean over runs and judges of each benchmark, by what was asked, in the benchmarks' order."""
        return _means(self.rows, lambda row: row.asked)

    @cached_property
    def by_benchmark_upper(self) -> Mapping[str, float]:
        """The same of the upper ends."""
        return _means(self.rows, lambda row: row.asked, "upper")

    @cached_property
    def by_judge(self) -> Mapping[str, float]:
        """The mean over runs and benchmarks of each judge."""
        return self.by_judge_at("score")

    def by_judge_at(self, end: str) -> dict[str, float]:
        """The same of one end of scores: `score` or `upper`."""
        return {judge: fmean(_means(of_judge, lambda row: row.asked, end).values()) for judge, of_judge in self._judges}

    @property
    def mean(self) -> float:
        """The unweighted mean over benchmarks."""
        return fmean(self.by_benchmark.values())

    @property
    def upper(self) -> float:
        """The same of the upper ends."""
        return fmean(self.by_benchmark_upper.values())

    @property
    def open_benchmarks(self) -> list[str]:
        """What it was asked of which a rule that cannot say wrong left answers undecided."""
        return sorted({row.asked for row in self.rows if row.is_open})

    @property
    def is_first(self) -> bool:
        """Whether it is the best, or no difference from the best is shown."""
        return self.tie is not None and self.tie.against_best in {"best", "tied"}

    def rank(self, place: int) -> int | None:
        """Return the rank of a line by its place from 1; the first one where no difference from the best is shown."""
        if self.tie is None:
            return place
        return 1 if self.is_first else None if self.tie.why else max(place, 2)

    @property
    def _judges(self) -> list[tuple[str, list[ScoreRow]]]:
        return sorted(grouped(self.rows, lambda row: row.ranked_judge))

    @property
    def link(self) -> RowLink | None:
        """The link by which it stands among imported scores."""
        return self.rows[0].link


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
    def ranks(self) -> list[int | None]:
        """The place of each; 1 is shared by all of which no difference from the best is shown.

        None: there is no verdict, or lines would stand in another order at the upper ends of their means.
        """
        lines = self.standings
        at_upper_ends = sorted(range(len(lines)), key=lambda place: (not lines[place].is_first, -lines[place].upper))
        return [
            line.rank(place + 1) if line.is_first or at_upper_ends[place] == place else None
            for place, line in enumerate(lines)
        ]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The standings with their ranks, as plain data."""
        return [
            {"rank": rank}
            | {name: getattr(line, name) for name in ("model", "tag", "n_runs", "mean")}
            | {"mean_upper": line.upper}
            | interval_columns(line.over_questions)
            | _tie_columns(line.tie)
            | {"by_benchmark": dict(line.by_benchmark), "by_benchmark_upper": dict(line.by_benchmark_upper)}
            | {"open_benchmarks": line.open_benchmarks}
            | {
                "by_judge": dict(line.by_judge),
                "by_judge_upper": line.by_judge_at("upper"),
                "share_undecided": line.n_undecided / max(line.n_planned, 1),
            }
            | {name: getattr(line, name) for name in _COUNTS}
            for rank, line in zip(self.ranks, self.standings, strict=True)
        ]


def _tie_columns(tie: Tie | None) -> dict[str, Any]:
    """Return the columns of a comparison with the best: the verdict, and the difference over what both have."""
    return {
        "against_best": tie and tie.against_best,
        "p_value": tie and tie.p_value,
        "n_compared_runs": tie and tie.n_runs,
        "n_common_questions": tie and tie.n_common,
        "difference": tie and tie.difference,
        "difference_lower": tie and tie.interval and tie.interval.lower,
        "difference_upper": tie and tie.interval and tie.interval.upper,
        "difference_of_means": tie and tie.of_means,
        "why_withheld": tie and tie.why,
    }


def remarks_on(standings: Sequence[Standing]) -> list[str]:
    """Say which lines have no verdict, whose difference from the best is not that of means, and what audits found."""
    compared = [(f"{standing.model} {standing.tag}", standing.tie) for standing in standings if standing.tie]
    withheld = [f"No verdict on {name}: {tie.why}." for name, tie in compared if tie.why]
    every = [row for standing in standings for row in standing.rows]
    rows = [
        row
        for standing in standings
        if standing.tie
        for row in standing.rows
        if row.judge_prompt and not row.judge_prompt_hash
    ]
    remarks = [
        f"Prompts of judge {row.judge} are {row.judge_prompt}." for row in {row.judge: row for row in rows}.values()
    ]
    remarks += [
        f"{standing.model} {standing.tag} was judged by {standing.rows[0].judge}, which is linked with {link.judge}: "
        f"its offset of {signed(link.mean_offset)} is left out where it is compared with the best."
        for standing in standings
        if (link := standing.link)
    ]
    graded = [row for row in every if row.judge.startswith(RULE)]
    remarks += dict.fromkeys(f"{row.audit.sentence}; intervals allow for it." for row in graded if row.audit)
    if unknown := sorted({row.benchmark for row in graded} - {row.benchmark for row in graded if row.audit}):
        remarks.append(f"{unaudited_sentence(unknown)}.")
    remarks += [*undecided_sentences(undecided_parts(every)), *withheld[:_MOST_NAMES]]
    if len(withheld) > _MOST_NAMES:
        remarks.append(f"No verdict on {len(withheld) - _MOST_NAMES} more lines either, for the same reason.")
    apart = [
        f"{name} {signed(tie.difference)} (means: {signed(tie.of_means)})"
        for name, tie in compared
        if tie.difference is not None and is_apart(tie.difference, tie.of_means)
    ]
    if apart:
        more = f" and {len(apart) - 1} more" if len(apart) > 1 else ""
        remarks.append(
            f"The difference from the best, over what both lines have, is not that of their means: {apart[0]}{more}."
        )
    return remarks


@dataclass(frozen=True)
class _Entry:
    """An entry to be ranked: runs of one model that have the same, with their scores in the benchmarks' order."""

    model: str
    tag: str
    n_runs: int
    rows: tuple[ScoreRow, ...]
    cells: frozenset[_Cell]

    @cached_property
    def asked(self) -> tuple[str, ...]:
        return _asked(self.rows)

    def has_all(self, cells: frozenset[_Cell]) -> bool:
        """Return whether these cells have a score for each benchmark that it was asked."""
        return {cell[0] for cell in cells} == set(self.asked)


def read_standings(catalog: duckdb.DuckDBPyConnection, rows: Sequence[ScoreRow]) -> tuple[list[Ranking], list[Row]]:
    """Rank everything, those with most to compare first; and list what is not ranked, because others have more.

    Each model and base tag stands in one place. Of models that were asked the same, those are ranked together that
    share most judges (with the same prompts and passes): a run with fewer never takes judges off the others' means.

    Args:
        catalog: Where settings of runs are read.
        rows: The scores.
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
    partial = [ranking for ranking in rankings if any(_is_part(ranking, other) for other in rankings)]
    ranked = [_ranking(cells, entries) for cells, entries in rankings if (cells, entries) not in partial]
    missing = [_not_ranked(entry, _without_score(entry)) for entry in unscored]
    parts = [
        _not_ranked(entry, _less_than(cells, next(other for other, _ in rankings if _is_within(cells, other))))
        for cells, entries in partial
        for entry in entries
    ]
    return ranked, parts + missing


def lines_at(place: int, top: int) -> int | None:
    """Return how many lines are shown of the ranking at a place, from 0; None: all.

    Args:
        place: The first ranking is that of most models.
        top: Of the first one, of others a sixth, and at least three; 0: all.
    """
    return (min(top, max(top // _OF_OTHERS, _FEWEST_LINES)) if place else top) if top else None


def with_ties(single: SingleScores, rankings: Sequence[Ranking], top: int = 0) -> list[Ranking]:
    """Return rankings whose shown lines have intervals and differences from the best.

    Differences are adjusted over all pairs of lines, whatever is shown.

    Args:
        single: Reads the single scores.
        rankings: The rankings.
        top: As for `lines_at`.
    """
    single.load(row for ranking in rankings for line in ranking.standings for row in line.rows)
    return [_tied(single, ranking, lines_at(place, top)) for place, ranking in enumerate(rankings)]


def _tied(single: SingleScores, ranking: Ranking, n_shown: int | None) -> Ranking:
    from shaberi_dagster.reports import ties

    lines = ranking.standings
    scores = [_scores(single, line) for line in lines]
    means, uppers = [line.mean for line in lines], [line.upper for line in lines]
    against = ties.ties_at_both_ends(range(len(lines)), means, uppers, scores, single.scales) if len(lines) > 1 else {}
    best = next((lines[place].link for place, tie in against.items() if tie.against_best == "best"), None)
    tied = [replace(line, tie=across(against.get(place), line.link, best)) for place, line in enumerate(lines)]
    tied.sort(key=lambda line: not line.is_first)  # in the order of the ranks
    shown, others = tied[:n_shown], tied[len(tied[:n_shown]) :]
    return replace(
        ranking,
        standings=(*(_with_interval(single, line) for line in shown), *(replace(line, tie=None) for line in others)),
    )


def _with_interval(single: SingleScores, line: Standing) -> Standing:
    estimates = single.estimates(line.rows)
    overall = widened(estimates[OVERALL], line.link.mean_error if line.link else 0.0)
    return replace(line, over_questions=overall, estimates=estimates | {OVERALL: overall})


def _scores(single: SingleScores, line: Standing) -> list[JudgeScores]:
    """Return the single scores of a line; linked ones as those of the judge that they are linked with."""
    scores = single.of(line.rows)
    if line.link is None:
        return scores
    offsets = {row.benchmark: row.link.offset for row in line.rows if row.link}
    return [
        part._replace(
            judge=line.link.judge,
            scores=[None if score is None else score - offsets[part.benchmark] for score in part.scores],
        )
        for part in scores
    ]


# --- which runs are one entry ----------------------------------------------------------------------------------------


def _entries(catalog: duckdb.DuckDBPyConnection, rows: Sequence[ScoreRow]) -> list[_Entry]:
    # A run without a number is no part of the multi-run that was made under the same tag.
    tags = grouped(rows, lambda row: (row.model, row.base_tag or row.run_tag, row.run_number is None))
    several = [row for _, of_tag in tags if len({row.run_id for row in of_tag}) > 1 for row in of_tag]
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
    single = {(row.model, row.run_tag) for row in rows if row.run_number is None}

    def entry(tag: str, own: Iterable[ScoreRow], n_runs: int) -> _Entry:
        ordered = tuple(sorted(own, key=lambda row: in_order(row.benchmark)))
        return _Entry(ordered[0].model, tag, n_runs, ordered, _cells(ordered))

    entries = []
    for (model, base_tag, _), of_tag in tags:
        runs = grouped(of_tag, lambda row: row.run_tag)
        if len(runs) == 1:
            ((tag, of_run),) = runs
            entries.append(entry(tag, of_run, 1))
            continue
        alike = sorted(grouped(runs, lambda run: _cells(run[1])), key=lambda one: len(one[0]) * len(one[1]))
        *_, (_, fullest) = alike
        run_ids = {tag: [of_run[0].run_id] for tag, of_run in fullest}
        together = len(fullest) > 1 and not differences(settings, run_ids)
        if together:
            tag = f"{base_tag}{NUMBERED}" if (model, base_tag) in single else base_tag
            entries.append(entry(tag, [row for _, of_run in fullest for row in of_run], len(fullest)))
        alone = [run for run in runs if not (together and run in fullest)]
        entries += [entry(tag, of_run, 1) for tag, of_run in alone]
    return entries


def _cells(rows: Iterable[ScoreRow]) -> frozenset[_Cell]:
    return frozenset(_cell(row) for row in rows if is_number(row.score))


def _cell(row: ScoreRow) -> _Cell:
    return row.asked, row.ranked_judge, row.ranked_prompt, row.pipeline_hash


# --- which entries compare -------------------------------------------------------------------------------------------


def _most_comparable(entries: Sequence[_Entry]) -> frozenset[_Cell]:
    """Find the cells of which as many entries as possible have as many as possible."""
    own = list(dict.fromkeys(entry.cells for entry in entries))
    shared = (a & b for a, b in combinations(own, 2))
    usable = [cells for cells in dict.fromkeys([*own, *shared]) if entries[0].has_all(cells)]

    def compared(cells: frozenset[_Cell]) -> tuple[int, int, list[str]]:
        n = sum(entry.cells >= cells for entry in entries)
        return (n - 1) * len(cells), len(cells), sorted(map(str, cells))

    return max(usable, key=compared)


def _is_part(one: tuple[frozenset[_Cell], Sequence[_Entry]], other: tuple[frozenset[_Cell], Sequence[_Entry]]) -> bool:
    """Return whether at least as many other entries have all these cells, and more."""
    return len(other[1]) >= len(one[1]) and _is_within(one[0], other[0])


def _is_within(cells: frozenset[_Cell], other: frozenset[_Cell]) -> bool:
    """Return whether all of some cells, or more questions of the same set, are among others."""
    whole = {(cell[0].partition(",")[0], *cell[1:]) for cell in other}
    return cells != other and all(cell in other or (cell[0].partition(",")[0], *cell[1:]) in whole for cell in cells)


def _less_than(cells: frozenset[_Cell], other: frozenset[_Cell]) -> str:
    """Say which cells an entry has, where others have more: `tengu@120 only, 1 of 4 judges`."""
    asked, more = ({cell[0] for cell in some} for some in (cells, other))
    judges, more_judges = ({cell[1] for cell in some} for some in (cells, other))
    said = [] if asked == more else [f"{', '.join(sorted(asked))} only"]
    if len(judges) < len(more_judges):
        said.append(f"{len(judges)} of {len(more_judges)} judges ({', '.join(sorted(judges))})")
    return ", ".join(said) or "not judged on all of it by all judges"


def _without_score(entry: _Entry) -> str:
    return f"no score for {', '.join(sorted(set(entry.asked) - {cell[0] for cell in entry.cells}))}"


def _not_ranked(entry: _Entry, why: str) -> Row:
    means = _means(entry.rows, lambda row: row.asked)
    score = fmean(means.values()) if means else None
    return {"model": entry.model, "tag": entry.tag, "why": why, "score": score}


# --- numbers ---------------------------------------------------------------------------------------------------------


def _ranking(cells: frozenset[_Cell], entries: Sequence[_Entry]) -> Ranking:
    counted = ((entry, tuple(row for row in entry.rows if _cell(row) in cells)) for entry in entries)
    standings = [Standing(entry.model, entry.tag, entry.n_runs, rows) for entry, rows in counted]
    standings.sort(key=lambda line: (-line.mean, line.model, line.tag))
    judges = tuple(sorted({cell[1] for cell in cells}))
    return Ranking(_asked(standings[0].rows), judges, tuple(standings))


def _means(rows: Iterable[ScoreRow], key: Callable[[ScoreRow], str], end: str = "score") -> dict[str, float]:
    scored = [(row, getattr(row, end)) for row in rows if is_number(row.score)]
    return {name: fmean(score for _, score in of_key) for name, of_key in grouped(scored, lambda one: key(one[0]))}


def _asked(rows: Iterable[ScoreRow]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.asked for row in rows))
