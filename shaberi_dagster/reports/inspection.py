"""Answers to look at: runs, their questions page by page, and one question with what was answered and judged."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any, NamedTuple

import duckdb

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.reports.named_queries import known_names
from shaberi_dagster.reports.question import RunAnswers, ShownQuestion, find_question, read_answers
from shaberi_dagster.reports.reading import fetch
from shaberi_dagster.reports.requests import runs_chosen
from shaberi_dagster.util.names import check_known

SORTS = ("position", "score", "difference", "disagreement")
"""Orders of questions: in their set, the lowest first, where runs or where judges are furthest apart."""
PAGE = 100
"""So many questions are read at once."""
_BLOCK = 20
"""Of so many questions all texts are in memory at once."""
_NAMES = ("benchmark", "judge", "category", "sort")
_NAMED = re.compile(rf"({'|'.join(_NAMES)}):(\S+)")
_BOUND = re.compile(r"score([<>])([\d.]+)")


@dataclass(frozen=True)
class Filter:
    """Which questions to show; what is None or False leaves none out.

    Attributes:
        benchmark: Of this benchmark.
        judge: Scores of judges with this in their name.
        category: With this in their category.
        below: A run scored less than this, on the reported scale.
        above: Each run scored more than this.
        failed: An answer or a judgement failed.
        search: This text is in the question or in an answer.
        sort: One of `SORTS`.
    """

    benchmark: str | None = None
    judge: str | None = None
    category: str | None = None
    below: float | None = None
    above: float | None = None
    failed: bool = False
    search: str | None = None
    sort: str = "position"

    @classmethod
    def parse(cls, text: str) -> "Filter":
        """A filter as people write it: `benchmark:elyza judge:gpt score<5 failed sort:difference some words`.

        Raises:
            ConfigurationError: A number is none, or there is no such order.

        >>> str(Filter.parse("犬 score<5.0 category:敬語"))
        'category:敬語 score<5 犬'
        """
        chosen: dict[str, Any] = {}
        words = []
        for word in text.split():
            if named := _NAMED.fullmatch(word):
                chosen[named[1]] = named[2]
            elif bound := _BOUND.fullmatch(word):
                chosen["below" if bound[1] == "<" else "above"] = _number(bound[2])
            elif word == "failed":
                chosen["failed"] = True
            else:
                words.append(word)
        if chosen.get("sort", SORTS[0]) not in SORTS:
            raise ConfigurationError(f"sort: must be one of {', '.join(SORTS)}, not {chosen['sort']!r}")
        return cls(**chosen, search=" ".join(words) or None)

    def __str__(self) -> str:
        """The filter as people write it."""
        named = [f"{name}:{value}" for name in _NAMES if (value := getattr(self, name)) and value != SORTS[0]]
        bounds = [f"score<{self.below:g}"] if self.below is not None else []
        bounds += [f"score>{self.above:g}"] if self.above is not None else []
        return " ".join(
            [*named, *bounds, *(["failed"] if self.failed else []), *([self.search] if self.search else [])]
        )

    def with_next_sort(self) -> "Filter":
        """The same questions in the next order."""
        return replace(self, sort=SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)])


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError(f"score< and score> need a number, not {text!r}") from None


@dataclass(frozen=True)
class InspectedRun:
    """A run to look into.

    Attributes:
        run_id: The run.
        model: Its model.
        run_tag: Its tag.
        status: `complete`, `partial` or `running`.
        benchmarks: What it was asked.
        n_answers: Answers, failed ones included.
        n_failed: Those that failed.
        score: The mean over benchmarks and judges on the reported scale; None when nothing is scored.
    """

    run_id: str
    model: str
    run_tag: str
    status: str
    benchmarks: Sequence[str]
    n_answers: int
    n_failed: int
    score: float | None


@dataclass(frozen=True)
class InspectedQuestion:
    """A line of the list of questions.

    Attributes:
        benchmark: Its benchmark.
        question_set: The version of its questions.
        question_id: sha256 of its text.
        position: Its place in the set; None when the set is not in the lake.
        category: The source's category, or None.
        question: The beginning of its text.
        scores: Each run's mean over samples and judges on the reported scale, by run id.
        difference: How far the runs are apart.
        disagreement: How far the judges of a run are apart at most.
        n_failed: Answers and judgements that failed.
    """

    benchmark: str
    question_set: str
    question_id: str
    position: int | None
    category: str | None
    question: str | None
    scores: Mapping[str, float | None]
    difference: float | None
    disagreement: float | None
    n_failed: int


class InspectedTexts(NamedTuple):
    """One question with what runs made of it.

    Attributes:
        question: The question; None when its set is not in the lake.
        answers: Of each run, by its id.
    """

    question: ShownQuestion | None
    answers: Mapping[str, RunAnswers]


def read_runs(
    catalog: duckdb.DuckDBPyConnection,
    *,
    models: Sequence[str] = (),
    tags: Sequence[str] = (),
    sources: Sequence[str] = (),
    benchmark: str | None = None,
) -> list[InspectedRun]:
    """Runs with answers, the newest first.

    Args:
        catalog: The public views.
        models: Only these; none means all.
        tags: Only runs with one of these tags, base tags or tags of their import; none means all.
        sources: Only runs imported from these trees; none means all, and the runs of our own.
        benchmark: Only runs that were asked this, and only this of them; None means all.

    Raises:
        ConfigurationError: The lake has no such model, tag, tree or benchmark.
    """
    asked = {
        "model": models,
        "tag or base tag": tags,
        "source": sources,
        "benchmark": [benchmark] if benchmark else (),
    }
    for what, names in asked.items():
        if names:
            check_known(what.partition(" ")[0], names, known_names(catalog, what))
    rows = fetch(catalog, "inspected_runs", **runs_chosen(models, tags, sources), benchmark=benchmark)
    names = [field.name for field in fields(InspectedRun)]
    return [InspectedRun(**{name: row[name] for name in names}) for row in rows]


def read_questions(
    catalog: duckdb.DuckDBPyConnection, run_ids: Sequence[str], chosen: Filter, offset: int = 0
) -> tuple[list[InspectedQuestion], int]:
    """A page of the questions that some runs were asked, and how many there are in all.

    Args:
        catalog: The public views.
        run_ids: The runs.
        chosen: Which questions, in which order.
        offset: How many come before the page.
    """
    rows = fetch(catalog, "inspected_questions", run_ids=list(run_ids), limit=PAGE, offset=offset, **vars(chosen))
    n = rows[0]["n_questions"] if rows else 0
    return [
        InspectedQuestion(**{name: value for name, value in row.items() if name != "n_questions"}) for row in rows
    ], n


def all_questions(
    catalog: duckdb.DuckDBPyConnection, run_ids: Sequence[str], chosen: Filter
) -> Iterator[InspectedQuestion]:
    """The questions of all pages."""
    offset, n = 0, 1
    while offset < n:
        page, n = read_questions(catalog, run_ids, chosen, offset)
        yield from page
        offset += PAGE


def read_texts(
    catalog: duckdb.DuckDBPyConnection, run_ids: Sequence[str], questions: Iterable[InspectedQuestion]
) -> Iterator[tuple[InspectedQuestion, InspectedTexts]]:
    """What there is to read of each question.

    Args:
        catalog: The public views.
        run_ids: Whose answers, in this order.
        questions: Which, in this order.
    """
    left = iter(questions)
    while block := list(islice(left, _BLOCK)):
        ids: dict[str, list[str]] = {}
        for one in block:
            ids.setdefault(one.benchmark, []).append(one.question_id)
        read = {benchmark: read_answers(catalog, benchmark, own, run_ids) for benchmark, own in ids.items()}
        for one in block:
            benchmark, question_id = one.benchmark, one.question_id
            answers = {run_id: read[benchmark][question_id, run_id] for run_id in run_ids}
            found = find_question(catalog, benchmark=benchmark, question_set=one.question_set, question_id=question_id)
            yield one, InspectedTexts(found, answers)
