"""The original's extractors, with their faults."""

import pytest

from tests.judges.rules import original

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("#### 1,234 and then 5", "1234"),
        ("the answer is 25%", "2"),
        ("answer: **36** in 7 days", "7"),
        ("95 minutes (or 1 hour and 35 minutes)", "35"),
        ("more than the Machine 9000", "9000"),
        ("(2,4)", "24"),
        (r"\frac{3}{8}", "8"),
        ("answer: 3, result = 4, 5", "4"),
        ("nothing", None),
        ("only 50%", None),
    ],
)
def test_the_number_is_the_original_s(text, number):
    assert original.number(text) == number


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("the options are many", "S"),
        (r"\boxed{B}", "B"),
        ("The correct answer is **C**.", "C"),
        ("The single best option letter is A", None),
        ("The single best option is B", None),
        ("I pick A, no, I choose (D)", "D"),
        ("B. something", "B"),
        ("(c).", "C"),
        ("Some text.\nD", "D"),
        ("nothing here", None),
    ],
)
def test_the_letter_is_the_original_s(text, letter):
    assert original.letter(text) == letter


@pytest.mark.parametrize(
    ("first", "second", "same"), [("36", "36.0", True), ("", "0", True), (None, "1", False), ("x", "1", False)]
)
def test_numbers_compare_as_the_original_compares_them(first, second, same):
    assert original.same_number(first, second) is same
