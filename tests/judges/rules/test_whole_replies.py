"""Whole replies in forms that nobody thought of when the rules were written: read, or left to a reader, never misread."""

from pathlib import Path

import pytest
import yaml

from shaberi_dagster.llm.thinking import split_thinking
from shaberi_dagster.tasks.judges.rules.base import GradedQuestion
from shaberi_dagster.tasks.judges.rules.registry import GRADERS

pytestmark = pytest.mark.unit

REPLIES = yaml.safe_load(Path(__file__).with_name("whole_replies.yaml").read_text(encoding="utf-8"))
READ = {"rule:numeric": 47, "rule:math": 49, "rule:mcq": 49, "rule:match": 24}
"""How many replies of each rule are read at least; the others are left to a reader."""


def verdict(rule: str, reply: dict, reference: str) -> bool | None:
    text = REPLIES["questions"].get(reply["question"], reply["question"])
    question = GradedQuestion(text, reference, tuple(REPLIES["options"].get(reply["question"], ())))
    return GRADERS[rule].grade(split_thinking(reply["text"]).answer, question).correct


@pytest.mark.parametrize(("rule", "form"), [(rule, form) for rule in READ for form in REPLIES[rule]])
def test_a_reply_is_read_or_left_to_a_reader_and_never_misread(rule, form):
    reply = REPLIES[rule][form]
    assert not any(verdict(rule, reply, other) for other in reply["others"])
    assert reply["says"] is None or verdict(rule, reply, reply["says"]) is not False


@pytest.mark.parametrize("rule", READ)
def test_most_replies_are_read(rule):
    says = [reply for reply in REPLIES[rule].values() if reply["says"] is not None]
    assert sum(verdict(rule, reply, reply["says"]) is True for reply in says) >= READ[rule]
