"""The report on one question: its answers and judgements."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import duckdb
from pydantic import Field

from shaberi_dagster.reports.report import (
    Block,
    Cell,
    Column,
    Heading,
    Report,
    Result,
    Row,
    Sentences,
    Table,
    table_of,
    text,
)
from shaberi_dagster.reports.requests import Models
from shaberi_dagster.runs.option import Option

if TYPE_CHECKING:
    from shaberi_dagster.reports import question


_ASKED = ("question", "reference", "criteria")
_PLACE = ("benchmark", "question_set", "position")
_SAMPLE = ("run_id", "model", "run_tag", "sample_index")
_JUDGED = ("strategy", "judge", "score", "out_of_scale", "score_source", "status", "error_class")
_Answer = tuple[Row, list[Row]]
"""An answer and its judgements."""
_MOST_WITH_TEXTS = 12
_MORE = "--model NAME: with all texts; so have --format md, csv and json."
_CSV_COLUMNS = (*_PLACE, *_SAMPLE[1:], *_JUDGED, "answer", "judge_output")


@dataclass(frozen=True)
class QuestionSelection:
    """A question, and whose answers to it.

    Attributes:
        benchmark: Its benchmark.
        position: Its place in the question set, from 1.
        question_set: Which version of the questions; None is the largest.
        models: Only their answers; none means all.
    """

    benchmark: Annotated[
        str,
        Field(description="Its benchmark"),
        Option("what", metavar="BENCHMARK", is_argument=True, known="benchmarks"),
    ]
    position: Annotated[
        int,
        Field(ge=1, description="Its place in the question set, from 1"),
        Option("what", metavar="POSITION", is_argument=True),
    ]
    question_set: Annotated[
        str | None,
        Field(description="Which version of the questions, e.g. tengu@115; none: the largest"),
        Option("what", metavar="SET"),
    ] = None
    models: Models = ()


def _read(catalog: "duckdb.DuckDBPyConnection", which: QuestionSelection) -> Result:
    from shaberi_dagster.reports import question

    benchmark, separator, _ = which.benchmark.partition("@")
    question_set = which.question_set or (which.benchmark if separator else None)
    report = question.read_question(catalog, benchmark, which.position, question_set=question_set, models=which.models)
    answers = list(_answers(report))
    rows = [
        {name: getattr(report, name) for name in _PLACE} | dict(answer) | dict(judgement)
        for answer, judgements in answers
        for judgement in judgements or [{}]
    ]
    frames = {"answers": report.answers.to_dicts(), "judgements": report.judgements.to_dicts()}
    asked, texts = list(_asked(report)), list(_texts(answers))
    brief = [_BRIEFLY.of(answers), Sentences([_MORE], "note")] if len(answers) > _MOST_WITH_TEXTS else texts
    return _Question([*asked, *texts], rows, {**vars(report), **frames}, _CSV_COLUMNS, [*asked, *brief])


@dataclass(frozen=True)
class _Question(Result):
    """A question.

    Attributes:
        briefly: What people read on a terminal.
    """

    briefly: Sequence[Block] = ()

    def blocks(self, width: int | None) -> Iterable[Block]:
        """Return all texts; on a terminal of very many answers a line each."""
        return super().blocks(width) if width is None else self.briefly


def _answers(report: "question.QuestionReport") -> Iterator[_Answer]:
    """Yield each answer with its judgements; those of a run's strategies stand by its first one."""
    judgements: dict[Any, list[Row]] = {}
    for row in report.judgements.to_dicts():
        judgements.setdefault(tuple(row[name] for name in _SAMPLE), []).append(row)
    for answer in report.answers.to_dicts():
        yield answer, judgements.get(tuple(answer[name] for name in _SAMPLE), [])


def _asked(report: "question.QuestionReport") -> Iterator[Block]:
    yield Heading(f"{report.question_set} {report.position}", report.category or "")
    asked = [(name, asked) for name in _ASKED if (asked := getattr(report, name))]
    yield table_of(asked, [text("", lambda row: row[0]), text("", lambda row: _lines(row[1]), folds=True)])


_BRIEFLY = Table(
    [
        text("model", lambda row: row[0]["model"], cuts="middle", narrowest=20),
        text("tag", lambda row: row[0]["run_tag"], cuts="middle", narrowest=8),
        text("scores", lambda row: ", ".join(f"{_who(judged)} {_score(judged)}" for judged in row[1]), folds=True),
        text("answer", lambda row: " ".join((row[0]["answer"] or "").split()), cuts="end", narrowest=12),
    ]
)


def _texts(answers: Sequence[_Answer]) -> Iterator[Block]:
    if not answers:
        yield Sentences(["No run has answered it."])
    for answer, judgements in answers:
        yield Heading(f"{answer['model']} {answer['run_tag']}", _about(answer))
        rows = [
            ("answer", "", answer["answer"]),
            *((_who(judgement), _score(judgement), judgement["judge_output"]) for judgement in judgements),
        ]
        yield _TEXTS.of(rows)


_TEXTS = Table(
    [
        text("", lambda row: row[0], folds=True),
        Column("score", lambda row: row[1]),
        text("text", lambda row: _lines(row[2] or ""), folds=True),
    ]
)


def _about(answer: Row) -> str:
    """Say which sample it is, and what went wrong."""
    parts = [f"sample {answer['sample_index']}"] if answer["sample_index"] else []
    if answer["status"] != "ok":
        parts.append(": ".join(filter(None, (answer["status"], answer["error_class"], answer["error_message"]))))
    return ", ".join(parts)


def _who(judgement: Row) -> str:
    return f"{judgement['judge']} of {judgement['strategy']}" if judgement["strategy"] else judgement["judge"]


def _score(judgement: Row) -> str:
    return f"{judgement['score']:g}" if judgement["score"] is not None else judgement["error_class"] or "no score"


def _lines(content: str) -> Cell:
    return tuple(content.replace("\t", "    ").split("\n"))


QUESTION = Report(
    "question",
    "Show one question with all answers and what judges said of them.",
    selection=QuestionSelection,
    read=_read,
    examples=[
        "shaberi question tengu 12",
        "shaberi question tengu@115 12",
        "shaberi question tengu 12 --model my-model --model other-model --format md",
        "shaberi question tengu 12 --question-set tengu@115 --format json",
    ],
    more="inspect-output finds questions by their scores and texts; shaberi view shows models side by side.",
)
