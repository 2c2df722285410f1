"""Short free texts, and yes or no."""

import pytest

from shaberi_dagster.tasks.judges.rules.base import GradedQuestion
from shaberi_dagster.tasks.judges.rules.match import MatchGrader, YesNoGrader, normalised

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("answer", "reference", "correct"),
    [
        ("Ada Byron", "Ada Byron", True),
        ("ada byron.", "Ada Byron", True),
        ("The Ada Byron", "Ada Byron", True),
        ("It was **Ada Byron**.\n\nShe was born long before.", "Ada Byron", True),
        ("Answer: Ada Byron", "Ada Byron", True),
        ("答え：ペンギン", "ペンギン", True),
        ("Ada Byron wrote it.", "Ada Byron", True),
        ("Zoë Müller", "Zoe Muller", True),
        ("ＡＢＣ", "abc", True),
        ("5 March 1999", "March 5, 1999", True),
        ("1999年3月5日", "March 5th, 1999", True),
        ("1,200", "1200", True),
        ("It was not Ada Byron.", "Ada Byron", None),
        ("Either Ada Byron or Bo Larsen.", "Ada Byron", None),
        ("Bo Larsen", "Ada Byron", None),
        ("I don't know.", "Ada Byron", False),
        ("I'm not sure, maybe Bo.", "Ada Byron", False),
        ("わかりません。", "ペンギン", False),
        (" ".join(["word"] * 60) + " Ada Byron", "Ada Byron", None),
        ("Adams wrote it.", "Ada", None),
        ("", "Ada Byron", None),
    ],
)
def test_a_short_text_is_right_or_for_a_reader(answer, reference, correct):
    assert MatchGrader().grade(answer, GradedQuestion("Who wrote it?", reference)).correct is correct


def test_an_alias_is_as_right_as_the_reference():
    item = GradedQuestion("Who?", "Ada Byron", aliases=("Countess of Lovelace",))
    assert MatchGrader().grade("the countess of Lovelace", item).correct is True


def test_words_of_the_question_are_no_proof():
    item = GradedQuestion("Was it in 1999 or in 2001?", "1999")
    assert MatchGrader().grade("In 1999 they began, it opened in 2001.", item).correct is None
    assert MatchGrader().grade("1999", item).correct is True


def test_impossible_dates_are_left_as_they_are():
    assert normalised("the 99 foo 1999") == "99 foo 1999"


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        ("yes", "yes"),
        ("No.", "no"),
        ("**Yes**", "yes"),
        ("Yes, the documents say otherwise.", "yes"),
        ("The documents support it. So: no", "no"),
        ("The answer is yes.", "yes"),
        ("No document says so.", None),
        ("Yes and no. The answer is no.", "no"),
        ("Yes, partly; in the end, no", None),
        ("はい、そうです。", "yes"),
        ("答えは「いいえ」です", "no"),
        (r"\boxed{yes}", "yes"),
        ("I cannot tell.", None),
        ("", None),
    ],
)
def test_yes_or_no(answer, word):
    assert YesNoGrader().extract(answer, GradedQuestion("Is it?", "yes")) == word
