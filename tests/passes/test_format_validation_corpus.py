"""Hand-labelled real answers: how right and how complete the violations are, by kind and together.

`unfinished` has labels of its own: `test_unfinished_corpus.py`.
"""

import sys
from collections import Counter

import pytest

from shaberi_dagster.tasks.passes.format_validation import FormatValidation, FormatValidationConfig
from tests.passes.labelled import labels_of, real_answers

pytestmark = pytest.mark.corpus

ELSEWHERE = "unfinished"
FLOORS = {"tuning": (0.97, 0.95), "held_out": (0.95, 0.92)}
"""Precision and recall at least."""


@pytest.fixture(scope="module")
def labels():
    return labels_of("format_validation")


@pytest.fixture(scope="module")
def outcomes(labels):
    """Right, wrong and missed violations by half and kind."""
    one = FormatValidation(FormatValidationConfig())
    found = {key: set(one.examine(answer).details["violations"]) for key, answer in real_answers(labels).items()}
    counts: Counter[tuple[str, str, str]] = Counter()
    for label in labels:
        seen = found[label["question_id"], label["answer_hash"]] - {ELSEWHERE}
        true = set(label["labels"]) - {ELSEWHERE}
        for outcome, kinds in (("right", seen & true), ("wrong", seen - true), ("missed", true - seen)):
            counts.update((label["half"], kind, outcome) for kind in kinds)
    return counts


def rates(outcomes, half):
    right, wrong, missed = (
        sum(n for (h, _, o), n in outcomes.items() if (h, o) == (half, outcome))
        for outcome in ("right", "wrong", "missed")
    )
    return right / (right + wrong), right / (right + missed)


@pytest.mark.parametrize("half", ["tuning", "held_out"])
def test_violations_are_found_where_a_reader_found_them(outcomes, half):
    for kind in sorted({kind for _, kind, _ in outcomes}):
        row = [outcomes[half, kind, outcome] for outcome in ("right", "wrong", "missed")]
        sys.stdout.write(f"{half:9} {kind:15} right {row[0]:3} wrong {row[1]:3} missed {row[2]:3}\n")
    precision, recall = rates(outcomes, half)
    sys.stdout.write(f"{half:9} all {precision:.3f} {recall:.3f}\n")
    assert precision >= FLOORS[half][0]
    assert recall >= FLOORS[half][1]


def test_both_halves_have_answers_with_and_without_violations(labels):
    for half in FLOORS:
        chosen = [bool(label["labels"]) for label in labels if label["half"] == half]
        assert min(chosen.count(True), chosen.count(False)) >= 30
