"""Links between imported scores of a judge and its new ones: how far the scores of the same answers moved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from shaberi_dagster.reports.figures import signed_interval
from shaberi_dagster.reports.report import NOTHING, Column, Report, Result, Row, Table, known, number, several, text
from shaberi_dagster.reports.requests import Judges
from shaberi_dagster.statistics.intervals import Interval


@dataclass(frozen=True)
class LinkSelection:
    """A choice of links.

    Attributes:
        judges: Only of these judges, before or after; none means all.
    """

    judges: Judges = ()


def _offset(row: Row) -> str:
    if row["score_offset"] is None:
        return NOTHING
    ends = "" if row["lower"] is None else f" {signed_interval(Interval(row['lower'], row['upper']))}"
    return f"{row['score_offset']:+.2f}{ends}"


def _slope(row: Row) -> str:
    if row["slope"] is None:
        return NOTHING
    ends = "" if row["slope_lower"] is None else f" ({row['slope_lower']:.2f} to {row['slope_upper']:.2f})"
    return f"{row['slope']:.2f}{ends}"


def _reasons(rows: Sequence[Row]) -> str:
    refused = [row for row in rows if row["reason"]]
    return " ".join(f"{row['linked_judge']}, {row['benchmark']}: {row['reason']}." for row in refused)


def _verdict(tables: Mapping[str, Sequence[Row]]) -> str:
    last = tables["rows"][-1]  # overall, or the only benchmark
    if last["granted"]:
        return (
            f"New scores of {last['linked_judge']} compare with those of {last['judge']} that were imported from "
            f"{last['source']}: their offset is within {last['margin']:g}."
        )
    return f"New scores of {last['linked_judge']} stand apart from the imported ones of {last['judge']}."


LINKS = Report(
    "links",
    "Show how far scores moved where stored answers were judged anew, and whether old and new ones compare.",
    [
        Table(
            [
                text("judge", where=several("judge", "link_id")),
                text("new judge", "linked_judge", folds=True),
                text("benchmark"),
                Column("answers", "n_scored"),
                number("new - old", _offset),
                number("slope", _slope, spare=True),
                number("spread", form="{:.2f}"),
                number("equal", "share_equal", form="{:.0%}"),
                number("spread of its own rounds", "repeat_spread", form="{:.2f}", where=known("repeat_spread")),
                text("linked", lambda row: "yes" if row["granted"] else "no"),
            ],
            sql="links",
            remarks=[_reasons],
        )
    ],
    selection=LinkSelection,
    empty="Nothing is linked yet: `shaberi link --judge JUDGE --preset NAME --dry-run` says what it takes.",
    examples=["shaberi links", "shaberi links --judge gpt-5.1"],
    more="Offsets are on the reported scale, with 95 % intervals in which models and questions are clusters.",
)


def link_result(rows: Sequence[Row]) -> Result:
    """Return the report of one link, whose outcome stands first.

    Args:
        rows: Of the table `links`, overall last.
    """
    return replace(LINKS, verdict=_verdict).result({"rows": rows}, ())
