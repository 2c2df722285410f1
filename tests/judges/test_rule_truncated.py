"""Rules before answers that the token limit cut off."""

import pytest

from shaberi_dagster.tasks.benchmarks.questions import Question
from shaberi_dagster.tasks.benchmarks.registry import get_benchmark
from shaberi_dagster.tasks.judges.rule import RuleJudge
from shaberi_dagster.tasks.prompts.library import PromptLibrary
from shaberi_dagster.util.folders import project_folder

pytestmark = pytest.mark.unit

_QUESTION = "Ann has 3 apples and buys 4 more. How many apples does she have?"
_WORK = "She has 3 apples.\n\n3 + 4 = 7"


@pytest.mark.parametrize(
    ("text", "truncated", "correct"),
    [
        (_WORK, False, True),
        (_WORK, True, None),
        ("The answer is 7. To check, 7 - 4", True, True),
        ("So she has 7 apples.", True, True),
    ],
)
def test_the_end_of_a_cut_work_is_no_answer_and_an_announced_one_is(
    text: str, truncated: bool, correct: bool | None
) -> None:
    judge = RuleJudge(get_benchmark("gsm8k"), PromptLibrary(project_folder("prompts")))
    question = Question("q", 1, None, None, _QUESTION, "7", None)

    verdict = judge.case(question, {"answer": text, "truncated": truncated}).finding

    assert verdict.correct is correct, verdict
