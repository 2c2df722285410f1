"""Judges that were asked several times about each answer, and how far they agree with themselves."""

from collections.abc import Mapping

from shaberi_dagster.reports.blocks import Column, Report, Rows, Table
from shaberi_dagster.reports.requests import RunSelection


def _most_consistent(tables: Mapping[str, Rows]) -> str:
    """Name the judge that most often gives an answer the same score."""
    rows = tables["rows"]
    shares = {
        judge: sum(row["alike"] for row in rows if row["judge"] == judge)
        / sum(row["answers"] for row in rows if row["judge"] == judge)
        for judge in dict.fromkeys(row["judge"] for row in rows)
    }
    judge = max(shares, key=lambda judge: shares[judge])
    return f"{judge} gives {shares[judge]:.0%} of answers the same score each time" + (
        ", more than the other judges." if len(shares) > 1 else "."
    )


CONSISTENCY = Report(
    "consistency",
    "Show how far judges that were asked several times about an answer agree with themselves.",
    [
        Table(
            [
                Column("judge", folds=True),
                Column("benchmark"),
                Column("answers"),
                Column("times", form="{:.3g}"),
                Column("mean score", form="{:.2f}"),
                Column("sd within an answer", "within", form="{:.2f}"),
                Column("sd between answers", "between", form="{:.2f}"),
                Column("same score each time", "alike_share", form="{:.0%}"),
            ],
            sql="consistency",
            notes=["Scores are on the judge's own scale. Where the first sd is near the second, judge more often."],
        )
    ],
    selection=RunSelection,
    verdict=_most_consistent,
    empty="No judge was asked several times: `run-evals --judge-samples 3` asks each three times.",
    examples=["shaberi consistency", "shaberi consistency --model my-model --tag july --format csv"],
)
