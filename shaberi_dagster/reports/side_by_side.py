"""One question and what some models made of it, side by side."""

from dataclasses import dataclass

import duckdb

from shaberi_dagster.reports.comparison import Side
from shaberi_dagster.reports.question import ShownAnswer, ShownQuestion, question_at, read_answers
from shaberi_dagster.reports.question_grid import GridRequest, GridRow, read_rows, read_sides

MOST_CHARACTERS = 20_000
"""So much of a text is read; all of it is in `whole_text`."""


@dataclass(frozen=True)
class SideBySide(ShownQuestion):
    """One question with what some models made of it.

    Attributes:
        sides: The models.
        scores: The question's scores, as in the grid of questions; None when no model was asked it.
        answers: Those of each side.
    """

    sides: tuple[Side, ...]
    scores: GridRow | None
    answers: tuple[tuple[ShownAnswer, ...], ...]


def read_side_by_side(
    catalog: duckdb.DuckDBPyConnection, question_set: str, position: int, request: GridRequest
) -> SideBySide:
    """One question with what some models made of it.

    Args:
        catalog: The public views.
        question_set: The version of the questions.
        position: The question's place in it, from 1.
        request: Which models, judges and passes.

    Raises:
        ConfigurationError: The lake has no such question or model.
    """
    question = question_at(catalog, position, question_set=question_set)
    sides = read_sides(catalog, request.models)
    benchmark, question_id = question.benchmark, question.question_id
    rows = read_rows(catalog, sides, request, benchmark=benchmark, question_id=question_id)
    read = read_answers(
        catalog,
        benchmark,
        [question_id],
        [run_id for side in sides for run_id in side.run_ids],
        judges=request.judges,
        pipeline=request.pipeline,
        most=MOST_CHARACTERS,
    )
    return SideBySide(
        **vars(question),
        sides=sides,
        scores=next((row for row in rows if row.question_set == question_set), rows[0] if rows else None),
        answers=tuple(
            tuple(answer for run_id in side.run_ids for answer in read[question_id, run_id].samples) for side in sides
        ),
    )
