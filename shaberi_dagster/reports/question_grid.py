"""Questions on which some models differ: a grid of their scores, and one question with their answers side by side."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from shaberi_dagster.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.lake.statements import fetch
from shaberi_dagster.reports.comparison import Side, find_side, read_runs
from shaberi_dagster.reports.question import question_at, read_answers
from shaberi_dagster.reports.reading import scale_rows
from shaberi_dagster.reports.report import Row
from shaberi_dagster.reports.requests import BASELINE, check_choice

MOST_SIDES = 5
MOST_CHARACTERS = 20_000
"""Characters of a text that a page has; all of it is in `whole_text`."""
SORTS = ("difference", "disagreement", "position")
FLAGS = ("loses", "failed", "out-of-scale", "refused", "disagreement")
_NAMES = "ABCDE"
_CLEAR_DISAGREEMENT = 3.0


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


@dataclass(frozen=True)
class QuestionGrid:
    """The questions of some models.

    Attributes:
        request: What was asked.
        sides: The models with their runs, named A, B, ….
        rows: The questions, sorted: rows of `question_grid.sql`.
        n_all: How many there are without the choice of categories and flags.
        categories: All categories of their questions.
        question_sets: All question sets.
    """

    request: GridRequest
    sides: tuple[Side, ...]
    rows: tuple[Row, ...]
    n_all: int
    categories: tuple[str, ...]
    question_sets: tuple[str, ...]


def read_question_grid(catalog: duckdb.DuckDBPyConnection, request: GridRequest) -> QuestionGrid:
    """The questions that some models were asked, with their scores side by side.

    Args:
        catalog: The public views.
        request: What to read.

    Raises:
        ConfigurationError: There is no such run, several could be meant, or there are too many or twice the same.
    """
    sides = read_sides(catalog, request.models)
    check_choice("sort", request.sort, (*SORTS, *(side.name for side in sides)))
    for flag in request.flags:
        check_choice("flag", flag, FLAGS)
    read = read_rows(catalog, sides, request)
    every = [row for row in read if not request.benchmarks or row["benchmark"] in request.benchmarks]
    in_sets = [row for row in every if not request.question_sets or row["question_set"] in request.question_sets]
    rows = [
        row
        for row in in_sets
        if (not request.categories or row["category"] in request.categories)
        and all(_HAS[flag](row) for flag in request.flags)
    ]
    return QuestionGrid(
        request,
        sides,
        tuple(sorted(rows, key=_order(request.sort, sides))),
        len(in_sets),
        tuple(sorted({row["category"] for row in in_sets if row["category"]})),
        tuple(dict.fromkeys(row["question_set"] for row in every)),
    )


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
    return {
        **question,
        "sides": sides,
        "scores": next((row for row in rows if row["question_set"] == question_set), rows[0] if rows else None),
        "answers": [
            [answer for run_id in side.run_ids for answer in read[question_id, run_id].samples] for side in sides
        ],
    }


def read_rows(
    catalog: duckdb.DuckDBPyConnection,
    sides: Sequence[Side],
    request: GridRequest,
    *,
    benchmark: str | None = None,
    question_id: str | None = None,
) -> list[dict[str, Any]]:
    """The questions of all sets and categories, in their order.

    Args:
        catalog: The public views.
        sides: The models.
        request: By which judges and passes, and which text.
        benchmark: Only its questions; None: of all.
        question_id: Only this question; None: all.
    """
    return fetch(
        catalog,
        "question_grid",
        sides=[{"side": number, "run_id": run_id} for number, side in enumerate(sides) for run_id in side.run_ids],
        n_sides=len(sides),
        run_ids=[run_id for side in sides for run_id in side.run_ids],
        scales=scale_rows(catalog),
        order=list(ALL_BENCHMARKS),
        judges=list(request.judges) or None,
        benchmark=benchmark,
        question_id=question_id,
        pipeline=request.pipeline,
        text=request.text or None,
    )


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


def _order(sort: str, sides: Sequence[Side]) -> Callable[[Row], float]:
    """Rows are in the order of their sets and places already, which sorting keeps."""
    if sort == "position":
        return lambda _: 0
    if sort == "difference":
        return lambda row: -1 if row["difference"] is None else -row["difference"] - 1
    if sort == "disagreement":
        return lambda row: -1 if row["disagreement"] is None else -row["disagreement"] - 1
    place = [side.name for side in sides].index(sort)
    return lambda row: float("inf") if (score := row["scores"][place]) is None else score


def _loses(row: Row) -> bool:
    first, *others = row["scores"]
    return first is not None and any(other is not None and first < other for other in others)


_HAS: Mapping[str, Callable[[Row], bool]] = {
    "loses": _loses,
    "failed": lambda row: bool(row["n_failed"] or row["n_missing"]),
    "out-of-scale": lambda row: bool(row["n_out_of_scale"]),
    "refused": lambda row: bool(row["n_refused"]),
    "disagreement": lambda row: row["disagreement"] is not None and row["disagreement"] >= _CLEAR_DISAGREEMENT,
}
