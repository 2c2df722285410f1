"""The number that an answer gives."""

import pytest

from shaberi_dagster.tasks.judges.rules.base import GradedQuestion
from shaberi_dagster.tasks.judges.rules.numbers import parse_number
from shaberi_dagster.tasks.judges.rules.numeric import NumericGrader

pytestmark = pytest.mark.unit

GRADER = NumericGrader()


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("#### 36", "36"),
        ("9 * 4 = 36\n#### 36\n", "36"),
        (r"So we get \boxed{36}.", "36"),
        (r"\boxed{\$1,234.50}", "1234.5"),
        (r"\boxed{\frac{3}{4}}", "0.75"),
        ("The answer is **36**.", "36"),
        ("The answer is 25%.", "25"),
        ("Final Answer: 36 lamps", "36"),
        ("**Answer:**\nThere are **15 litres** in the remaining 24 litres.", None),
        ("She pays $1,234,567 in total.", None),
        ("Total: 4 + 5 = 9\n\nThey carry **9 lamps**.", "9"),
        ("They carry **9 lamps** (3 in each of 3 boxes).", "9"),
        ("It takes **48 hours** (or 2 days).", None),
        ("It takes 1 hour and 35 minutes.", None),
        ("The total is 5 million.", "5000000"),
        ("合計は33万円です。", None),
        ("合計は3万3000円です。", None),
        ("答え：１２個", "12"),
        ("答えは▲5です。", "-5"),
        ("答えは1時間半です。", "1.5"),
        ("答えは2年半です。", "2.5"),
        ("答えは25％です。", "25"),
        ("答えは12個です。全部で3箱あります。", "12"),
        ("The result is -7.", "-7"),
        ("The temperature is −7 degrees.", None),
        ("It is 1 1/2 cups.", "1.5"),
        ("She needs one third, that is 1/3 of it.", None),
        ("<think>maybe the answer is 5</think>The answer is 6.", "6"),
        ("The answer is 5. Wait, I forgot one. The answer is 6.", "6"),
        ("The lamps that they carry are twelve.", "12"),
        ("The answer is 36.\n\n**Verification:**\n4 * 9 = 36 and 36 - 20 = 16, which holds true.", "36"),
        ("There is no way to know.", None),
        ("", None),
        ("####", None),
    ],
)
def test_the_final_number_of_an_answer(answer, number):
    assert GRADER.extract(answer, GradedQuestion("How many lamps do they carry?", "36")) == number


@pytest.mark.parametrize(
    ("question", "answer", "number"),
    [
        (
            "How much more does the Lamper 3000 earn than the Lamper 900?",
            "It earns **$640** more than the Lamper 900.",
            "640",
        ),
        ("How much more does the Lamper 3000 earn?", "The Lamper 3000 earns $640 more.", "640"),
        ("How many lamps are made in 7 days?", "They make 91 lamps in 7 days.", "91"),
        ("How many minutes does it take?", "It takes 1 hour and 35 minutes.", "95"),
        ("How many seconds do they sing?", "They sing for **540 seconds** (or **9 minutes**).", "540"),
    ],
)
def test_numbers_of_the_question_are_not_the_answer(question, answer, number):
    assert GRADER.extract(answer, GradedQuestion(question, "1")) == number


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("45.00", "45", True),
        ("1,000", "1000", True),
        ("1/3", "0.3333333", True),
        ("1/3", "0.33", False),
        ("$5", "5 dollars", True),
        ("12345678", "12345679", True),
        ("1234567", "1234569", False),
        ("0", "0", True),
        ("0", "1", False),
        ("5", "-5", False),
        ("none", "none", False),
    ],
)
def test_numbers_are_compared_by_value(first, second, same):
    assert GRADER.same(first, second) is same


def test_votes_for_one_number_are_one_spelling():
    assert {GRADER.canonical(text) for text in ("45.00", "45", "$45", "90/2")} == {"45"}


@pytest.mark.parametrize("text", ["1/0", "9" * 10_000, "1e999", "1/" + "9" * 10_000])
def test_odd_numbers_are_read_without_an_error(text):
    assert parse_number(text) is None or parse_number(text) > 0


def test_an_answer_without_a_number_is_an_abstention():
    verdict = GRADER.grade("I cannot say.", GradedQuestion("How many?", "3"))
    assert (verdict.correct, verdict.extracted) == (None, None)


@pytest.mark.parametrize(
    "answer",
    [
        "They carry 130, which is fewer than the 156 that they left.",
        "It is either 130 or 140.",
        "I'd say between 130 and 140 lamps.",
        "They carry at least 130 lamps.",
        "12 porters with 24 lamps each make 288. 156 are left behind, so",
        "Multiply 12 by 24, is that what you mean?",
        "I cannot say, for 12 porters may carry any number.",
        "# 130\n\nThere are 12 porters with 24 lamps each, 288 in all.\nOf these, 156 are left behind.",
    ],
)
def test_where_another_number_may_be_meant_or_none_a_reader_decides(answer):
    assert GRADER.extract(answer, GradedQuestion("How many lamps do 12 porters carry?", "130")) is None


def test_calculations_in_angle_brackets_are_no_part_of_the_sentence():
    answer = "Each of the 4 boxes costs $4.00, so she pays 4*4 = $<<4*4=16.00>>16.00"
    assert GRADER.extract(answer, GradedQuestion("How many dollars does she pay?", "16")) == "16"


@pytest.mark.parametrize(
    ("question", "said"),
    [("全体に占める割合はいくつですか。", "0.25"), ("What fraction is left?", "0.25"), ("何％が残りましたか。", "25")],
)
def test_a_percentage_is_a_share_where_one_is_asked_for(question, said):
    assert GRADER.extract("答えは25％です。", GradedQuestion(question, "")) == said
