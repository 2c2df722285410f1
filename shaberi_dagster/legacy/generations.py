"""Which answers of a model to a benchmark belong together.

A judgement says which text it judged, and that text is not always the stored answer. A *generation* is a set of
answers that is consistent with every file assigned to it: one answer per question and sample. A judgement file that
contradicts the stored answers in one row was made for other answers, so the whole file goes to a generation of its
own, even where some texts agree (short answers do by chance).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from shaberi_dagster.benchmarks.questions import Question, QuestionSet
from shaberi_dagster.legacy.questions import QuestionIndex
from shaberi_dagster.legacy.rows import Row
from shaberi_dagster.legacy.tree import LegacyFile
from shaberi_dagster.llm.thinking import split_thinking

AnswerForm = Literal["as_stored", "thinking_stripped", "null_as_empty"]

# What the legacy suite removed before judging since 2025-06-19: complete blocks only.
_OPENING = re.compile(r"<(?:think|thinking|reason)>", re.IGNORECASE)
_CLOSING = re.compile(r"</(?:think|thinking|reason)>", re.IGNORECASE)

SampleKey = tuple[str, int]
"""Question id, and which of the file's rows of this question (0 is the first)."""


@dataclass(frozen=True)
class Part:
    """The rows of a file that are of one benchmark.

    Attributes:
        file: The file.
        benchmark: Their benchmark.
        question_set: The set that they are, or are a part of.
        rows: By question and occurrence, in the file's order.
    """

    file: LegacyFile
    benchmark: str
    question_set: QuestionSet
    rows: dict[SampleKey, Row]

    @property
    def question_ids(self) -> set[str]:
        """The questions it has rows of."""
        return {question_id for question_id, _ in self.rows}


@dataclass
class Sample:
    """One answer of a generation.

    Attributes:
        row: The row that it was first seen in.
        file: The file of that row.
        stored: Whether that is an answer file, not a judgement.
        judged: The text that was judged; None until a judgement file is assigned.
        is_judged: Whether one is.
    """

    row: Row
    file: LegacyFile
    stored: bool
    judged: str | None = None
    is_judged: bool = False

    def allows(self, judged: str | None) -> bool:
        """Whether a judgement of that text can be of this answer."""
        if self.is_judged:
            return judged == self.judged
        raw = self.row.answer
        return judged == raw or (self.stored and form_of(raw, judged) is not None)


@dataclass
class Generation:
    """Answers of a model to a benchmark that belong together.

    Attributes:
        number: From 1, in the order in which they were found; stored answers come first.
        benchmark: The benchmark.
        question_set: The set that they answer, perhaps in part.
        samples: The answers.
    """

    number: int
    benchmark: str
    question_set: QuestionSet
    samples: dict[SampleKey, Sample] = field(default_factory=dict)

    def takes(self, part: Part, index: QuestionIndex) -> bool:
        """Whether nothing in the part contradicts these answers."""
        return self._set_with(part, index) is not None and all(
            self._agrees(sample, row, part)
            for key, row in part.rows.items()
            if (sample := self.samples.get(key)) is not None
        )

    def add(self, part: Part, index: QuestionIndex) -> list[SampleKey]:
        """Take the part in.

        Returns:
            The samples that were new.
        """
        self.question_set = self._set_with(part, index) or self.question_set
        stored = part.file.kind == "answers"
        new = [key for key in part.rows if key not in self.samples]
        for key in new:
            self.samples[key] = Sample(part.rows[key], part.file, stored)
        if not stored:
            for key, row in part.rows.items():
                sample = self.samples[key]
                sample.judged, sample.is_judged = row.answer, True
        return new

    @staticmethod
    def _agrees(sample: Sample, row: Row, part: Part) -> bool:
        if part.file.kind == "answers":
            return row.answer == sample.row.answer
        return sample.allows(row.answer)

    def _set_with(self, part: Part, index: QuestionIndex) -> QuestionSet | None:
        """The set of both; None if neither set has the questions of the other."""
        if part.question_ids <= index.members_of(self.question_set.name).keys():
            return self.question_set
        own = {question_id for question_id, _ in self.samples}
        return part.question_set if own <= index.members_of(part.question_set.name).keys() else None


@dataclass(frozen=True)
class Assigned:
    """A part and the generation it belongs to; `new` are the samples that it was the first to have."""

    part: Part
    generation: Generation
    new: frozenset[SampleKey]


def assign(parts: Iterable[Part], index: QuestionIndex) -> list[Assigned]:
    """Assign each part of one model and one benchmark to the first generation that takes it, or to a new one.

    Args:
        parts: In the order of precedence, answer files before judgement files.
        index: Where their question sets are known.
    """
    generations: list[Generation] = []
    assigned = []
    for part in parts:
        generation = next((each for each in generations if each.takes(part, index)), None)
        if generation is None:
            generation = Generation(len(generations) + 1, part.benchmark, part.question_set)
            generations.append(generation)
        assigned.append(Assigned(part, generation, frozenset(generation.add(part, index))))
    return assigned


def form_of(raw: str | None, judged: str | None) -> AnswerForm | None:
    """How the judged text was made from the stored one; None if it was not.

    >>> form_of("<think>hm</think>yes", "yes")
    'thinking_stripped'
    """
    if judged == raw:
        return "as_stored"
    if raw is None:
        return "null_as_empty" if not judged else None
    if "<" not in raw:
        return None
    legacy = _without_blocks(raw)
    if judged in {legacy, legacy.strip()} or judged == split_thinking(raw).answer:
        return "thinking_stripped"
    return None


def _without_blocks(text: str) -> str:
    kept, position = [], 0
    while (opening := _OPENING.search(text, position)) and (closing := _CLOSING.search(text, opening.end())):
        kept.append(text[position : opening.start()])
        position = closing.end()
    return "".join(kept) + text[position:]


def part_of(file: LegacyFile, benchmark: str, rows: Sequence[tuple[Row, Question]], index: QuestionIndex) -> Part:
    """The rows of one benchmark as a part, their question set resolved."""
    counts: dict[str, int] = {}
    keyed: dict[SampleKey, Row] = {}
    questions: dict[str, Question] = {}
    for row, question in rows:
        occurrence = counts.get(question.question_id, 0)
        counts[question.question_id] = occurrence + 1
        keyed[question.question_id, occurrence] = row
        questions.setdefault(question.question_id, question)
    return Part(file, benchmark, index.set_of(benchmark, list(questions.values())), keyed)
