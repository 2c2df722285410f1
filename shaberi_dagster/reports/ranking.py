"""Rankings: one line for each model and base tag, among those that were asked and judged alike.

A ranking has what was asked, benchmark by benchmark, the judges over whose scores its means are, and its standings,
best first. A standing is a row: a model, its tag (the base tag of its n_runs runs; of a run that stands alone its own),
the unweighted mean over benchmarks with its 95 % interval over questions, how it is beside the best (`ties.py`), the
means by_benchmark (by what was asked) and by_judge with their upper ends, open_benchmarks (where a rule that cannot say
wrong left answers undecided), and counts of samples. rank is shared by all of which no difference from the best is
shown; None: there is no verdict, or lines would stand in another order at the upper ends of their means. Not in
documents: its scores (`rows`, by the judges that count, equally many for each run), their `estimates` by benchmark, and
the `link` by which it is among imported scores.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations
from operator import itemgetter
from statistics import fmean
from typing import NamedTuple

from shaberi_dagster.lake.statements import Catalog
from shaberi_dagster.reports.audited import unaudited_sentence
from shaberi_dagster.reports.blocks import Row, Rows, grouped, is_number, listed, signed
from shaberi_dagster.reports.linked import across, widened
from shaberi_dagster.reports.rows import (
    COUNTS,
    OVERALL,
    JudgeScores,
    benchmark_order,
    differs_after_rounding,
    interval_columns,
    is_open,
    sums_of,
    undecided_sentences,
)
from shaberi_dagster.reports.settings import SettingsByRun, differences, read_settings
from shaberi_dagster.reports.single_scores import SingleScores
from shaberi_dagster.tasks.benchmarks.registry import RULE
from shaberi_dagster.util.identity import NUMBERED

_MOST_NAMES = 3
_OF_OTHERS, _FEWEST_LINES = 6, 3
_NOT_SHOWN = {"rows", "estimates", "link", "other_judges"}
_Cell = tuple[str, str, str | None, str | None]
"""Key of comparable scores: questions, judge, judge's prompt, settings of passes."""


def standing_data(line: Row) -> Row:
    """Return what documents have of a standing."""
    return {name: value for name, value in line.items() if name not in _NOT_SHOWN}


def is_first(line: Row) -> bool:
    """Return whether a standing is the best, or no difference from the best is shown."""
    return line["against_best"] in {"best", "tied"}


def remarks_on(standings: Rows) -> list[str]:
    """Say which lines have no verdict, whose difference from the best is not that of means, and what audits found."""
    compared = [line for line in standings if line["against_best"]]
    withheld = [f"No verdict on {_name(line)}: {line['why_withheld']}." for line in compared if line["why_withheld"]]
    every = [row for line in standings for row in line["rows"]]
    named = {
        row["judge"]: row["judge_prompt"]
        for line in compared
        for row in line["rows"]
        if row["judge_prompt"] and not row["judge_prompt_hash"]
    }
    remarks = [f"Prompts of judge {judge} are {prompt}." for judge, prompt in named.items()]
    remarks += [
        f"{_name(line)} was judged by {line['rows'][0]['judge']}, which is linked with {link['judge']}: "
        f"compared with the best without its offset of {signed(link['mean_offset'])}."
        for line in standings
        if (link := line["link"])
    ]
    graded = [row for row in every if row["judge"].startswith(RULE)]
    remarks += dict.fromkeys(f"{row['audit_sentence']}; intervals allow for it." for row in graded if row["audit"])
    audited = {row["benchmark"] for row in graded if row["audit"]}
    if unknown := sorted({row["benchmark"] for row in graded} - audited):
        remarks.append(f"{unaudited_sentence(unknown)}.")
    remarks += [*undecided_sentences(every), *withheld[:_MOST_NAMES]]
    if len(withheld) > _MOST_NAMES:
        remarks.append(f"No verdict on {len(withheld) - _MOST_NAMES} more, for the same reason.")
    apart = [
        f"{_name(line)} {signed(line['difference'])} (means: {signed(line['difference_of_means'])})"
        for line in compared
        if line["difference"] is not None and differs_after_rounding(line["difference"], line["difference_of_means"])
    ]
    if others := {judge for line in standings for judge in line["other_judges"]}:
        remarks.append(f"Not in the means: scores by {listed(sorted(others))}, which some of these lack.")
    if apart:
        remarks.append(f"vs best is over what both have, not of the means: {listed(apart, 1)}.")
    return remarks


def _name(line: Row) -> str:
    return f"{line['model']} {line['tag']}"


