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


READ = {"rule:numeric": 47, "rule:math": 49, "rule:mcq": 49, "rule:match": 24}
"""How many replies of each rule are read at least; the others are left to a reader."""


def verdict(rule: str, reply: replies.Reply, reference: str) -> bool | None:
    question = GradedQuestion(reply.question, reference, OPTIONS.get(reply.question, ()))
    return GRADERS[rule].grade(split_thinking(reply.text).answer, question).correct


@pytest.mark.parametrize(("rule", "form"), [(rule, form) for rule, forms in RULES.items() for form in forms])
def test_a_reply_is_read_or_left_to_a_reader_and_never_misread(rule, form):
    reply = RULES[rule][form]
    assert not any(verdict(rule, reply, other) for other in reply.others)
    assert reply.says is None or verdict(rule, reply, reply.says) is not False


@pytest.mark.parametrize("rule", RULES)
def test_most_replies_are_read(rule):
    says = [(reply, reply.says) for reply in RULES[rule].values() if reply.says is not None]
    assert sum(verdict(rule, reply, said) is True for reply, said in says) >= READ[rule]
