"""The leaderboard page by page: who is best, with intervals and ties of the lines that are shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import duckdb

from shaberi_dagster.reports.reading import Scales, reported_scales
from shaberi_dagster.reports.requests import ScoreSelection
from shaberi_dagster.reports.score_reading import read_rankings
from shaberi_dagster.reports.score_report import ScoreReport
from shaberi_dagster.reports.scores import grouped
from shaberi_dagster.reports.standings import NotRanked, Ranking, Standing, with_ties

LINES = 50
"""Of a page."""
_Lines = tuple[Ranking, Sequence[tuple[int, Standing]]]
"""A ranking, and the lines of it that are on a page, each with its rank."""


@dataclass(frozen=True)
class Leaderboard:
    """A page of the leaderboard.

    Attributes:
        report: All scores.
        shown: Rankings with the lines of them that are on this page, each with its rank.
        not_ranked: What has less than those that are ranked, on the last page.
        page: Which page, from 1.
        n_pages: Of how many.
    """

    report: ScoreReport
    shown: Sequence[_Lines]
    not_ranked: Sequence[NotRanked]
    page: int
    n_pages: int


def read_leaderboard(
    catalog: duckdb.DuckDBPyConnection, selection: ScoreSelection, *, name: str = "", page: int = 1
) -> Leaderboard:
    """A page of the leaderboard.

    Args:
        catalog: The public views.
        selection: What to read.
        name: Only models with this in their names, in whatever case; places stay as they are.
        page: Which one, from 1.

    Raises:
        ConfigurationError: Nothing is selected.
    """
    report = read_rankings(catalog, selection)
    lines = [
        (place, rank, one)
        for place, ranking in enumerate(report.rankings)
        for rank, one in zip(ranking.ranks, ranking.standings, strict=True)
        if name.casefold() in one.model.casefold()
    ]
    n_pages = max(ceil(len(lines) / LINES), 1)
    own = lines[(page - 1) * LINES : page * LINES]
    shown: Sequence[_Lines] = [
        (report.rankings[place], [(rank, one) for _, rank, one in group])
        for place, group in grouped(own, lambda line: line[0])
    ]
    if report.is_large:
        shown = _completed(catalog, shown, selection, reported_scales(report.benchmarks))
    return Leaderboard(
        report,
        shown,
        [one for one in report.not_ranked if name.casefold() in one.model.casefold()] if page == n_pages else [],
        page,
        n_pages,
    )


def _completed(
    catalog: duckdb.DuckDBPyConnection, shown: Sequence[_Lines], selection: ScoreSelection, scales: Scales
) -> list[_Lines]:
    """The lines of a page of very many runs, with their intervals and how they are beside the best of their ranking."""
    chosen = [(ranking, [one for _, one in lines]) for ranking, lines in shown]
    done = with_ties(catalog, chosen, selection.question_sets, scales)
    return [
        (ranking, [(rank, one) for (rank, _), one in zip(lines, own, strict=True)])
        for (ranking, lines), own in zip(shown, done, strict=True)
    ]
