"""The letter that an answer gives."""

import pytest

from shaberi_dagster.tasks.judges.rules.base import GradedQuestion
from shaberi_dagster.tasks.judges.rules.mcq import ChoiceGrader, offered

pytestmark = pytest.mark.unit

GRADER = ChoiceGrader()
LAMPS = GradedQuestion("Which?", "C", ("red lamp", "blue lamp", "green lamp", "green lamp with a shade"))


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        ("C", "C"),
        ("(C)", "C"),
        ("c", "C"),
        ("C.", "C"),
        ("**C**", "C"),
        ("C) green lamp", "C"),
        ("The answer is (C)", "C"),
        ("**Answer: C**", "C"),
        ("Answer: **C**. Because it is.", "C"),
        ("\\boxed{\\text{C}}", "C"),
        ("$\\boxed{C}$", "C"),
        ("\\boxed{(C) green lamp}", "C"),
        ("Option C is correct because A is wrong.", "C"),
        ("答えはCです。", "C"),
        ("正解は「C」です", "C"),
        ("答え：Ｃ", "C"),
        ("C が正解です。", "C"),
        ("選択肢Cが最も適切です。", "C"),
        ("The answer is not A but C.", "C"),
        ("Not A, but C.", "C"),
        ("First I thought the answer is A. But the correct answer is C.", "C"),
        ("The answer is A or C.", None),
        ("Both A and C are correct.", None),
        ("I would choose option C.", "C"),
        ("I pick C because B is too small.", "C"),
        ("Therefore, C.", "C"),
        ("The options are A, B, C and D. The best option letter is C", "C"),
        ("Options: none fit.", None),
        ("The answer is S", None),
        ("The answer is E.", None),
        ("The answer is a lamp.", None),
        ("I think the answer is I", None),
        ("red lamp", "A"),
        ("The answer is the green lamp with a shade.", "D"),
        ("It is the green lamp.", "C"),
        ("It is the red lamp or the blue lamp.", None),
        ("", None),
        ("I don't know.", None),
        ("<think>The answer is A.</think>C", "C"),
        ("Final answer:\n\nC", "C"),
        ("### Answer\nC", "C"),
        ("The correct option is: C", "C"),
        ("Correct Answer: (C)", "C"),
        ("Among these, C is the best choice.", "C"),
        ("A: wrong\nB: wrong\nC: right\nD: wrong\n\nThe answer is C.", "C"),
        ("A. no\nB. no\nC. yes\nD. no", None),
        ("My answer: C.\n\nA is a trap, B is too dark.", "C"),
        ("The most appropriate choice would be C.", "C"),
        ("So the answer is therefore **C) green lamp**.", "C"),
        ("ANSWER: C", "C"),
        ("The answer is $\\mathbf{C}$.", "C"),
        ("answer is `C`", "C"),
        ("The answer is option C: green lamp", "C"),
        ("The answer is C, not A.", "C"),
        ("Answer - C", "C"),
        ("We can eliminate A and B. That leaves C.", "C"),
        ("The correct answer is:\n\n**C. green lamp**", "C"),
        ("Given this, the answer must be C!", "C"),
        ("[C]", "C"),
        ("Choice C", "C"),
        ("Option C", "C"),
        ("答案是C", "C"),
        ("【答え】C", "C"),
        ("回答: C\n理由: Aは誤り。", "C"),
        ("The final answer is $\\boxed{\\textbf{C}}$. I hope it is correct.", "C"),
        ("A is incorrect. B is incorrect. C is correct. D is incorrect.", "C"),
        ("C seems right, but D is the correct answer.", "D"),
        ("If A were correct, the lamp would glow. So C is the answer.", "C"),
        ("Answer: c", "C"),
        ("the answer is (c)", "C"),
        ("Vitamin C is the best known. The answer is B.", "B"),
        ("DNA is correct.", None),
    ],
)
def test_the_option_that_an_answer_states(answer, letter):
    extracted = GRADER.extract(answer, LAMPS)
    assert (extracted and GRADER.canonical(extracted)) == letter


def test_thirteen_options_have_thirteen_letters():
    item = GradedQuestion("Which?", "M", tuple(f"lamp number {number}" for number in range(13)))
    assert GRADER.grade("The answer is M.", item).correct is True
    assert GRADER.grade("The answer is N.", item).correct is None


def test_options_are_read_from_the_question_if_they_are_only_there():
    item = GradedQuestion(
        "Which one?\n\n(A) red\n(B) blue\n(C) green\n\nWrite \\boxed{A}, \\boxed{B} or \\boxed{C}.", "B"
    )
    assert offered(item) == {"A": "red", "B": "blue", "C": "green"}
    assert GRADER.grade("The answer is blue.", item).correct is True
    assert GRADER.grade("The answer is D.", item).correct is None


def test_two_letters_in_the_last_statement_are_an_abstention_also_after_a_clear_one():
    assert GRADER.extract("The answer is A. On reflection, the answer is B or C.", LAMPS) is None
