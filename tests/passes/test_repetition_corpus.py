"""Hand-labelled real answers: how right and how complete the findings are.

`tuning` was looked at while the pass was made. `held_out` was labelled before the pass was run on it; docs/design/passes.md
says what it measured then and what was mended afterwards.
"""

import hashlib
import json
import os
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from shaberi_dagster.passes.base import Answer
from shaberi_dagster.passes.repetition import Repetition, RepetitionConfig

pytestmark = pytest.mark.corpus

FLOORS = {"tuning": (0.98, 0.9), "held_out": (0.94, 0.86)}
"""Precision and recall at least."""


def labels_of(name: str) -> list[dict]:
    path = Path(__file__).with_name(f"{name}_labels.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def real_answers(labels: list[dict]) -> dict[tuple[str, str], Answer]:
    """The labelled answers as they stand in the trees, by sha256 of question and answer."""
    wanted = {(label["question_id"], label["answer_hash"]) for label in labels}
    found = {}
    for row in rows_of_the_trees():
        question, text = row["Question"], row["ModelAnswer"] or ""
        key = (sha256(question), sha256(text))
        if key in wanted:
            found[key] = Answer("corpus", key[0], question, None, None, None, text, None)
    assert found.keys() == wanted
    return found


def rows_of_the_trees() -> Iterator[dict]:
    archive = Path(os.environ["SHABERI_CORPUS"]) / "legacy" / "subset.tar.zst"
    stream = pa.CompressedInputStream(pa.OSFile(str(archive)), "zstd")
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            if "/model_answers/" in member.name and (file := tar.extractfile(member)):
                yield from (json.loads(line) for line in file if line.strip())


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@pytest.fixture(scope="module")
def labels():
    return labels_of("repetition")


@pytest.fixture(scope="module")
def findings(labels):
    one = Repetition(RepetitionConfig())
    return {key: one.examine(answer) for key, answer in real_answers(labels).items()}


@pytest.mark.parametrize("half", ["tuning", "held_out"])
def test_repetition_is_found_where_a_reader_found_it(labels, findings, half):
    outcomes = {(yes, found): 0 for yes in (True, False) for found in (True, False)}
    for label in labels:
        if label["half"] == half:
            finding = findings[label["question_id"], label["answer_hash"]]
            outcomes[label["label"], finding.severity > 0] += 1
    right, wrong, missed = outcomes[True, True], outcomes[False, True], outcomes[True, False]
    precision, recall = right / (right + wrong), right / (right + missed)
    sys.stdout.write(f"\n{half}: {sum(outcomes.values())} answers, {right} right, {wrong} wrong, {missed} missed\n")
    sys.stdout.write(f"precision {precision:.3f}, recall {recall:.3f}\n")
    assert precision >= FLOORS[half][0]
    assert recall >= FLOORS[half][1]


def test_the_evidence_covers_the_passages_a_reader_marked(labels, findings):
    marked = covered = 0
    for label in labels:
        spans = findings[label["question_id"], label["answer_hash"]].details["spans"]
        for start, end in label["spans"]:
            marked += 1
            covered += any(first < end and start < last for first, last, _ in spans)
    assert marked >= 30
    assert covered >= 0.95 * marked


def test_there_are_enough_labels_of_either_kind(labels):
    for half in FLOORS:
        kinds = [label["label"] for label in labels if label["half"] == half]
        assert min(kinds.count(True), kinds.count(False)) >= 40
