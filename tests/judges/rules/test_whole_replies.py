"""Whole replies in forms that nobody thought of when the rules were written: read, or left to a reader, never misread."""

import pytest

from shaberi_dagster.judges.rules.base import GradedQuestion
from shaberi_dagster.judges.rules.registry import GRADERS
from shaberi_dagster.llm.thinking import split_thinking
from tests.judges.rules import whole_replies as replies

pytestmark = pytest.mark.unit

RULES = {
    "rule:numeric": replies.NUMBERS,
    "rule:math": replies.EXPRESSIONS,
    "rule:mcq": replies.CHOICES,
    "rule:match": replies.NAMES,
}
OPTIONS = {replies.MOONS: replies.PLANETS, replies.MOONS_JA: replies.PLANETS_JA}


@pytest.mark.parametrize(("rule", "form"), [(rule, form) for rule, forms in RULES.items() for form in forms])
def test_a_reply_is_read_or_left_to_a_reader_and_never_misread(rule, form):
    reply = RULES[rule][form]

    def verdict(reference: str) -> bool | None:
        question = GradedQuestion(reply.question, reference, OPTIONS.get(reply.question, ()))
        return GRADERS[rule].grade(split_thinking(reply.text).answer, question).correct

    assert not any(verdict(other) for other in reply.others)
    if reply.says is not None:
        assert verdict(reply.says) is (True if reply.read else None)
