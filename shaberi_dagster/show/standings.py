"""Tables of rankings: one line for each model and base tag."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from statistics import fmean, stdev
from typing import Any

from shaberi_dagster.reports.figures import (
    NO_INTERVAL,
    both_ends,
    counted,
    decimals,
    interval,
    interval_of,
    is_number,
    listed,
    signed_interval,
    whole_percent,
)
from shaberi_dagster.reports.report import (
    NOTHING,
    Bar,
    Block,
    Cell,
    Heading,
    Row,
    Sentences,
    Table,
    known,
    number,
    several,
    table_of,
    text,
)
from shaberi_dagster.reports.score_report import ScoreReport
from shaberi_dagster.reports.scores import ScoreRow, grouped
from shaberi_dagster.reports.standings import Ranking, Standing, lines_at, remarks_on
from shaberi_dagster.show.terminal import table_width

_MOST_NOT_RANKED = 10
_DIFFERENCES = (
    "- best: less the best line, over the n questions and the judges that both have; its CI is adjusted for all pairs."
)
_BEST, _FAILED = "bold green", "yellow"
_ROOM_FOR_MODELS, _ROOM_FOR_TAGS, _ROOM_FOR_TITLES = 20, 8, 7
"""So many columns of the terminal names get before benchmarks do."""


def standing_blocks(report: ScoreReport, *, by: str, width: int | None, top: int = 0) -> Iterator[Block]:
    """The rankings, and what is in none.

    Args:
        report: The scores.
        by: What has columns of its own: model (then it is benchmarks), or judge.
        width: Columns of the terminal, into which as many columns go as fit; None: all of them.
        top: Lines of the first ranking; 0: all of all.
    """
    for place, ranking in enumerate(report.rankings):
        yield Heading(_title(ranking), _detail(ranking, report))
        shown = replace(ranking, standings=ranking.standings[: lines_at(place, top)])
        yield _table(shown, by, width)
        if n_more := len(ranking.standings) - len(shown.standings):
            yield Sentences([f"{n_more} more (--top 0)"], "note")
    if any(line.tie for ranking in report.rankings for line in ranking.standings):
        yield Sentences([_DIFFERENCES], "note")
    ends = [line.over_questions for ranking in report.rankings for line in ranking.standings]
    if 0 < ends.count(None) < len(ends) and not report.is_large:
        yield Sentences([NO_INTERVAL], "note")
    if report.not_ranked:
        why = "others have more: --model, --judge or --question-set compare over what is common"
        yield Heading("Not ranked", why if report.rankings else "")
        yield Sentences(list(_not_ranked(report.not_ranked)), "note")


def own_table(report: ScoreReport) -> list[Block]:
    """Show the benchmarks of the only line of a ranking, and their mean; nothing where there are several lines."""
    if len(report.rankings) != 1 or len(report.rankings[0].standings) != 1 or report.not_ranked:
        return []
    (ranking,), (line,) = report.rankings, report.rankings[0].standings
    parts = grouped(line.rows, lambda row: row.benchmark)
    lines = [_of_benchmark(report, line, name, rows) for name, rows in parts]
    runs = [fmean(scores) for scores in zip(*(of_row["by_run"] for of_row in lines), strict=True)]
    ends = {"mean": line.mean, "mean_upper": line.upper, "is_open": False}
    counts = {name: sum(row[name] for row in lines) for name in ("n_scored", "n_planned")}
    lines.append({"benchmark": "Overall", **ends, "estimate": line.over_questions, "by_run": runs, **counts})
    columns = [
        text("Benchmark", "benchmark", folds=True),
        number("Mean", lambda row: both_ends(row["mean"], row["mean_upper"], is_open=row["is_open"])),
        number("Std Dev", lambda row: decimals(stdev(row["by_run"])) if line.n_runs > 1 else NOTHING),
        number("95 % CI", lambda row: interval(row["estimate"] and row["estimate"].interval)),
        number("Range", lambda row: _range_of(row["by_run"]) if line.n_runs > 1 else NOTHING),
        number("n/N", _share),
    ]
    notes = [
        "Std Dev and Range are between runs"
        + ("." if line.n_runs > 1 else ", and there is one.")
        + " Each run and judge by itself: --by run."
    ]
    table = table_of(lines, columns, bold=[len(parts)], notes=[*notes, *remarks_on(ranking.standings)])
    return [Heading(f"{line.model} {line.tag}", f"{_title(ranking)} · {_detail(ranking, report)}"), table]


def _of_benchmark(report: ScoreReport, line: Standing, name: str, rows: Sequence[ScoreRow]) -> dict[str, Any]:
    known = report.benchmarks.get(name)
    by_run = grouped(rows, lambda row: row.run_id)
    runs = [fmean(row.score for row in of_run if row.score is not None) for _, of_run in by_run]
    return {
        "benchmark": known.title if known else name,
        "mean": line.by_benchmark[rows[0].asked],
        "mean_upper": line.by_benchmark_upper[rows[0].asked],
        "is_open": rows[0].asked in line.open_benchmarks,
        "estimate": line.estimates.get(name),
        "by_run": runs,
        "n_scored": sum(row.n_scored for row in rows),
        "n_planned": sum(row.n_planned for row in rows),
    }


def _range_of(values: Sequence[float]) -> str:
    return f"{decimals(min(values))}–{decimals(max(values))}"


def best_of_most(rankings: Sequence[Ranking]) -> Iterator[str]:
    """Say at the end of several rankings who is best in the first, which has most models."""
    if len(rankings) > 1:
        lines = zip(rankings[0].standings, rankings[0].ranks, strict=True)
        best = [f"{line.model} {line.tag}" for line, rank in lines if rank == 1]
        also = f"; no difference from it is shown of {listed(best[1:])}" if best[1:] else ""
        if best:
            yield f"Best of the {len(rankings[0].standings)} in the first ranking: {best[0]}{also}."


def _title(ranking: Ranking) -> str:
    judges = ranking.judges
    return f"Judge {judges[0]}" if len(judges) == 1 else f"Mean of {len(judges)} judges: {', '.join(judges)}"


def _detail(ranking: Ranking, report: ScoreReport) -> str:
    tags = {standing.tag for standing in ranking.standings}
    said = [f"tag {tag}" for tag in tags if len(tags) == 1]
    passes = [] if report.pipeline == "baseline" else [f"passes {report.pipeline}"]
    return " · ".join([*said, *passes, f"{report.policy} nulls"])


def _table(ranking: Ranking, by: str, width: int | None) -> Table:
    names: Sequence[str] = ranking.judges if by == "judge" else ranking.asked
    whole = _with_columns(ranking, by, names)
    if width is None or _fits(whole, width):
        return whole
    for n in range(len(names), 0, -1):
        table = _with_columns(ranking, by, names[:n], names[n:], is_narrow=True)
        if _fits(table, width):
            return table
    return _with_columns(ranking, by, (), names, is_narrow=True)


def _fits(table: Table, width: int) -> bool:
    """Return whether a table without its spare columns fits into the terminal."""
    return table_width(replace(table, columns=[column for column in table.columns if not column.spare])) <= width


def _with_columns(
    ranking: Ranking, by: str, names: Sequence[str], left_out: Sequence[str] = (), *, is_narrow: bool = False
) -> Table:
    """Make the table of a ranking.

    Args:
        ranking: The lines.
        by: What has columns of its own.
        names: Those that get one.
        left_out: Those that get none.
        is_narrow: Titles are broken, and counts of samples are a sentence.
    """
    rows = ranking.rows
    failures_follow = all(row["n_planned"] - row["n_scored"] == row["n_failed"] for row in rows)

    def best(row: Row) -> str:
        return _BEST if row["rank"] == 1 and len(rows) > 1 else ""

    what = "judge" if by == "judge" else "benchmark"
    columns = [
        number("#", "rank", form="{}", mark=best),
        text("model", cuts="middle", narrowest=_ROOM_FOR_MODELS, mark=best),
        text("tag", cuts="middle", narrowest=_ROOM_FOR_TAGS, where=several("tag")),
        number("mean", lambda row: both_ends(row["mean"], row["mean_upper"]), mark=best),
        number(
            "95 % CI",
            lambda row: interval(interval_of(row, "ci_questions_")),
            bar=_bar,
            spare=is_narrow and by == "judge",
            where=known("n_questions"),
        ),
        number("- best", "difference", form="{:+.2f}", where=known("against_best")),
        number(
            "its CI",
            lambda row: signed_interval(interval_of(row, "difference_")),
            spare=True,
            where=known("against_best"),
        ),
        number("n", _n_common, spare=True, where=known("against_best")),
        *(number(_title_of(name, by, is_narrow), partial(_of, what, name)) for name in names),
        *([] if is_narrow else [number("n/N", _share)]),
        number(
            "failed",
            "n_failed",
            form="{}",
            mark=lambda row: _FAILED if row["n_failed"] else "",
            where=lambda _: not (is_narrow and failures_follow),
        ),
        number(("unde-", "cided"), lambda row: whole_percent(row["share_undecided"]), where=known("share_undecided")),
        number("excl.", "n_excluded", form="{}", where=known("n_excluded")),
        number(("out of", "scale"), "n_out_of_scale", form="{}", where=known("n_out_of_scale")),
        number("runs", "n_runs", form="{}", where=lambda rows: any(row["n_runs"] > 1 for row in rows)),
    ]
    first = rows[0]["model"] if rows and rows[0]["rank"] else ""
    whole_name = [f"#{rows[0]['rank']} is {first}."] if is_narrow and len(first) > _ROOM_FOR_MODELS else []
    notes = [
        *(["Rank 1: no difference from the best is shown."] if ranking.ranks.count(1) > 1 else []),
        *([f"Scored: {_range(list(map(_share, rows)))} samples of a line."] if is_narrow else []),
        *([f"{counted(len(left_out), what)} not shown (--wide): {', '.join(left_out)}."] if left_out else []),
    ]
    return table_of(
        rows, columns, notes=[*whole_name, *([" ".join(notes)] if notes else []), *remarks_on(ranking.standings)]
    )


def _bar(row: Row) -> Bar | None:
    ends, mean = interval_of(row, "ci_questions_"), row["mean"]
    return Bar(min(ends.lower, mean), mean, max(ends.upper, mean)) if ends else None


def _n_common(row: Row) -> str:
    return NOTHING if row["difference_lower"] is None else str(row["n_common_questions"])


def _of(by: str, name: str, row: Row) -> str:
    lower, upper = (row[f"by_{by}{end}"].get(name) for end in ("", "_upper"))
    return both_ends(lower, upper, is_open=name in row["open_benchmarks"])


def _share(row: Row) -> str:
    return f"{row['n_scored']}/{row['n_planned']}"


def _range(shares: Sequence[str]) -> str:
    """Say from which to which share of the planned samples lines have a score."""

    def place(share: str) -> tuple[Fraction, int]:
        n_scored, n_planned = map(int, share.split("/"))
        return Fraction(n_scored, n_planned or 1), n_planned

    ordered = sorted(set(shares), key=place)
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"


def _title_of(name: str, by: str, is_narrow: bool) -> Cell:
    """Return a judge, or a benchmark with its version below it (no hash), and how many were asked if not all."""
    if by == "judge":
        return _broken(name) if is_narrow else name
    benchmark, _, version = name.partition("@")
    size, _, limited = version.partition(", ")
    lines = _broken(benchmark) if is_narrow else (benchmark,)
    return tuple(filter(None, (*lines, f"@{size.partition('-')[0]}" if size else "", limited)))


def _broken(name: str) -> tuple[str, ...]:
    """Break a name after its signs into lines of at most `_ROOM_FOR_TITLES` characters, where it has enough signs."""
    lines = [""]
    for part in filter(None, re.split(r"(?<=[-_/:@+ ])", name)):
        if lines[-1] and len(lines[-1] + part) > _ROOM_FOR_TITLES:
            lines.append("")
        lines[-1] += part
    return tuple(lines)


def _not_ranked(left_out: Sequence[Row]) -> Iterator[str]:
    for row in left_out[:_MOST_NOT_RANKED]:
        score = f" {decimals(row['score'])}" if is_number(row["score"]) else ""
        yield f"{row['model']} {row['tag']}{score}: {row['why']}"
    if len(left_out) > _MOST_NOT_RANKED:
        yield f"{len(left_out) - _MOST_NOT_RANKED} more (--format json)"
