"""Answers to look at: runs, their questions page by page, and one question with what was answered and judged."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice
from typing import Any

import duckdb

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.lake.statements import fetch
from shaberi_dagster.reports.named_queries import known_names
from shaberi_dagster.reports.question import find_question, questions_of, read_answers
from shaberi_dagster.reports.report import Row
from shaberi_dagster.reports.requests import runs_chosen
from shaberi_dagster.util.identity import NUMBERED, RUN_NUMBER
from shaberi_dagster.util.names import check_known

SORTS = ("position", "score", "difference", "disagreement")
"""Orders of questions: in their set, the lowest first, where runs or where judges are furthest apart."""
PAGE = 100
"""So many questions are read at once."""
_BLOCK = 20
"""Number of questions whose texts are in memory at once."""
_NAMES = ("benchmark", "judge", "category", "sort")
_FLAGS = ("failed", "loses")
_NAMED = re.compile(rf"({'|'.join(_NAMES)}):(\S+)")
_BOUND = re.compile(r"score([<>])(.*)")
_MISSPELT, _ALIKE = re.compile(r"([A-Za-z]+)[:=<>](?!//)\S*"), 0.75


@dataclass(frozen=True)
class Filter:
    """A filter of questions; fields that are None or False leave none out.

    Attributes:
        benchmark: Of this benchmark.
        judge: Scores of judges with this in their name.
        category: With this in their category.
        below: A run scored less than this, on the reported scale.
        above: Each run scored more than this.
        failed: An answer failed, or a score is missing.
        loses: A, the first of several runs, is below another one.
        search: This text is in the question, its set and place (`tengu@120 5`), its category or an answer.
        sort: One of `SORTS`.
    """

    benchmark: str | None = None
    judge: str | None = None
    category: str | None = None
    below: float | None = None
    above: float | None = None
    failed: bool = False
    loses: bool = False
    search: str | None = None
    sort: str = "position"

    @classmethod
    def parse(cls, text: str) -> "Filter":
        """A filter as people write it: `benchmark:elyza judge:gpt score<5 loses sort:difference some words`.

        Raises:
            ConfigurationError: A number is none, a name is misspelt, or there is no such order.

        >>> str(Filter.parse("犬 loses score<5.0 category:敬語"))
        'category:敬語 score<5 loses 犬'
        """
        chosen: dict[str, Any] = {}
        words = []
        for word in text.split():
            if named := _NAMED.fullmatch(word):
                chosen[named[1]] = named[2]
            elif bound := _BOUND.fullmatch(word):
                chosen["below" if bound[1] == "<" else "above"] = _number(bound[2])
            elif word in _FLAGS:
                chosen[word] = True
            elif named := _MISSPELT.fullmatch(word):
                known = (
                    {name: f"{name}:NAME" for name in _NAMES} | {"score": "score<N"} | {flag: flag for flag in _FLAGS}
                )
                alike = get_close_matches(named[1].casefold(), known, 1, _ALIKE)
                meant = known[alike[0]] if alike else ", ".join(known.values())
                raise ConfigurationError(f"{word!r} chooses nothing; did you mean {meant}?")
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
        flags = [flag for flag in _FLAGS if getattr(self, flag)]
        return " ".join([*named, *bounds, *flags, *([self.search] if self.search else [])])

    def with_next_sort(self) -> "Filter":
        """The same questions in the next order."""
        return replace(self, sort=SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)])


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError(f"score< and score> need a number, not {text!r}") from None


def read_runs(
    catalog: duckdb.DuckDBPyConnection,
    *,
    models: Sequence[str] = (),
    tags: Sequence[str] = (),
    sources: Sequence[str] = (),
    benchmark: str | None = None,
) -> list[dict[str, Any]]:
    """Read the runs with answers, the newest first: rows of `inspected_runs.sql`.

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
        "model or run": models,
        "tag or base tag": tags,
        "source": sources,
        "benchmark": [benchmark] if benchmark else (),
    }
    for kind, names in asked.items():
        if names:
            check_known(kind.partition(" ")[0], names, known_names(catalog, kind, names))
    return fetch(catalog, "inspected_runs", **runs_chosen(models, tags, sources), benchmark=benchmark)


def place_of(run: Row, models: Sequence[str]) -> int:
    """Return the place of a run among models, or runs as MODEL@@TAG, that were named; 0 where none was."""
    for place, name in enumerate(models):
        model, _, tag = name.rpartition("@@")
        numbered = RUN_NUMBER.fullmatch(run["run_tag"])
        own_tags = (run["run_tag"], numbered["base"] if numbered else None)
        if run["model"] == name or (run["model"] == model and tag.removesuffix(NUMBERED) in own_tags):
            return place
    return 0


def check_filter(catalog: duckdb.DuckDBPyConnection, chosen: Filter, run_ids: Sequence[str]) -> None:
    """Refuse a filter that leaves no question of some runs.

    Raises:
        ConfigurationError: There is no such judge, or no question matches.
    """
    judges = known_names(catalog, "judge")
    if chosen.judge and not any(chosen.judge in judge for judge in judges):
        check_known("judge", [chosen.judge], judges)
    if chosen != Filter(benchmark=chosen.benchmark) and not read_questions(catalog, run_ids, chosen, limit=1):
        words = (chosen.search or "").split()
        alike = [flag for word in words for flag in get_close_matches(word.casefold(), _FLAGS, 1, _ALIKE)]
        meant = f"; did you mean {' '.join(alike)}?" if alike else ""
        raise ConfigurationError(f"no question matches --filter {str(chosen)!r}{meant}")


def read_questions(
    catalog: duckdb.DuckDBPyConnection,
    run_ids: Sequence[str],
    chosen: Filter,
    *,
    offset: int = 0,
    limit: int | None = None,
) -> Sequence[Row]:
    """Read questions that some runs were asked: rows of `questions_of_runs.sql`.

    Args:
        catalog: The public views.
        run_ids: The runs.
        chosen: Which questions, in which order.
        offset: How many are left out at the beginning.
        limit: How many are read; None: all.
    """
    which = vars(chosen) | {
        "benchmarks": [chosen.benchmark] if chosen.benchmark else None,
        "flags": [flag for flag in _FLAGS if getattr(chosen, flag)],
    }
    for name in ("benchmark", *_FLAGS):
        del which[name]
    return questions_of(catalog, [[run_id] for run_id in run_ids], **which, offset=offset, limit=limit)


def read_texts(
    catalog: duckdb.DuckDBPyConnection, run_ids: Sequence[str], questions: Iterable[Row]
) -> Iterator[dict[str, Any]]:
    """Read the texts of questions, one after the other: each with `stored` and `answers` beside what it has.

    `stored` is None where the question's set is not in the lake; `answers` are of each run by its id.

    Args:
        catalog: The public views.
        run_ids: Whose answers, in this order.
        questions: Which, in this order.
    """
    left = iter(questions)
    while block := list(islice(left, _BLOCK)):
        ids: dict[str, list[str]] = {}
        for question in block:
            ids.setdefault(question["benchmark"], []).append(question["question_id"])
        read = {benchmark: read_answers(catalog, benchmark, of_it, run_ids) for benchmark, of_it in ids.items()}
        for question in block:
            place = {name: question[name] for name in ("benchmark", "question_set", "question_id")}
            answers = {run_id: read[place["benchmark"]][place["question_id"], run_id] for run_id in run_ids}
            yield {**question, "stored": find_question(catalog, **place), "answers": answers}
