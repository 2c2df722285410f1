"""Precision and recall of lang_mixing on real answers that were labelled by hand."""

import sys

import polars as pl
import pytest

from shaberi_dagster.tasks.passes.lang_mixing import LangMixing, LangMixingConfig
from tests.passes.labelled import key_of, labels_of, real_answers

pytestmark = pytest.mark.corpus

LABELS = labels_of("lang_mixing")


@pytest.fixture(scope="module")
def answers():
    return real_answers(LABELS)


@pytest.fixture(scope="module")
def judged(answers):
    """The labels with what the pass found."""
    examined = LangMixing(LangMixingConfig())
    rows = []
    for label in LABELS:
        finding = examined.examine(answers[key_of(label)])
        touched = sum(
            any(start < end_found and start_found < end for start_found, end_found, _ in finding.details["spans"])
            for start, end, _ in label["spans"]
        )
        rows.append(
            {
                **{name: label[name] for name in ("half", "stratum", "leak", "note", "answer_hash")},
                "found": finding.severity > 0,
                "spans": len(label["spans"]),
                "spans_touched": touched,
            }
        )
    return pl.DataFrame(rows)


def rates(rows):
    """Counts, precision, recall, and the share of labelled spans that a found span touches."""
    hit = (pl.col("leak") & pl.col("found")).sum()
    return rows.select(
        answers=pl.len(),
        leaks=pl.col("leak").sum(),
        found=pl.col("found").sum(),
        hits=hit,
        precision=hit / pl.col("found").sum(),
        recall=hit / pl.col("leak").sum(),
        span_recall=pl.col("spans_touched").sum() / pl.col("spans").sum(),
    )


def test_every_labelled_answer_is_in_the_corpus(answers):
    assert len(answers) == len(LABELS) >= 300


@pytest.mark.parametrize("half", [["tuning"], ["held_out"], ["tuning", "held_out"]], ids="+".join)
def test_precision_is_at_least_95_and_recall_at_least_90_percent(judged, half):
    rows = judged.filter(pl.col("half").is_in(half))
    result = rates(rows)
    wrong = rows.filter(pl.col("leak") != pl.col("found")).select("leak", "note", "stratum", "answer_hash")
    sys.stdout.write("\n".join(["", "+".join(half), str(result.to_dicts()[0]), *map(str, wrong.rows()), ""]))
    assert result["precision"].item() >= 0.95
    assert result["recall"].item() >= 0.90
