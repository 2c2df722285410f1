"""Questions on which some models differ: a grid of their scores, and one question with their answers side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.reports.comparison import Side, find_side, read_runs
from shaberi_dagster.reports.question import question_at, questions_of, read_answers
from shaberi_dagster.reports.report import Row
from shaberi_dagster.reports.requests import BASELINE, check_choice

MOST_SIDES = 5
MOST_CHARACTERS = 20_000
"""Characters of a text that a page has; all of it is in `whole_text`."""
SORTS = ("difference", "disagreement", "position")
FLAGS = ("loses", "failed", "out-of-scale", "refused", "disagreement")
_NAMES = "ABCDE"


@dataclass(frozen=True)
class GridRequest:
    """A choice of models and of their questions.

    Attributes:
        models: One to five, each a model, MODEL@@TAG or a run id; TAG can be the base tag of a multi-run.
        judges: Only these; none means all.
        benchmarks: Only these; none means all.
        question_sets: Only these; none means all.
        categories: Only questions of these categories; none means all.
        pipeline: Passes in order, or baseline.
        sort: One of `SORTS`, largest first; or `A`, `B`, …: the lowest scores of that model first.
        flags: Only questions with all of these, of `FLAGS`: A is below another model, an answer or a score that failed,
            a score out of scale, a refused answer, judges that are three points or more apart.
        text: Only questions with this in their text.
    """

    models: Sequence[str]
    judges: Sequence[str] = ()
    benchmarks: Sequence[str] = ()
    question_sets: Sequence[str] = ()
    categories: Sequence[str] = ()
    pipeline: str = BASELINE
    sort: str = "difference"
    flags: Sequence[str] = ()
    text: str = ""


def read_question_grid(catalog: duckdb.DuckDBPyConnection, request: GridRequest) -> dict[str, Any]:
    """The questions that some models were asked, with their scores side by side.

    Args:
        catalog: The public views.
        request: What to read.

    Returns:
        sides (the models with their runs, named A, B, …), sorted rows of `questions_of_runs.sql`, n_all (how many there
        are without the choice of categories and flags), and all categories and question_sets of their questions.

    Raises:
        ConfigurationError: There is no such run, several could be meant, or there are too many or twice the same.
    """
    sides = read_sides(catalog, request.models)
    check_choice("sort", request.sort, (*SORTS, *(side.name for side in sides)))
    for flag in request.flags:
        check_choice("flag", flag, FLAGS)
    every = questions_of(
        catalog,
        [side.run_ids for side in sides],
        **_chosen(request),
        benchmarks=list(request.benchmarks) or None,
        categories=list(request.categories) or None,
        flags=list(request.flags),
        sort=request.sort,
        every=True,
    )
    in_sets = [row for row in every if not request.question_sets or row["question_set"] in request.question_sets]
    return {
        "sides": sides,
        "rows": [row for row in in_sets if row["chosen"]],
        "n_all": len(in_sets),
        "categories": sorted({row["category"] for row in in_sets if row["category"]}),
        "question_sets": sorted({row["question_set"] for row in every}),
    }


def read_side_by_side(
    catalog: duckdb.DuckDBPyConnection, question_set: str, position: int, request: GridRequest
) -> Row:
    """Read one question with the answers of some models: `sides`, `scores` (its row of the grid) and `answers` of each.

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
    benchmark, question_id = question["benchmark"], question["question_id"]
    run_ids = [side.run_ids for side in sides]
    chosen = _chosen(request)
    rows = questions_of(catalog, run_ids, **chosen, benchmarks=[benchmark], question_id=question_id, every=True)
    read = read_answers(
        catalog,
        benchmark,
        [question_id],
        [run_id for side in sides for run_id in side.run_ids],
        judges=request.judges,
        pipeline=request.pipeline,
        most=MOST_CHARACTERS,
    )
    return {
        **question,
        "sides": sides,
        "scores": next((row for row in rows if row["question_set"] == question_set), rows[0] if rows else None),
        "answers": [
            [answer for run_id in side.run_ids for answer in read[question_id, run_id].samples] for side in sides
        ],
    }


def _chosen(request: GridRequest) -> dict[str, Any]:
    return {"judges": list(request.judges) or None, "pipeline": request.pipeline, "text": request.text or None}


def read_sides(catalog: duckdb.DuckDBPyConnection, models: Sequence[str]) -> tuple[Side, ...]:
    """The runs that models stand for, as sides A, B and so on.

    Raises:
        ConfigurationError: There is no such run, several could be meant, or there are too many or twice the same.
    """
    if not 1 <= len(models) <= MOST_SIDES:
        raise ConfigurationError(f"choose one to {MOST_SIDES} models, not {len(models)}")
    runs = read_runs(catalog)
    sides = tuple(find_side(runs, name, model, None) for name, model in zip(_NAMES, models, strict=False))
    if len({side.run_ids for side in sides}) < len(sides):
        raise ConfigurationError("the same model is chosen twice")
    return sides
