"""Verdicts of rules by the form that licensed them, and the measured error of each form."""

from typing import Any

from shaberi_dagster.reports.report import Report, Table, number, text
from shaberi_dagster.reports.requests import RunSelection


def _error(row: Any) -> str:
    """Return the wrong readings of a form in the corpus, and the bound that 95 % of such samples keep."""
    if row["corpus_read"] is None:
        return "not measured"
    return f"{row['corpus_wrong']} of {row['corpus_read']}, at most {row['at_most']:.0%}"


FORMS = Table(
    [
        text("judge"),
        text("form"),
        number("verdicts", total=True),
        number("right", total=True),
        text("wrong in the corpus", _error),
    ],
    sql="graders",
    totals=("verdicts", "right"),
)
"""A line for each rule and form."""

GRADERS = Report(
    "graders",
    "Show which forms of answers the verdicts of rules rest on, and how often each form errs.",
    [FORMS],
    selection=RunSelection,
    empty="No rule has graded an answer of these runs.",
    examples=[
        "shaberi graders                                all runs",
        "shaberi graders --model my-model --tag july",
    ],
    more="The corpus is replies that nobody tuned on; the bound is one-sided, of 95 % (Clopper-Pearson). "
    "Verdicts of earlier versions of a rule have no form.",
)
