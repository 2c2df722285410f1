"""The leaderboard page by page: who is best, with intervals for the lines that are shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import duckdb

from shaberi_dagster.reports.requests import ScoreSelection
from shaberi_dagster.reports.score_reading import read_rankings
from shaberi_dagster.reports.scores import ScoreReport, grouped
from shaberi_dagster.reports.standings import NotRanked, Ranking, Standing, with_intervals

LINES = 50
"""Of a page."""


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
    shown: Sequence[tuple[Ranking, Sequence[tuple[int, Standing]]]]
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
    standings = [one for _, _, one in own]
    if report.is_large and selection.has_sums:
        standings = with_intervals(catalog, standings, selection.question_sets)
    ranked = [(place, (rank, one)) for (place, rank, _), one in zip(own, standings, strict=True)]
    return Leaderboard(
        report,
        [(report.rankings[place], [line for _, line in group]) for place, group in grouped(ranked, lambda one: one[0])],
        [one for one in report.not_ranked if name.casefold() in one.model.casefold()] if page == n_pages else [],
        page,
        n_pages,
    )
