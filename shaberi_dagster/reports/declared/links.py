"""Links between imported scores of a judge and its new ones: how far the scores of the same answers moved."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from shaberi_dagster.reports.blocks import (
    Column,
    Report,
    Row,
    Rows,
    Table,
    between,
    decimals,
    interval_of,
    known,
    number,
    several,
    signed,
    text,
)
from shaberi_dagster.reports.requests import Judges


@dataclass(frozen=True)
class LinkSelection:
    """A choice of links.

    Attributes:
        judges: Only of these judges, before or after; none means all.
    """

    judges: Judges = ()


def _offset(row: Row) -> str:
    ends = interval_of(row)
    return " ".join([signed(row["score_offset"]), *([between(ends, "difference")] if ends else [])])


def _slope(row: Row) -> str:
    lower, upper = (decimals(row[f"slope_{end}"]) for end in ("lower", "upper"))
    ends = "" if row["slope_lower"] is None else f" ({lower} to {upper})"
    return f"{decimals(row['slope'])}{ends}"


def _reasons(rows: Rows) -> str:
    refused = [row for row in rows if row["reason"]]
    return " ".join(f"{row['linked_judge']}, {row['benchmark']}: {row['reason']}." for row in refused)


def _verdict(tables: Mapping[str, Rows]) -> str:
    last = tables["rows"][-1]  # overall, or the only benchmark
    if last["granted"]:
        return (
            f"New scores of {last['linked_judge']} compare with those of {last['judge']} that were imported from "
            f"{last['source']}: their offset is within {last['margin']:g}."
        )
    return f"New scores of {last['linked_judge']} stand apart from the imported ones of {last['judge']}."


LINKS = Report(
    "links",
    "Show how far scores moved where stored answers were judged again, and whether old and new ones compare.",
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


LINK = replace(LINKS, verdict=_verdict)
"""The report of one link, whose outcome stands first."""
