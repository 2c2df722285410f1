"""Verdicts of rules by the form that licensed them, the measured error of each form, and what audits found."""

from typing import Any

from shaberi_dagster.reports.audited import rate_cell, with_rates
from shaberi_dagster.reports.blocks import Column, Report, Table, known, number, text
from shaberi_dagster.reports.requests import RunSelection


def _error(row: Any) -> str:
    """Return the wrong readings of a form in the corpus, and the bound that 95 % of such samples keep."""
    if row["corpus_read"] is None:
        return "not measured"
    return f"{row['corpus_wrong']} of {row['corpus_read']}, at most {row['at_most']:.0%}"


_NOT_AUDITED = "No verdict is audited: `shaberi graders audit 200 --judge-model MODEL` does it."

FORMS = Table(
    [
        text("judge"),
        text("form"),
        number("verdicts", total=True),
        number("right", total=True),
        text("wrong in the corpus", _error),
        text("wrong in audits", rate_cell, where=known("n_audited")),
    ],
    sql="graders",
    totals=("verdicts", "right"),
    remarks=[lambda rows: "" if any(row["n_audited"] for row in rows) else _NOT_AUDITED],
    derive=with_rates,
)
"""A line for each rule and form."""

AUDITED = Table(
    [
        text("judge"),
        text("benchmark"),
        text("wrong in audits", rate_cell),
        number("share wrong", lambda row: f"{row['share_wrong']:.1%}"),
        text("auditors", folds=True),
        text("last audit", "audited_on"),
    ],
    name="audited",
    sql="audited",
    derive=with_rates,
)
"""A line for each rule and benchmark with an audit."""

GRADERS = Report(
    "graders",
    "Show which forms of answers the verdicts of rules rest on, and how often each form errs.",
    [FORMS, AUDITED],
    selection=RunSelection,
    empty="No rule has graded an answer of these runs.",
    examples=["shaberi graders                                all runs", "shaberi graders --model my-model --tag july"],
    more="The corpus: replies that no rule was tuned on; its bound: one-sided, of 95 % (Clopper-Pearson). "
    "Verdicts of earlier versions of a rule have no form. In audits a model graded random verdicts; the bound "
    "is the upper end of the 95 % interval, and what is not settled counts as wrong.",
)

DISAGREEMENTS = Report(
    "disagreements",
    "Show audited verdicts of rules with which the model disagrees, for a person to settle.",
    [
        Table(
            [
                text("judge"),
                text("benchmark"),
                text("form", null="not recorded"),
                Column("rule", "rule_verdict"),
                Column("model", "model_verdict"),
                text("passage", cuts="end"),
                text("question", cuts="end"),
                text("reference", cuts="end"),
            ],
            sql="disagreements",
        )
    ],
    selection=RunSelection,
    empty="No audited verdict is waiting for a person.",
)
"""Read with `shaberi graders disagreements`."""
