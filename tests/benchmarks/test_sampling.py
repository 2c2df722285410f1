from dataclasses import replace
from itertools import islice

import pytest

from shaberi_dagster.tasks.benchmarks.questions import Question, QuestionSet, content_sha256
from shaberi_dagster.tasks.benchmarks.sampling import mulberry32, ordered_questions, sample_questions, shuffled_indexes
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import sha256_text

pytestmark = pytest.mark.unit


def question_set(texts: list[str], name: str = "arc@n") -> QuestionSet:
    questions = tuple(
        Question(sha256_text(text), position, f"arc-{position - 1}", None, text, "A", None)
        for position, text in enumerate(texts, start=1)
    )
    return QuestionSet("arc", name, content_sha256(questions), questions, "folder:x", None)


WHOLE = question_set([f"Question {number}" for number in range(50)])


def ids(sample: QuestionSet) -> list[str]:
    return [each.question_id for each in sample.questions]


@pytest.mark.parametrize("order", ["pinned", "mulberry32"])
def test_a_larger_sample_begins_with_the_smaller_one(order):
    small, large = (sample_questions(WHOLE, n, order=order) for n in (10, 30))
    assert ids(large)[:10] == ids(small)
    assert len(set(ids(large))) == 30


def test_a_pinned_sample_does_not_depend_on_the_order_of_the_source():
    turned = question_set([each.question for each in reversed(WHOLE.questions)])
    sample, other = sample_questions(WHOLE, 10), sample_questions(turned, 10)
    assert (sample.name, sample.sha256, ids(sample)) == (other.name, other.sha256, ids(other))


def test_a_pinned_order_is_kept_when_questions_come_or_go():
    fewer = question_set([each.question for each in WHOLE.questions[:25]])
    kept = {each.question_id for each in fewer.questions}
    order = [each.question_id for each in ordered_questions(WHOLE) if each.question_id in kept]
    assert order == [each.question_id for each in ordered_questions(fewer)]


@pytest.mark.parametrize("order", ["pinned", "mulberry32"])
def test_another_seed_is_another_sample(order):
    assert ids(sample_questions(WHOLE, 10, seed=42, order=order)) != ids(
        sample_questions(WHOLE, 10, seed=43, order=order)
    )


def test_a_sample_is_a_set_of_its_own_in_its_own_order():
    sample = sample_questions(WHOLE, 3)
    assert [each.position for each in sample.questions] == [1, 2, 3]
    assert sample.sha256 == content_sha256(sample.questions) != WHOLE.sha256
    assert sample.name == f"arc@3-{sample.sha256[:8]}"
    asked = {each.question: each for each in WHOLE.questions}
    assert all(each == replace(asked[each.question], position=each.position) for each in sample.questions)


def test_the_name_of_a_sample_says_that_options_are_unshuffled():
    sample = sample_questions(replace(WHOLE, name="arc@50-12345678-unshuffled"), 3)
    assert sample.name == f"arc@3-{sample.sha256[:8]}-unshuffled"


@pytest.mark.parametrize("n", [50, 1000])
def test_as_many_as_there_are_or_more_is_the_set_itself(n):
    assert sample_questions(WHOLE, n) is WHOLE


@pytest.mark.parametrize("n", [0, -1])
def test_a_sample_of_none_is_refused(n):
    with pytest.raises(ConfigurationError, match="at least 1 question"):
        sample_questions(WHOLE, n)


def test_mulberry32_gives_the_numbers_that_javascript_gives():
    # Node 20, with Math.imul.
    assert [int(number * 2**32) for number in islice(mulberry32(42), 3)] == [2581720956, 1925393290, 3661312704]
    assert [int(number * 2**32) for number in islice(mulberry32(0), 3)] == [1144304738, 1416247, 958946056]


def test_a_shuffle_has_every_index_once():
    assert sorted(shuffled_indexes(1000)) == list(range(1000))
    assert shuffled_indexes(0) == []
    assert shuffled_indexes(1) == [0]


def test_a_place_without_a_question_counts_in_the_original_order():
    gap = replace(WHOLE, questions=tuple(each for each in WHOLE.questions if each.position != 7))
    with_it = [each.position for each in ordered_questions(WHOLE, order="mulberry32")]
    without = [each.position for each in ordered_questions(gap, order="mulberry32")]
    assert without == [position for position in with_it if position != 7]
