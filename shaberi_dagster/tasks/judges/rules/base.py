"""The base of rules: the question that a grader is given, the verdict that it returns, and its methods."""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MOST_QUOTED = 300
_EVIDENCE = re.compile(r"\w+ \[(\d+):(\d+)\]: ")


@dataclass(frozen=True)
class Verdict:
    """The result of grading one answer.

    Attributes:
        correct: Whether the answer is right; None if the grader abstains, and then somebody else has to decide.
        extracted: What the answer was found to say; None if nothing was found.
        reason: Why, in one line, without text of the answer.
        form: The name of the form that licensed the reading; None if nothing was read, or the rule has no forms.
        span: Where in the answer that form stands: from the first character to that after the last.
    """

    correct: bool | None
    extracted: str | None
    reason: str
    form: str | None = None
    span: tuple[int, int] | None = None

    def evidence(self, answer: str) -> str | None:
        """Return form, place and passage as judgements store them, like `answer_is [8:25]: The answer is 42`."""
        if self.form is None or self.span is None:
            return None
        start, end = self.span
        return f"{self.form} [{start}:{end}]: {answer[start:end][:_MOST_QUOTED]}"


@dataclass(frozen=True)
class GradedQuestion:
    """A question as graders know it.

    Attributes:
        text: The question as the model saw it.
        reference: The right answer: a number, LaTeX, an option's letter, yes/no or a short text.
        options: The texts of the options in the order in which they were shown; empty if the question has none, or
            has them only inside its text.
        aliases: Other texts that are as right as the reference.
    """

    text: str
    reference: str
    options: tuple[str, ...] = ()
    aliases: tuple[str, ...] = field(default=())

    @property
    def letters(self) -> str:
        """The letters of the options: as many as there are options."""
        return LETTERS[: len(self.options)]


class Grader(ABC):
    """A rule that reads an answer.

    Attributes:
        name: How verdicts name it: `rule:` and a word.
        version: Raised whenever a verdict may change.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    says_wrong: ClassVar[bool] = True
    """Whether it finds answers wrong; else other words may mean the same, and it abstains."""
    file_sha256: ClassVar[str | None] = None
    """Of a plugin's own file, whose every change may be one of what it does; None for the project's."""

    @abstractmethod
    def extract(self, answer: str, item: GradedQuestion) -> str | None:
        """Extract the final answer from a text, in its own words; None if that is not clear."""

    def canonical(self, extracted: str) -> str:
        """Give all that mean the same one spelling, which plurality counts."""
        return extracted

    def same(self, first: str, second: str) -> bool:
        """Return whether two extractions mean the same."""
        return self.canonical(first) == self.canonical(second)

    def grade(self, answer: str, item: GradedQuestion) -> Verdict:
        """Grade an answer: right, wrong, or the rule abstains.

        Args:
            answer: The whole text of the model, thinking included or not.
            item: The question.

        Returns:
            The verdict; it abstains where no answer was found.
        """
        extracted = self.extract(answer, item)
        if extracted is None:
            return Verdict(None, None, "no final answer found")
        correct = self.same(extracted, item.reference)
        return Verdict(correct, extracted, "equals the reference" if correct else "differs from the reference")


def span_of(evidence: str | None) -> tuple[int, int] | None:
    """Return the place in an answer that the stored evidence of a rule's verdict names; None for any other text."""
    found = _EVIDENCE.match(evidence or "")
    return (int(found[1]), int(found[2])) if found else None
