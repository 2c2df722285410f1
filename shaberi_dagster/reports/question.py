"""A question with its answers, their judgements, and the findings of passes.

The library has it as frames, the terminal and the browser as samples of runs; both are of the same statements.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

from shaberi_dagster.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.judges.rules.base import span_of
from shaberi_dagster.lake.statements import fetch, fetch_frame
from shaberi_dagster.reports.named_queries import known_names
from shaberi_dagster.reports.reading import scale_rows
from shaberi_dagster.reports.report import Row
from shaberi_dagster.reports.requests import BASELINE
from shaberi_dagster.util.names import check_known

if TYPE_CHECKING:
    import polars as pl

_MOST_APART = 8
"""Up to how many runs are read one by one."""
_PLACE = ("benchmark", "question_set", "question_id", "position")


@dataclass(frozen=True)
class QuestionReport:
    """A question with everything that the lake has on it, for the library.

    Attributes:
        benchmark: The benchmark.
        question_set: The version of its questions in which it has this place.
        question_id: sha256 of its text; answers to it count in whatever set they were asked.
        position: Its place in the set, from 1.
        n_questions: Questions of the set.
        category: The source's category; None where it has none.
        question: The text.
        reference: A right answer, for judges; None where there is none.
        criteria: Instructions for judges; None where there are none.
        answers: One row per sample.
        judgements: One row per judged answer and judge.
    """

    benchmark: str
    question_set: str
    question_id: str
    position: int
    n_questions: int
    category: str | None
    question: str
    reference: str | None
    criteria: str | None
    answers: "pl.DataFrame"
    judgements: "pl.DataFrame"


class Span(NamedTuple):
    """A passage that a pass found: code points from start to end, and its kind."""

    start: int
    end: int
    kind: str


class RunAnswers(NamedTuple):
    """The answers of a run to a question, with their judgements.

    Attributes:
        samples: Rows of `question_answers.sql`, with `judgements`, and `spans` in each of their findings; none where
            the run was not asked.
        consensus: Judgements of the answers of its strategies. They are, like those of samples, rows of
            `question_judgements.sql` with `deltas`: pass, delta and reason of what each pass of the pipeline added; and
            `read`: the passage of the answer that a rule took for it.
    """

    samples: Sequence[Row]
    consensus: Sequence[Row]


def find_question(catalog: duckdb.DuckDBPyConnection, **place: str | int | None) -> Row | None:
    """Find a question by any of benchmark, question_set, question_id and position; of several sets in the largest.

    Answers to it count in whatever set they were asked; its position and n_questions are those of the set.
    """
    found = fetch(catalog, "question", **dict.fromkeys(_PLACE) | place)
    return found[0] if found else None


def question_at(
    catalog: duckdb.DuckDBPyConnection, position: int, *, benchmark: str | None = None, question_set: str | None = None
) -> Row:
    """Find the question at a place, from 1, of a set.

    Args:
        catalog: The public views.
        position: The place.
        benchmark: Whose; None where the set says it.
        question_set: The set; None is the benchmark's largest.

    Raises:
        ConfigurationError: The lake has no such question.
    """
    found = find_question(catalog, benchmark=benchmark, question_set=question_set, position=position)
    if found is None:
        for kind, name in {"benchmark": benchmark, "question set": question_set}.items():
            check_known(kind, [] if name is None else [name], known_names(catalog, kind))
        first = find_question(catalog, benchmark=benchmark, question_set=question_set, position=1)
        there = f", which has {first['n_questions']}" if first else ""
        raise ConfigurationError(f"the lake has no question {position} of {question_set or benchmark}{there}")
    return found


def questions_of(
    catalog: duckdb.DuckDBPyConnection, sides: Sequence[Sequence[str]], **which: object
) -> list[dict[str, Any]]:
    """Read the questions of some sides with the score of each: rows of `questions_of_runs.sql`.

    Args:
        catalog: The public views.
        sides: The run ids of each.
        which: Parameters of the statement; the flags `every` and `flags` are off unless they are given.
    """
    return fetch(
        catalog,
        "questions_of_runs",
        sides=[{"side": number, "run_id": run_id} for number, run_ids in enumerate(sides) for run_id in run_ids],
        n_sides=len(sides),
        run_ids=list(chain(*sides)),
        scales=scale_rows(catalog),
        order=list(ALL_BENCHMARKS),
        **{"pipeline": BASELINE, "flags": [], "every": False, "offset": 0} | which,
    )


def read_question(
    catalog: duckdb.DuckDBPyConnection,
    benchmark: str,
    position: int,
    *,
    question_set: str | None = None,
    models: Sequence[str] = (),
) -> QuestionReport:
    """Read one question of a benchmark, with all that was answered and judged.

    Args:
        catalog: The public views.
        benchmark: Its name.
        position: The question's place in the set, from 1.
        question_set: Which version; None is the largest.
        models: Only their answers; none means all.

    Raises:
        ConfigurationError: The lake has no such question.
    """
    question = question_at(catalog, position, benchmark=benchmark, question_set=question_set)
    check_known("model", models, known_names(catalog, "model or run", models))
    which = {
        "benchmark": benchmark,
        "question_ids": [question["question_id"]],
        "run_id": None,
        "models": list(models) or None,
    }
    return QuestionReport(
        **question,
        answers=fetch_frame(catalog, "question_answers", **which, most=None),
        judgements=fetch_frame(catalog, "question_judgements", **which, most=None, judges=None),
    )


def read_answers(
    catalog: duckdb.DuckDBPyConnection,
    benchmark: str,
    question_ids: Sequence[str],
    run_ids: Sequence[str],
    *,
    judges: Sequence[str] = (),
    pipeline: str = BASELINE,
    most: int | None = None,
) -> Mapping[tuple[str, str], RunAnswers]:
    """Read the answers of some runs to some questions, by question id and run id; many almost as fast as one.

    Args:
        catalog: The public views.
        benchmark: The questions' benchmark.
        question_ids: The questions.
        run_ids: The runs.
        judges: Only these; none means all.
        pipeline: Passes in order, or baseline.
        most: Characters of a text that are read; None: all.
    """
    which: dict[str, Any] = {"benchmark": benchmark, "question_ids": list(question_ids)}
    added = (
        fetch(catalog, "question_deltas", **which, run_ids=list(run_ids), pipeline=pipeline)
        if pipeline != BASELINE
        else []
    )
    deltas = {(*_sample(row), row["strategy"], row["judge"]): row["deltas"] for row in added}
    of_sample: defaultdict[tuple[str, str, int], list[Row]] = defaultdict(list)
    consensus: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    # Of one run DuckDB reads the pages of its rows only, of a list of runs all texts of the benchmark.
    which |= {"models": None, "most": most}
    of_runs = [{**which, "run_id": run_id} for run_id in (run_ids if len(run_ids) <= _MOST_APART else [None])]
    told = (fetch(catalog, "question_judgements", **of_run, judges=list(judges) or None) for of_run in of_runs)
    for judgement in chain.from_iterable(told):
        sample, strategy = _sample(judgement), judgement["strategy"]
        judgement["deltas"] = deltas.get((*sample, strategy, judgement["judge"]), [])
        read = span_of(judgement["judge_output"]) if judgement["score_source"] == "rule" else None
        judgement["read"] = read and Span(*read, "read by a rule")
        (of_sample[sample] if strategy is None else consensus[sample[:2]]).append(judgement)
    samples: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for answer in chain.from_iterable(fetch(catalog, "question_answers", **of_run) for of_run in of_runs):
        answer["judgements"] = of_sample[_sample(answer)]
        for finding in answer["findings"]:
            spans = json.loads(finding["details"] or "{}").get("spans", [])
            finding["spans"] = [Span(*span[:3]) for span in spans]
        samples[_sample(answer)[:2]].append(answer)
    return {place: RunAnswers(samples[place], consensus[place]) for place in product(question_ids, run_ids)}


def _sample(row: Row) -> tuple[str, str, int]:
    return row["question_id"], row["run_id"], row["sample_index"]
