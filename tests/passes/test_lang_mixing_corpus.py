"""Precision and recall of lang_mixing on real answers that were labelled by hand."""

import hashlib
import json
import os
import sys
import tarfile
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from shaberi_dagster.passes.base import Answer
from shaberi_dagster.passes.lang_mixing import LangMixing, LangMixingConfig

pytestmark = pytest.mark.corpus

LABELS = [json.loads(line) for line in Path(__file__).with_name("lang_mixing_labels.jsonl").read_text().splitlines()]


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture(scope="module")
def questions():
    """Reference and criteria by question_id."""
    folder = Path(os.environ["SHABERI_CORPUS"]) / "questions"
    rows = [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.open(encoding="utf-8")]
    return {row["question_sha256"]: row for row in rows}


@pytest.fixture(scope="module")
def answers():
    """(question, answer) of the labelled rows, by (question_id, answer_hash); the archive is read as a stream."""
    wanted = {(label["question_id"], label["answer_hash"]) for label in LABELS}
    files = {(label["source"], label["dataset"], label["model"]) for label in LABELS}
    archive = pa.CompressedInputStream(
        pa.OSFile(str(Path(os.environ["SHABERI_CORPUS"]) / "legacy" / "subset.tar.zst")), "zstd"
    )
    found = {}
    with tarfile.open(fileobj=archive, mode="r|") as tar:
        for member in tar:
            path = Path(member.name)
            if "model_answers" not in path.parts or (path.parts[0], path.parent.name, path.stem) not in files:
                continue
            for line in tar.extractfile(member).read().decode().split("\n"):
                row = json.loads(line) if line else {"ModelAnswer": None}
                if row["ModelAnswer"]:
                    key = (sha256(row["Question"]), sha256(row["ModelAnswer"]))
                    if key in wanted:
                        found[key] = (row["Question"], row["ModelAnswer"])
    return found


@pytest.fixture(scope="module")
def judged(answers, questions):
    """The labels with what the pass found."""
    examined = LangMixing(LangMixingConfig())
    rows = []
    for label in LABELS:
        question, text = answers[label["question_id"], label["answer_hash"]]
        given = questions.get(label["question_id"], {})
        finding = examined.examine(
            Answer(
                benchmark=label["dataset"],
                question_id=label["question_id"],
                question=question,
                category=given.get("category"),
                reference=given.get("reference"),
                criteria=given.get("criteria"),
                text=text,
                truncated=None,
            )
        )
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
