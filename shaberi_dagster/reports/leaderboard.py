"""The leaderboard page by page: who is best, each line with its interval and compared with the best."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import duckdb

from shaberi_dagster.lake.statements import once
from shaberi_dagster.reports.report import Row
from shaberi_dagster.reports.requests import ScoreSelection
from shaberi_dagster.reports.score_reading import read_rankings
from shaberi_dagster.reports.score_report import ScoreReport
from shaberi_dagster.reports.scores import grouped
from shaberi_dagster.reports.standings import Ranking, Standing

LINES = 30
"""Number of lines of a page."""
_Lines = tuple[Ranking, Sequence[tuple[int | None, Standing]]]
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
    not_ranked: Sequence[Row]
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
    report = once(catalog, "leaderboard", selection, lambda: read_rankings(catalog, selection))
    lines = [
        (place, rank, standing)
        for place, ranking in enumerate(report.rankings)
        for rank, standing in zip(ranking.ranks, ranking.standings, strict=True)
        if name.casefold() in standing.model.casefold()
    ]
    n_pages = max(ceil(len(lines) / LINES), 1)
    own = lines[(page - 1) * LINES : page * LINES]
    shown: Sequence[_Lines] = [
        (report.rankings[place], [(rank, standing) for _, rank, standing in group])
        for place, group in grouped(own, lambda line: line[0])
    ]
    return Leaderboard(
        report,
        shown,
        [row for row in report.not_ranked if name.casefold() in row["model"].casefold()] if page == n_pages else [],
        page,
        n_pages,
    )
