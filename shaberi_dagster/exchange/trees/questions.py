"""The question sets of a legacy tree, found in its own rows and named by their content.

A row repeats its question's reference, criteria and category, so a complete file holds a whole set. A file that lacks
some questions is taken for a part of the smallest registered set that has all of its questions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from shaberi_dagster.exchange.trees.files import DATASETS, UNREADABLE, LegacyFile, opened
from shaberi_dagster.exchange.trees.jsonl import Row, read_rows
from shaberi_dagster.tasks.benchmarks.questions import Question, QuestionSet, content_sha256, known_sets, set_name_of
from shaberi_dagster.tasks.benchmarks.registry import BENCHMARKS, Benchmark, Field
from shaberi_dagster.util.identity import sha256_text

_FIELDS: tuple[Field, ...] = ("reference", "criteria", "category", "upstream_id")


class QuestionIndex:
    """The questions and question sets met so far.

    Args:
        sets: Sets that are known beforehand, e.g. those of a question folder.

    Attributes:
        sets: The sets by name.
        members: The questions of each set by their ids.
    """

    def __init__(self, sets: Iterable[QuestionSet] = ()) -> None:
        self.sets: dict[str, QuestionSet] = {}
        self._questions: dict[str, tuple[str, Question]] = {}
        self.members: dict[str, dict[str, Question]] = {}
        self._named: dict[tuple[str, tuple[str, ...]], QuestionSet] = {}
        for known in sets:
            self.add(known)

    def add(self, questions: QuestionSet) -> None:
        """Make a set known."""
        self.sets[questions.name] = questions
        self.members[questions.name] = {question.question_id: question for question in questions.questions}
        for question in questions.questions:
            self._questions.setdefault(question.question, (questions.benchmark, question))

    def question_of(self, row: Row, dataset: str | None) -> tuple[str, Question] | None:
        """Benchmark and question of a row: by the text if it is known, else by the dataset folder; None for neither."""
        known = self._questions.get(row.question)
        if known is None and (meant := DATASETS.get(dataset or "")):
            benchmark, _ = meant
            return benchmark, question_from(row, BENCHMARKS[benchmark], position=row.line)
        return known

    def set_of(self, benchmark: str, questions: Sequence[Question]) -> QuestionSet:
        """The set that a file's questions are, or are a part of; a set that is not known yet becomes known.

        Args:
            benchmark: Their benchmark.
            questions: Each question of the file once, in the file's order.
        """
        key = benchmark, tuple(question.question_id for question in questions)
        if key not in self._named:
            self._named[key] = self._set_of(benchmark, questions)
        return self._named[key]

    def _set_of(self, benchmark: str, questions: Sequence[Question]) -> QuestionSet:
        # Ids from elsewhere are no part of a set's identity: the same set may be in the lake without them. They stay
        # with the rows.
        own = question_set_of(
            benchmark,
            [replace(question, position=place, upstream_id=None) for place, question in enumerate(questions, start=1)],
        )
        if own.name not in known_sets() and (whole := self._whole(benchmark, questions)):
            return whole
        if own.name not in self.sets:
            self.add(own)
        return self.sets[own.name]

    def _whole(self, benchmark: str, questions: Sequence[Question]) -> QuestionSet | None:
        ids = {question.question_id for question in questions}
        candidates = [
            candidate
            for candidate in self.sets.values()
            if candidate.benchmark == benchmark
            and (known := known_sets().get(candidate.name))
            and known.subset_of is None
            and ids <= self.members[candidate.name].keys()
        ]
        return min(candidates, key=lambda candidate: len(candidate.questions), default=None)


def question_set_of(benchmark: str, questions: Sequence[Question]) -> QuestionSet:
    """These questions as a set of their own."""
    sha256 = content_sha256(questions)
    return QuestionSet(
        benchmark, set_name_of(benchmark, len(questions), sha256), sha256, tuple(questions), source="legacy tree"
    )


def question_from(row: Row, benchmark: Benchmark, position: int) -> Question:
    """The question that a row repeats; blank texts are no texts, as in question files."""
    found: dict[Field, str | None] = {}
    for field in _FIELDS:
        given = (row.fields[name] for name in _names(benchmark, field) if name in row.fields)
        found[field] = _text(next(given, None))
    return Question(
        sha256_text(row.question),
        position,
        found["upstream_id"],
        found["category"],
        row.question,
        found["reference"],
        found["criteria"],
    )


def other_fields(row: Row, benchmark: str, question: Question) -> dict[str, Any]:
    """The columns of a row that its question does not already say."""
    fields = fields_by_column(benchmark)
    return {
        name: value
        for name, value in row.fields.items()
        if name not in fields or not _agrees(value, getattr(question, fields[name]))
    }


@cache
def fields_by_column(benchmark: str) -> Mapping[str, Field]:
    """Map the columns that may repeat a part of a question to that field of it."""
    return {name: field for field in _FIELDS for name in _names(BENCHMARKS[benchmark], field)}


def question_sets_in(files: Iterable[LegacyFile], given: Iterable[QuestionSet] = ()) -> QuestionIndex:
    """Find the registered sets of a tree, so that incomplete files can be placed.

    Files are read until each dataset folder has shown the set that it is meant to hold.

    Args:
        files: The files that are to be imported.
        given: Sets that are known beforehand.
    """
    index = QuestionIndex(given)
    for file in sorted(files, key=lambda file: (file.kind, file.path)):
        benchmark, question_set = DATASETS.get(file.dataset or "", ("", ""))
        if not benchmark or question_set in index.sets:
            continue
        own = _set_in(file, BENCHMARKS[benchmark])
        if own and own.name in known_sets() and own.name not in index.sets:
            index.add(own)
    return index


def _set_in(file: LegacyFile, benchmark: Benchmark) -> QuestionSet | None:
    questions: dict[str, Question] = {}
    try:
        with opened(file) as stream:
            for row in read_rows(stream, file.kind):
                if isinstance(row, Row) and row.question not in questions:
                    questions[row.question] = question_from(row, benchmark, position=len(questions) + 1)
    except UNREADABLE:
        return None  # said when its rows are read
    return question_set_of(benchmark.name, list(questions.values())) if questions else None


def _names(benchmark: Benchmark, field: Field) -> tuple[str, ...]:
    return (field, *benchmark.columns.get(field, ()))


def _text(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None  # kept among the row's other fields
    return str(value) if str(value).strip() else None


def _agrees(value: Any, said: str | None) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) == said
    return bool(value == said)
