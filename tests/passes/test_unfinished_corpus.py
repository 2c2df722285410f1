"""Hand-labelled ends of real answers: how often `unfinished` is right, and how much of what breaks off it finds.

A reader saw the last 80 to 90 characters, not what the pass says, and marked those that stop inside a sentence, a word
or an entry of a list, announce what does not come, or run on as a loop of words. Weights are those of everyday answers.
`first` is of model families that were kept away until then, `second` was drawn after the rules were changed for it.
"""

import pytest

from shaberi_dagster.tasks.passes.format_validation import FormatValidation, FormatValidationConfig
from tests.passes.labelled import key_of, labels_of, real_answers
from tests.passes.weighted import rates

pytestmark = pytest.mark.corpus

FLOORS = {
    "first": (0.94, 0.86),
    "second": (0.96, 0.87),
    "llama": (0.95, 0.87),
    "glm": (0.94, 0.84),
    "mistral": (0.95, 0.9),
}
"""Precision and recall at least, by sample and by family; the others have too few cuts."""


@pytest.fixture(scope="module")
def labels():
    return labels_of("unfinished")


@pytest.fixture(scope="module")
def found(labels):
    one = FormatValidation(FormatValidationConfig())
    answers = real_answers(labels)
    return {key for key, answer in answers.items() if "unfinished" in one.examine(answer).details["violations"]}


@pytest.mark.parametrize("part", FLOORS)
def test_what_breaks_off_is_found_and_complete_texts_are_left_alone(labels, found, part):
    own = [label for label in labels if part in {label["sample"], label["family"]}]
    measured = rates(own, lambda label: label["unfinished"], lambda label: key_of(label) in found)
    assert measured.precision.value >= FLOORS[part][0], measured
    assert measured.recall.value >= FLOORS[part][1], measured


def test_both_samples_have_enough_of_either_kind(labels):
    for sample in ("first", "second"):
        chosen = [label["unfinished"] for label in labels if label["sample"] == sample]
        assert min(chosen.count(True), chosen.count(False)) >= 140
