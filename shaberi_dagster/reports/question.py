"""One question: what it is, what models answered, and what judges said of that."""

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import polars as pl

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.names import check_known
from shaberi_dagster.reports.named_queries import known_names
from shaberi_dagster.reports.reading import fetch, fetch_frame


@dataclass(frozen=True)
class QuestionReport:
    """One question with everything that the lake has on it.

    Attributes:
        benchmark: The benchmark.
        question_set: The version of its questions in which it has this place.
        question_id: sha256 of its text; answers to it count in whatever set they were asked.
        position: Its place in the set, from 1.
        category: The source's category; None where it has none.
        question: What models are asked.
        reference: A right answer, for judges; None where there is none.
        criteria: What judges are to look at; None where there are none.
        answers: One row per sample: model, run_tag, question_set, sample_index, answer, status, error_class,
            finish_reason, created_at.
        judgements: One row per judged answer and judge: model, run_tag, sample_index, strategy (null: a plain sample),
            judge, score (on the judge's scale), score_source, judge_output, status, error_class, created_at.
    """

    benchmark: str
    question_set: str
    question_id: str
    position: int
    category: str | None
    question: str
    reference: str | None
    criteria: str | None
    answers: pl.DataFrame
    judgements: pl.DataFrame


def read_question(
    catalog: duckdb.DuckDBPyConnection,
    benchmark: str,
    position: int,
    *,
    question_set: str | None = None,
    models: Sequence[str] = (),
) -> QuestionReport:
    """One question of a benchmark.

    Args:
        catalog: The public views.
        benchmark: Its name.
        position: The question's place in the set, from 1.
        question_set: Which version; None is the largest.
        models: Only their answers; none means all.

    Raises:
        ConfigurationError: The lake has no such question.
    """
    found = fetch(catalog, "question", benchmark=benchmark, position=position, question_set=question_set)
    if not found:
        check_known("benchmark", [benchmark], known_names(catalog, "benchmark"))
        check_known("question set", [question_set] if question_set else [], known_names(catalog, "question set"))
        raise ConfigurationError(f"the lake has no question {position} of {question_set or benchmark}")
    check_known("model", models, known_names(catalog, "model"))
    (question,) = found
    which = {"benchmark": benchmark, "question_id": question["question_id"], "models": list(models) or None}
    return QuestionReport(
        **question,
        answers=fetch_frame(catalog, "question_answers", **which),
        judgements=fetch_frame(catalog, "question_judgements", **which),
    )