class _Entry(NamedTuple):
    """An entry to be ranked: runs of one model that have the same, with their scores in the benchmarks' order."""

    model: str
    tag: str
    n_runs: int
    rows: Rows
    asked: tuple[str, ...]
    cells: frozenset[_Cell]

    def has_all(self, cells: frozenset[_Cell]) -> bool:
        """Return whether these cells have a score for each benchmark that it was asked."""
        return {cell[0] for cell in cells} == set(self.asked)


def read_standings(catalog: Catalog, rows: Rows) -> tuple[list[Row], list[Row]]:
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
    partial = [
        (cells, entries)
        for cells, entries in rankings
        if any(len(others) >= len(entries) and _is_within(cells, more) for more, others in rankings)
    ]
    ranked = [_ranking(cells, entries) for cells, entries in rankings if (cells, entries) not in partial]
    missing = [
        _not_ranked(entry, f"no score for {', '.join(sorted(set(entry.asked) - {cell[0] for cell in entry.cells}))}")
        for entry in unscored
    ]
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


def with_ties(single: SingleScores, rankings: Rows, top: int = 0) -> list[Row]:
    """Return rankings whose shown lines have intervals and differences from the best.

    Differences are adjusted over all pairs of lines, whatever is shown.

    Args:
        single: Reads the single scores.
        rankings: The rankings.
        top: As for `lines_at`.
    """
    single.load(row for ranking in rankings for line in ranking["standings"] for row in line["rows"])
    return [_tied(single, ranking, lines_at(place, top)) for place, ranking in enumerate(rankings)]


def _tied(single: SingleScores, ranking: Row, n_shown: int | None) -> Row:
    from shaberi_dagster.reports import ties

    lines = ranking["standings"]
    scores = [_scores(single, line) for line in lines]
    means, uppers = ([line[end] for line in lines] for end in ("mean", "mean_upper"))
    against = ties.ties_at_both_ends(means, uppers, scores, single.scales) if len(lines) > 1 else {}
    best = next((lines[place]["link"] for place, tie in against.items() if tie["against_best"] == "best"), None)
    tied = [
        {**line, **across(against[place], line["link"], best)} if place in against else line
        for place, line in enumerate(lines)
    ]
    tied.sort(key=lambda line: not is_first(line))  # in the order of the ranks
    shown, others = tied[:n_shown], tied[len(tied[:n_shown]) :]
    standings = [*(_with_interval(single, line) for line in shown), *({**line, **ties.NOT_COMPARED} for line in others)]
    return {**ranking, "standings": _ranked(standings)}


def _with_interval(single: SingleScores, line: Row) -> Row:
    estimates = single.estimates(line["rows"])
    overall = widened(estimates[OVERALL], line["link"]["mean_error"] if line["link"] else 0.0)
    return {**line, **interval_columns(overall), "estimates": estimates | {OVERALL: overall}}


def _scores(single: SingleScores, line: Row) -> list[JudgeScores]:
    """Return the single scores of a line; linked ones as those of the judge that they are linked with."""
    scores, link = single.of(line["rows"]), line["link"]
    if link is None:
        return scores
    offsets = {row["benchmark"]: row["link"]["offset"] for row in line["rows"] if row["link"]}
    return [
        part._replace(
            judge=link["judge"],
            scores=[None if score is None else score - offsets[part.benchmark] for score in part.scores],
        )
        for part in scores
    ]


# --- which runs are one entry ----------------------------------------------------------------------------------------


def _entries(catalog: Catalog, rows: Rows) -> list[_Entry]:
    # A run without a number is no part of the multi-run that was made under the same tag.
    tags = grouped(rows, lambda row: (row["model"], row["base_tag"] or row["run_tag"], row["run_number"] is None))
    several = [row for _, of_tag in tags if len({row["run_id"] for row in of_tag}) > 1 for row in of_tag]
    run_ids, benchmarks, judges = ({row[name] for row in several} for name in ("run_id", "benchmark", "judge"))
    settings: SettingsByRun = {}
    if several:
        settings = read_settings(catalog, sorted(run_ids), benchmarks, judges, several[0]["pipeline"])
    in_order = benchmark_order()
    single = {(row["model"], row["run_tag"]) for row in rows if row["run_number"] is None}

    def entry(tag: str, own: Iterable[Row], n_runs: int) -> _Entry:
        ordered = sorted(own, key=lambda row: in_order(row["benchmark"]))
        return _Entry(ordered[0]["model"], tag, n_runs, ordered, _asked(ordered), _cells(ordered))

    entries = []
    for (model, base_tag, _), of_tag in tags:
        runs = grouped(of_tag, itemgetter("run_tag"))
        if len(runs) == 1:
            ((tag, of_run),) = runs
            entries.append(entry(tag, of_run, 1))
            continue
        alike = sorted(grouped(runs, lambda run: _cells(run[1])), key=lambda one: len(one[0]) * len(one[1]))
        *_, (_, fullest) = alike
        ids = {tag: [of_run[0]["run_id"]] for tag, of_run in fullest}
        together = len(fullest) > 1 and not differences(settings, ids)
        if together:
            tag = f"{base_tag}{NUMBERED}" if (model, base_tag) in single else base_tag
            entries.append(entry(tag, [row for _, of_run in fullest for row in of_run], len(fullest)))
        alone = [run for run in runs if not (together and run in fullest)]
        entries += [entry(tag, of_run, 1) for tag, of_run in alone]
    return entries


