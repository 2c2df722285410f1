from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shaberi_dagster.tasks.benchmarks.choices import LETTERS, Choices
from shaberi_dagster.tasks.benchmarks.upstream import listed

pytestmark = pytest.mark.unit


def choices(stem: str = "Which?", options: tuple[str, ...] = ("p", "q", "r", "s"), right: int = 0) -> Choices:
    return listed(stem, options, right)


def test_options_are_written_in_the_order_with_their_letters():
    asked = choices(right=2)
    assert asked.text((2, 0, 3, 1)) == (
        "Which?\n\nOptions:\nA. r\nB. p\nC. s\nD. q\n\nRespond with the single best option letter."
    )
    assert asked.letter((2, 0, 3, 1)) == "A"
    assert asked.letter((0, 1, 2, 3)) == "C"


@given(
    stem=st.text(min_size=1),
    options=st.lists(st.text(), min_size=2, max_size=len(LETTERS)),
    right=st.integers(min_value=0),
)
def test_the_letter_names_the_right_option_whatever_the_question(stem, options, right):
    right %= len(options)
    asked = choices(stem, tuple(options), right)
    order = asked.shuffled_order()
    assert sorted(order) == list(range(len(options)))
    assert order[LETTERS.index(asked.letter(order))] == right
    assert asked.shuffled_order() == order


def test_the_order_follows_from_stem_and_options_and_not_from_which_is_right():
    orders = {choices(f"Which? {number}").shuffled_order() for number in range(40)}
    assert len(orders) > 10
    assert {choices(right=right).shuffled_order() for right in range(4)} == {choices().shuffled_order()}
    assert any(
        choices(options=("p", "q", "r", f"s{number}")).shuffled_order() != choices().shuffled_order()
        for number in range(5)
    )


def test_the_right_option_is_about_as_often_at_each_letter():
    asked = [choices(f"Question {number}") for number in range(4000)]
    counts = Counter(each.letter(each.shuffled_order()) for each in asked)
    # 1,000 each, with a standard deviation of 27.
    assert set(counts) == set("ABCD")
    assert max(abs(count - 1000) for count in counts.values()) < 110


@pytest.mark.parametrize(
    "option",
    ["None of the above", "All the above", "Both A and C", "A, B", "B & D", "neither A nor B", "the above options"],
)
def test_options_that_speak_of_others_keep_their_places(option):
    asked = [choices(f"Which? {number}", ("p", "q", "r", option)) for number in range(20)]
    assert {each.shuffled_order() for each in asked} == {(0, 1, 2, 3)}


@pytest.mark.parametrize("option", ["above 30 °C", "I and II", "X and Y", "a and b", "R and D", "A", "Plan A and more"])
def test_other_options_are_moved(option):
    asked = [choices(f"Which? {number}", ("p", "q", option)) for number in range(20)]
    assert len({each.shuffled_order() for each in asked}) > 1
