"""The expression that an answer gives."""

import pytest

from shaberi_dagster.tasks.judges.rules.base import GradedQuestion
from shaberi_dagster.tasks.judges.rules.maths import MathGrader

pytestmark = pytest.mark.unit

GRADER = MathGrader()


@pytest.mark.parametrize(
    ("question", "reference", "answer"),
    [
        ("Find $x$.", r"\frac{3}{8}", r"We get $8x = 3$, so \boxed{\frac{3}{8}}."),
        ("Find $x$.", "5", r"First \boxed{4}. No: \boxed{5}."),
        ("Find all $x$.", "1,-2", r"$x = \boxed{1}$ or $x = \boxed{-2}$"),
        ("Find all $x$.", "1,-2", r"The solutions are $x = 1$ and $x = -2$, so \boxed{1, -2}."),
        ("Find $x$.", "5", "**Final Answer:**\n$x = 5$"),
        ("Find $x$.", "5", "The value of $x$ is 5.\n\n**Verification:**\n$2(5) + 1 = 11$, so the equation holds true."),
        ("Find the value of $a+b$.", "29", "With $a = 5$ and $b = 24$ we get\n$$a + b = 5 + 24 = 29$$"),
        ("Evaluate $(1+2i)6-3i$.", "6+9i", "**Final Answer:**\n$6 + 9i$"),
        ("What is the area?", r"15\text{ cm}^2", r"$$\text{Area} = \frac{1}{2} \times 30 = 15 \text{ cm}^2$$"),
        ("Which runner is fastest?", r"\text{Ada}", r"The fastest is \boxed{\text{Ada}}"),
        ("What are the roots?", r"1 \pm \sqrt{19}", r"The roots are $x = 1 \pm \sqrt{19}$."),
        ("Express it in base 8.", "52_8", "Therefore, $42_{10} = 52_8$."),
        ("$x$ を求めよ。", "5", "よって、$x = 5$ です。"),
        ("$x$ を求めよ。", r"\frac{1}{2}", "答えは $\\frac{1}{2}$ です。"),
        ("Find the sum.", "898", "\\begin{align*} S &= 211 + 420 + 267 \\\\ &= 898 \\end{align*}"),
        ("<b>Find</b> $x$.", "7", "<think>It is 6.</think>The answer is $x = 7$."),
    ],
)
def test_the_right_answer_is_found_in_its_statement(question, reference, answer):
    assert GRADER.grade(answer, GradedQuestion(question, reference)).correct is True


def test_a_wrong_answer_is_wrong():
    assert GRADER.grade(r"\boxed{\frac{5}{8}}", GradedQuestion("Find $x$.", r"\frac{3}{8}")).correct is False


def test_nothing_to_compare_is_an_abstention():
    assert GRADER.grade("I would have to think about that more", GradedQuestion("Find $x$.", "3")).correct is None


LEFT_TO_A_READER = [
    ("Find the plane.", "x + y - z = 0", "The plane is $x + y - z = 0$."),
    ("What was the price?", "36", "The price was $36.00 or so."),
    ("How many such integers are there?", "1", "There is only one such integer (60)."),
    ("Which point is it?", "(2,4)", "The resulting point is $(2, 4)$."),
    ("Find $x$.", "5", "$2x = 10$"),
    ("What is the inverse?", "44", "Now we are there.\n\nThus, $17 \\cdot 44 \\equiv 1 \\pmod{83}$."),
    ("Solve the system $x + y = 3$, $x - y = 1$.", "(2,1)", "Adding both gives $x$.\n\nThen $y = 1$."),
]


@pytest.mark.parametrize(("question", "reference", "answer"), LEFT_TO_A_READER)
def test_what_the_question_does_not_ask_for_is_left_to_a_reader(question, reference, answer):
    assert GRADER.grade(answer, GradedQuestion(question, reference)).correct is None


@pytest.mark.parametrize("head", ["# 3/8", "# $\\frac{3}{8}$", "## **3/8**", "**3/8**", "$$\\frac{3}{8}$$", "3/8"])
@pytest.mark.parametrize(
    ("work", "reference"),
    [
        ("We count: $3 + 5 = 8$ balls in all, of which $3$ are red.", "5/8"),
        ("1. Total is $3 + 5 = 8$.\n2. Red are $3$.\n\nDouble check: $5/8 + 3/8 = 1$.", "5/8"),
        ("The share is the number of red balls over that of all balls, which is $3+5=8$.", "5/8"),
        ("There are 3 + 5 = 8 balls.\n\n3 of them are red, and 3/8 = 0.375.", "5/8"),
        ("There are 8 balls.\n\nAnswer: 5/8", r"\frac{3}{8}"),
    ],
)
def test_an_expression_above_its_work_never_stands_against_it(head, work, reference):
    question = GradedQuestion("A bag holds 3 red and 5 blue balls. How probable is a red one?", reference)
    assert GRADER.grade(f"{head}\n\n{work}", question).correct is not True


@pytest.mark.parametrize("said", ["2; 3", "{2;3}", r"\{2; 3\}", r"\boxed{3;2}", "2、3"])
def test_sets_may_have_other_separators(said):
    question = GradedQuestion("Find all solutions of $x^2-5x+6=0$.", "2,3")
    assert GRADER.grade(f"The answer is {said}.", question).correct is True


@pytest.mark.parametrize("reply", ["The answer is 3 + 4 * 2.", r"\boxed{3+4*2}"])
def test_the_expression_of_the_question_is_no_answer(reply):
    assert GRADER.grade(reply, GradedQuestion("What is 3 + 4 * 2?", "11")).correct is None
    assert GRADER.grade(reply, GradedQuestion("Write 3 + 4 * 2 without words.", "3+4*2")).correct is True