def _cells(rows: Iterable[Row]) -> frozenset[_Cell]:
    return frozenset(_cell(row) for row in rows if is_number(row["score"]))


def _cell(row: Row) -> _Cell:
    return row["asked"], row["ranked_judge"], row["ranked_prompt"], row["pipeline_hash"]


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


def _not_ranked(entry: _Entry, why: str) -> Row:
    means = _means(entry.rows)
    score = fmean(means.values()) if means else None
    return {"model": entry.model, "tag": entry.tag, "why": why, "score": score}


# --- numbers ---------------------------------------------------------------------------------------------------------


def _ranking(cells: frozenset[_Cell], entries: Sequence[_Entry]) -> Row:
    standings = [_standing(entry, [row for row in entry.rows if _cell(row) in cells]) for entry in entries]
    standings.sort(key=lambda line: (-line["mean"], line["model"], line["tag"]))
    judges = sorted({cell[1] for cell in cells})
    return {"asked": list(_asked(standings[0]["rows"])), "judges": judges, "standings": _ranked(standings)}


def _standing(entry: _Entry, rows: Rows) -> Row:
    from shaberi_dagster.reports.ties import NOT_COMPARED

    by_benchmark, by_benchmark_upper = _means(rows), _means(rows, "upper")
    judges = sorted(grouped(rows, itemgetter("ranked_judge")), key=itemgetter(0))
    by_judge, by_judge_upper = (
        {judge: fmean(_means(of_judge, end).values()) for judge, of_judge in judges} for end in ("score", "upper")
    )
    counts = sums_of(rows, COUNTS)
    mean, before = fmean(by_benchmark.values()), _means(rows, "baseline_score")
    return {
        "rank": None,
        "model": entry.model,
        "tag": entry.tag,
        "n_runs": entry.n_runs,
        "mean": mean,
        "change": mean - fmean(before.values()) if len(before) == len(by_benchmark) else None,
        "mean_upper": fmean(by_benchmark_upper.values()),
        **interval_columns(None),
        **NOT_COMPARED,
        "by_benchmark": by_benchmark,
        "by_benchmark_upper": by_benchmark_upper,
        "open_benchmarks": sorted({row["asked"] for row in rows if is_open(row)}),
        "by_judge": by_judge,
        "by_judge_upper": by_judge_upper,
        "other_judges": {row["ranked_judge"] for row in entry.rows} - by_judge.keys(),
        "share_undecided": counts["n_undecided"] / max(counts["n_planned"], 1),
        **counts,
        "rows": rows,
        "estimates": {},
        "link": rows[0]["link"],
    }


def _ranked(lines: Rows) -> list[Row]:
    at_upper_ends = sorted(
        range(len(lines)), key=lambda place: (not is_first(lines[place]), -lines[place]["mean_upper"])
    )
    return [
        {**line, "rank": _rank(line, place + 1) if is_first(line) or at_upper_ends[place] == place else None}
        for place, line in enumerate(lines)
    ]


def _rank(line: Row, place: int) -> int | None:
    """Return the rank of a line by its place from 1; the first one where no difference from the best is shown."""
    if line["against_best"] is None:
        return place
    return 1 if is_first(line) else None if line["why_withheld"] else max(place, 2)


def _means(rows: Iterable[Row], end: str = "score") -> dict[str, float]:
    """Average one end of the scores of each benchmark, by what was asked."""
    scored = [row for row in rows if is_number(row["score"]) and is_number(row[end])]
    return {asked: fmean(row[end] for row in of_asked) for asked, of_asked in grouped(scored, itemgetter("asked"))}


def _asked(rows: Iterable[Row]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row["asked"] for row in rows))
