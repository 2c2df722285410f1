"""Who is best, as it is shown: one line for each model and base tag."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from shaberi_dagster.reports.figures import (
    counted,
    decimals,
    interval,
    is_number,
    signed,
    signed_interval,
)
from shaberi_dagster.reports.report import NOTHING, Bar, Block, Cell, Column, Heading, Sentences, Table
from shaberi_dagster.reports.score_report import ScoreReport
from shaberi_dagster.reports.standings import NotRanked, Ranking, Standing, remarks_on
from shaberi_dagster.show.terminal import table_width

_MOST_NOT_RANKED = 10
_DIFFERENCES = (
    "- best: less the best line, over the n questions and the judges that both have; its CI is adjusted for all pairs."
)
_BEST, _FAILED = "bold green", "yellow"
_ROOM_FOR_MODELS, _ROOM_FOR_TAGS = 24, 8
"""So many columns of the terminal names get before benchmarks do."""


def standing_blocks(report: ScoreReport, *, by: str, width: int | None) -> Iterator[Block]:
    """The rankings, and what is in none.

    Args:
        report: The scores.
        by: What has columns of its own: model (then it is benchmarks), or judge.
        width: Columns of the terminal, into which as many columns go as fit; None: all of them.
    """
    for ranking in report.rankings:
        yield Heading(_title(ranking), _detail(ranking, report))
        yield _table(ranking, by, width)
    if report.not_ranked:
        yield Heading("Not ranked", "others have more: --model, --judge or --question-set compare over what is common")
        yield Sentences(list(_not_ranked(report.not_ranked)), "note")


def _title(ranking: Ranking) -> str:
    judges = ranking.judges
    return f"Judge {judges[0]}" if len(judges) == 1 else f"Mean of {len(judges)} judges: {', '.join(judges)}"


def _detail(ranking: Ranking, report: ScoreReport) -> str:
    tags = {one.tag for one in ranking.standings}
    said = [f"tag {tag}" for tag in tags if len(tags) == 1]
    passes = [] if report.pipeline == "baseline" else [f"passes {report.pipeline}"]
    return " · ".join([*said, *passes, f"{report.policy} nulls"])


def _table(ranking: Ranking, by: str, width: int | None) -> Table:
    names: Sequence[str] = ranking.judges if by == "judge" else ranking.asked
    for n in range(len(names), 0, -1):
        table = _with_columns(ranking, by, names[:n], names[n:])
        needed = replace(table, columns=[one for one in table.columns if not one.spare])
        if width is None or table_width(needed) <= width:
            return table
    return _with_columns(ranking, by, (), names)


def _with_columns(ranking: Ranking, by: str, names: Sequence[str], left_out: Sequence[str]) -> Table:
    standings = ranking.standings
    best = [_BEST if rank == 1 and len(standings) > 1 else "" for rank in ranking.ranks]

    def column(title: Cell, cell: Callable[[Standing], str], style: Callable[[Standing], str] | None = None) -> Column:
        return Column(
            title, cells=[cell(one) for one in standings], styles=[style(one) for one in standings] if style else ()
        )

    columns = [
        Column("#", cells=[str(rank) for rank in ranking.ranks], styles=best),
        Column(
            "model",
            cells=[one.model for one in standings],
            left=True,
            cuts="middle",
            narrowest=_ROOM_FOR_MODELS,
            styles=best,
        ),
        *(
            [Column("tag", cells=[one.tag for one in standings], left=True, cuts="middle", narrowest=_ROOM_FOR_TAGS)]
            if _several_tags(ranking)
            else []
        ),
        Column("mean", cells=[decimals(one.mean) for one in standings], styles=best),
        *_interval(standings),
        *_beside_best(standings),
        *(column(_title_of(name, by), lambda one, name=name: decimals(_of(one, by).get(name))) for name in names),  # type: ignore[misc]
        column("n/N", lambda one: f"{one.n_scored}/{one.n_planned}"),
        *_counts(standings, column),
    ]
    what = "judge" if by == "judge" else "benchmark"
    said = [
        *(["Rank 1: no difference from the best is shown."] if ranking.ranks.count(1) > 1 else []),
        *([_DIFFERENCES] if _compared(standings) else []),
        *([f"{counted(len(left_out), what)} not shown (--wide): {', '.join(left_out)}."] if left_out else []),
    ]
    return Table(columns, notes=[*([" ".join(said)] if said else []), *remarks_on(standings)])


def _counts(standings: Sequence[Standing], column: Callable[..., Column]) -> list[Column]:
    """Failures always, exclusions, scores out of scale and numbers of runs where there are any."""
    styles = [_FAILED if one.n_failed else "" for one in standings]
    failed = Column("failed", cells=[str(one.n_failed) for one in standings], styles=styles)
    excluded = column("excl.", lambda one: str(one.n_excluded))
    outside = column(("out of", "scale"), lambda one: str(one.n_out_of_scale))
    runs = column("runs", lambda one: str(one.n_runs))
    return [
        failed,
        *([excluded] if any(one.n_excluded for one in standings) else []),
        *([outside] if any(one.n_out_of_scale for one in standings) else []),
        *([runs] if any(one.n_runs > 1 for one in standings) else []),
    ]


def _interval(standings: Sequence[Standing]) -> list[Column]:
    known = [one.over_questions.interval if one.over_questions else None for one in standings]
    if not any(known):
        return []
    bars = [
        Bar(min(ends.lower, one.mean), one.mean, max(ends.upper, one.mean)) if ends else None
        for one, ends in zip(standings, known, strict=True)
    ]
    return [Column("95 % CI", cells=[interval(ends) for ends in known], bars=bars)]


def _compared(standings: Sequence[Standing]) -> bool:
    return any(one.tie for one in standings)


def _beside_best(standings: Sequence[Standing]) -> list[Column]:
    """The difference from the best with its interval, and over how many questions it is."""
    if not _compared(standings):
        return []
    ties = [one.tie for one in standings]
    return [
        Column("- best", cells=[signed(tie.difference if tie else None) for tie in ties]),
        Column("its CI", cells=[signed_interval(tie.interval if tie else None) for tie in ties], spare=True),
        Column("n", cells=[str(tie.n_common) if tie and tie.interval else NOTHING for tie in ties], spare=True),
    ]


def _of(one: Standing, by: str) -> Mapping[str, float]:
    return one.by_judge if by == "judge" else one.by_benchmark


def _title_of(name: str, by: str) -> Cell:
    """A judge, or a benchmark with its version below it (without a hash) and how many were asked if not all."""
    if by == "judge":
        return name
    benchmark, _, version = name.partition("@")
    size, _, limited = version.partition(", ")
    return tuple(filter(None, (benchmark, f"@{size.partition('-')[0]}" if size else "", limited)))


def _several_tags(ranking: Ranking) -> bool:
    return len({one.tag for one in ranking.standings}) > 1


def _not_ranked(left_out: Sequence[NotRanked]) -> Iterator[str]:
    for one in left_out[:_MOST_NOT_RANKED]:
        score = f" {decimals(one.score)}" if is_number(one.score) else ""
        yield f"{one.model} {one.tag}{score}: {one.why}"
    if len(left_out) > _MOST_NOT_RANKED:
        yield f"{len(left_out) - _MOST_NOT_RANKED} more (--format json)"
