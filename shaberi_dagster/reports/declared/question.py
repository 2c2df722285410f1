"""The report on one question: its answers and judgements."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from operator import itemgetter
from typing import Annotated

from pydantic import Field

from shaberi_dagster.lake.statements import Catalog
from shaberi_dagster.reports.blocks import (
    Block,
    Cell,
    Column,
    Heading,
    Report,
    Result,
    Row,
    Rows,
    Sentences,
    Table,
    grouped,
    text,
)
from shaberi_dagster.reports.requests import Models
from shaberi_dagster.runs.option import FLAT, option

_PLACE = ("benchmark", "question_set", "position")
_JUDGED = ("strategy", "judge", "score", "out_of_scale", "score_source", "status", "error_class")
_MOST_WITH_TEXTS = 12
_MORE = "--model NAME: with all texts; so have --format md, csv and json."
_CSV_COLUMNS = (*_PLACE, "model", "run_tag", "sample_index", *_JUDGED, "answer", "judge_output")


@FLAT
@dataclass(frozen=True)
class QuestionSelection:
    """A question, and whose answers to it.

    Attributes:
        benchmark: Its benchmark.
        position: Its place in the question set, from 1.
        question_set: Which version of the questions; None is the largest.
        models: Only their answers; none means all.
    """

    benchmark: Annotated[str, option("what", "Its benchmark", metavar="BENCHMARK", known="benchmarks")]
    position: Annotated[int, Field(ge=1), option("what", "Its place in the question set, from 1", metavar="POSITION")]
    _: KW_ONLY
    question_set: Annotated[
        str | None, option("what", "Which version of the questions, e.g. tengu@115; none: the largest", metavar="SET")
    ] = None
    models: Models = ()


def _read(catalog: Catalog, which: QuestionSelection) -> Result:
    from shaberi_dagster.reports import questions

    benchmark, separator, _ = which.benchmark.partition("@")
    question_set = which.question_set or (which.benchmark if separator else None)
    report = questions.read_question(catalog, benchmark, which.position, question_set=question_set, models=which.models)
    frames = {name: report[name].to_dicts() for name in ("answers", "judgements")}
    answers = _answers(**frames)
    place = {name: report[name] for name in _PLACE}
    rows = [{**place, **answer, **judgement} for answer, judged in answers for judgement in judged or [{}]]
    parts = [(name, report[name]) for name in ("question", "reference", "criteria") if report[name]]
    asked: list[Block] = [
        Heading(f"{report['question_set']} {report['position']}", report["category"] or ""),
        _ASKED.of(parts),
    ]
    texts = list(_texts(answers))
    brief = [_BRIEFLY.of(answers), Sentences([_MORE], "note")] if len(answers) > _MOST_WITH_TEXTS else texts
    return Result([*asked, *brief], rows, {**report, **frames}, _CSV_COLUMNS)


def _answers(answers: Rows, judgements: Rows) -> list[tuple[Row, Rows]]:
    """Pair each answer with its judgements; those of a run's strategies stand by its first one."""
    sample = itemgetter("run_id", "model", "run_tag", "sample_index")
    of_samples = dict(grouped(judgements, sample))
    return [(answer, of_samples.get(sample(answer), [])) for answer in answers]


_ASKED = Table([text("", lambda row: row[0]), text("", lambda row: _lines(row[1]), folds=True)])
_BRIEFLY = Table(
    [
        text("model", lambda row: row[0]["model"], cuts="middle", narrowest=20),
        text("tag", lambda row: row[0]["run_tag"], cuts="middle", narrowest=8),
        text("scores", lambda row: ", ".join(f"{_who(judged)} {_score(judged)}" for judged in row[1]), folds=True),
        text("answer", lambda row: " ".join((row[0]["answer"] or "").split()), cuts="end", narrowest=12),
    ]
)


def _texts(answers: Sequence[tuple[Row, Rows]]) -> Iterator[Block]:
    if not answers:
        yield Sentences(["No run has answered it."])
    for answer, judgements in answers:
        yield Heading(f"{answer['model']} {answer['run_tag']}", _about(answer))
        judged = ((_who(judgement), _score(judgement), judgement["judge_output"]) for judgement in judgements)
        yield _TEXTS.of([("answer", "", answer["answer"]), *judged])


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
