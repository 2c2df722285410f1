"""Every form in which models give an answer, with answers of every kind."""

import json
import re
from pathlib import Path

import pytest

from shaberi_dagster.tasks.judges.rules.base import GradedQuestion
from shaberi_dagster.tasks.judges.rules.match import MatchGrader
from shaberi_dagster.tasks.judges.rules.maths import MathGrader
from shaberi_dagster.tasks.judges.rules.mcq import ChoiceGrader
from shaberi_dagster.tasks.judges.rules.numeric import NumericGrader
from tests.judges.rules import reply_forms as forms
from tests.sizes import size

pytestmark = pytest.mark.unit

_MATHS = [
    *("27", "-4", r"\frac{3}{8}", r"\frac38", "3/8", "0.375", ".0000672", r"3\sqrt{13}", r"6 - 5i", r"10,\!080", "p - q", r"\pi"),
    *(r"\left( 3, \frac{\pi}{2} \right)", "(2,4)", r"(-\infty, 2) \cup (3, \infty)", r"x \in [-2,7]", "1,-2", "x=5"),
    *("52_8", r"90^\circ", r"\$18.90", r"15\text{ cm}^2", r"\text{Evelyn}", r"\text{(C)}", "y = 2x + 3", "2220"),
    *(r"\begin{pmatrix} -1/3 \\ 2/3 \end{pmatrix}", r"1 \pm \sqrt{19}", "x^3+3x-6", "(a+5)(b+2)"),
]  # fmt: skip
UNANNOUNCED = [
    {**forms.SEEN, **forms.KEPT}[name]
    for name in (
        *("display", "therefore, bare", "environment", "therefore sign", "display lines", "yields"),
        *("fence", "thinking"),
    )
]
_OPTIONS = ("a red lamp on a table", "the blue one", "every second green lamp", "all of them, in turn")
_LAMP = GradedQuestion("Which lamp is it?", "A", _OPTIONS)
_LAMPS = "How many lamps do they carry?"


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("number", "form"), list(enumerate([*forms.SEEN.values(), *forms.KEPT.values()])), ids=[*forms.SEEN, *forms.KEPT]
)
def test_a_mathematical_answer_is_right_in_every_form_and_another_one_never(number, form):
    grader, step = MathGrader(), size(4, 1)  # a quarter of the answers for each form, others for the next
    for at in range(number % step, len(_MATHS), step):
        reference = _MATHS[at]
        item = GradedQuestion("What is it?", reference)
        # An expression in symbols that the question does not have is read only where it is announced.
        right = (True, None) if form in UNANNOUNCED and re.search("[a-z]", reference) else (True,)
        assert grader.grade(forms.filled(form, reference), item).correct in right, reference
        other = _MATHS[at - 6]
        assert grader.grade(forms.filled(form, other), item).correct is not True, (other, reference)


@pytest.mark.parametrize("form", [*forms.CHOICES_SEEN, *forms.CHOICES_KEPT])
def test_a_letter_is_read_in_every_form(form):
    letters = "ABCD"
    replies = [forms.chosen(form, one, _OPTIONS[at], letters[at - 3]) for at, one in enumerate(letters)]
    found = [ChoiceGrader().extract(reply, _LAMP) for reply in replies]
    if form in forms.CHOICES_NOT_READ:
        assert all(letter in (None, wanted) for letter, wanted in zip(found, letters, strict=True))
    else:
        assert found == list(letters)


@pytest.mark.parametrize("form", forms.CHOICES_UNCLEAR)
def test_no_letter_is_guessed(form):
    assert ChoiceGrader().extract(form.format(*_OPTIONS), _LAMP) is None


@pytest.mark.parametrize("form", [*forms.NUMBERS_SEEN, *forms.NUMBERS_KEPT])
def test_a_number_is_read_in_every_form(form):
    for number in ("8", "36", "0.75", "-4", "1234.5"):
        reply = forms.numbered(form, number, other="77")
        assert NumericGrader().grade(reply, GradedQuestion(_LAMPS, number)).correct is True, reply


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("They carry twenty-one lamps.", "21"),
        ("one hundred and five", "105"),
        ("The answer is three thousand two hundred.", "3200"),
        ("The answer is negative five.", "-5"),
        ("Two and a half", "2.5"),
        ("a dozen", "12"),
        ("half a dozen", "6"),
        ("two dozen lamps", "24"),
        ("three quarters", "0.75"),
        ("It is two and one third.", "7/3"),
        ("1'234.50", "1234.5"),
        ("1.234,56", "1234.56"),
        ("1 234,5", "1234.5"),
        ("1.234.567", "1234567"),
        ("3,5", "3.5"),
        ("1,234.56", "1234.56"),
        ("12,345", "12345"),
    ],
)
def test_numbers_in_words_and_with_other_separators(answer, number):
    assert NumericGrader().grade(answer, GradedQuestion(_LAMPS, number)).correct is True


@pytest.mark.parametrize("reply", ["on the twenty-third day", "They add a third lamp.", "dozens of lamps"])
def test_words_that_are_no_number_are_none(reply):
    assert NumericGrader().extract(reply, GradedQuestion(_LAMPS, "3")) is None


@pytest.mark.parametrize(
    ("answer", "correct"),
    [
        ("Ada Byron", True),
        ("It was Ada Byron.", True),
        ("Answer: Ada Byron", True),
        ("Ada Byron\n\nQuestion: Who came second?\nAnswer: Bo Larsen", True),
        ("Bo Larsen beat Ada Byron.", None),
        ("Answer: Bo Larsen beat Ada Byron", None),
        ("Ada Byron lost to Bo Larsen", None),
        ("Ada Byron's brother", None),
    ],
)
def test_a_name_in_a_sentence_about_another_is_for_a_reader(answer, correct):
    assert MatchGrader().grade(answer, GradedQuestion("Who won?", "Ada Byron")).correct is correct


@pytest.mark.parametrize(
    "grader", [MathGrader(), ChoiceGrader(), NumericGrader(), MatchGrader()], ids=lambda one: one.name
)
def test_what_is_cut_in_the_middle_is_no_answer(grader):
    assert (
        grader.grade("We look at it step by step. The answer is", GradedQuestion("Which?", "B", _OPTIONS)).correct
        is None
    )


@pytest.mark.parametrize(
    "reply", [r"The answer is \frac{3}{", r"Thus we get \frac{3}{8} as the share of it", "The point (2, 4) it is"]
)
def test_a_fragment_of_an_expression_is_no_answer(reply):
    for fragment in ("3", "8", "4", "2"):
        assert MathGrader().grade(reply, GradedQuestion("What is it?", fragment)).correct is not True


@pytest.mark.acceptance
@pytest.mark.corpus
def test_all_published_math_answers_are_right_in_nearly_every_form_and_wrong_in_none(corpus: Path):
    grader, every_form = MathGrader(), list((forms.SEEN | forms.KEPT).items())
    step = size(38, 1)  # 2 of the 76 forms for each answer, others for the next
    verdicts = []
    with (corpus / "ensemble" / "public" / "math500_jianzhnie.jsonl").open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            row = json.loads(line)
            item = GradedQuestion(re.sub(r"\nPlease reason step by step.*", "", row["prompt"]), row["answer"])
            verdicts += [
                grader.grade(forms.filled(form, row["answer"]), item).correct
                for _, form in every_form[number % step :: step]
            ]
    assert False not in verdicts
    assert verdicts.count(True) / len(verdicts) >= 0.985
