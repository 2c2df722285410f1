"""The single scores behind rows, of which intervals and ties are made."""

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import compress
from operator import itemgetter
from typing import cast

import orjson

from shaberi_dagster.lake.statements import Catalog, fetch
from shaberi_dagster.reports.audited import corrected, mean_audit
from shaberi_dagster.reports.blocks import Row, Rows, grouped, is_number
from shaberi_dagster.reports.reading import Scales
from shaberi_dagster.reports.rows import OVERALL, JudgeScores, mean_estimate, spanned
from shaberi_dagster.statistics.intervals import Estimate, clustered_mean_interval

FEWEST_CATEGORIES = 10
"""From how many categories on they are taken for a sample of categories."""
_Cell = tuple[str, str, str]
"""Run, judge and benchmark."""


class SingleScores:
    """The single scores behind rows, as the metrics have them; each is read once.

    Args:
        catalog: The public views.
        question_sets: Of these sets' benchmarks only their questions.
        scales: Scales of the benchmarks.
        over: questions or categories: samples of one are one cluster.
    """

    def __init__(self, catalog: Catalog, question_sets: Sequence[str], scales: Scales, over: str = "questions") -> None:
        self._catalog, self._question_sets, self.scales, self.over = catalog, list(question_sets), scales, over
        self._known: dict[_Cell, list[JudgeScores]] = {}

    def load(self, rows: Iterable[Row]) -> None:
        """Read all at once what is not known yet of some rows, which are of one pipeline and null policy."""
        wanted = {cell_of(row): row for row in rows if is_number(row["score"]) and cell_of(row) not in self._known}
        if not wanted:
            return
        self._known |= {cell: [] for cell in wanted}
        chosen = {name: next(iter(wanted.values()))[name] for name in ("pipeline", "null_policy")}
        for part in fetch(self._catalog, "question_scores", cells=orjson.dumps(list(wanted)).decode(), **chosen):
            for found in orjson.loads(part["cells"]):
                cell = found["run_id"], found["judge"], part["benchmark"]
                self._known[cell].append(
                    self._part(wanted[cell], part["question_ids"], found["scores"], found["undecided"] or ())
                )

    def _part(
        self, row: Row, questions: Sequence[str | int], scores: Sequence[float | None], undecided: Sequence[bool]
    ) -> JudgeScores:
        if len(questions) != len(scores) or (undecided and len(undecided) != len(scores)):
            benchmark, judge = row["benchmark"], row["judge"]
            raise ValueError(f"{benchmark} has {len(questions)} questions and {len(scores)} scores by {judge}")
        if chosen := self._chosen.get(row["benchmark"]):
            places = [place for place, question in enumerate(questions) if question in chosen]
            questions, scores = [questions[place] for place in places], [scores[place] for place in places]
            undecided = [undecided[place] for place in places] if undecided else ()
        n_without_row = row["n_planned"] - len(scores)
        if row["null_policy"] == "zero" and n_without_row > 0:
            # A planned sample without a row is a missing score as well; of which question it is does not matter.
            minimum = self.scales.get(row["benchmark"], (None,))[0]
            questions, scores = [*questions, *range(n_without_row)], [*scores, *[minimum] * n_without_row]
            undecided = [*undecided, *[False] * n_without_row] if undecided else ()
        return JudgeScores(row["benchmark"], row["judge"], questions, scores, undecided)

    @cached_property
    def _chosen(self) -> dict[str, set[str]]:
        """Map benchmarks of the chosen question sets to their questions."""
        chosen = [row for row in self._questions if row["is_chosen"]] if self._question_sets else []
        return {name: {row["question_id"] for row in rows} for name, rows in grouped(chosen, itemgetter("benchmark"))}

    @cached_property
    def _categories(self) -> dict[tuple[str, str | int], str]:
        return {(row["benchmark"], row["question_id"]): row["category"] for row in self._questions}

    @cached_property
    def _questions(self) -> Rows:
        return fetch(self._catalog, "question_categories", question_sets=self._question_sets)

    def of(self, rows: Iterable[Row], *, decided: bool = False) -> list[JudgeScores]:
        """Return the single scores of some rows, put together; only what is `decided`, or all."""
        self.load(rows := list(rows))
        parts = (part for row in rows for part in self._known.get(cell_of(row), ()))
        return [part.decided if decided else part for part in parts]

    def n_categories(self, row: Row) -> int:
        """Count the categories of questions with a score; those without a category are in one of their own."""
        questions = {question for question in self._scored([row])[0] if isinstance(question, str)}
        return len({self._categories.get((row["benchmark"], question), "") for question in questions})

    def _scored(self, rows: Iterable[Row], *, decided: bool = False) -> tuple[list[str | int], list[float], list[int]]:
        """Return the scores that there are, their questions, and how many the judge and run of each has."""
        questions, scores, sizes = list[str | int](), list[float](), list[int]()
        for part in self.of(rows, decided=decided):
            is_there = [score is not None for score in part.scores]
            questions += compress(part.questions, is_there)
            scores += compress(cast("Sequence[float]", part.scores), is_there)
            sizes += [sum(is_there)] * sum(is_there)
        return questions, scores, sizes

    def estimate(self, rows: Rows, over: str | None = None, *, decided: bool = False) -> Estimate | None:
        """Estimate the mean of some rows of a benchmark, each with the same weight; None for too few questions.

        Args:
            rows: The rows.
            over: questions, or categories where there are enough of them; None as for all.
            decided: Only of what a rule could decide.
        """
        clusters, scores, sizes = self._scored(rows, decided=decided)
        benchmark = rows[0]["benchmark"]
        if (over or self.over) == "categories":
            categories: list[str | int] = [self._categories.get((benchmark, name), "") for name in clusters]
            clusters = categories if len({*categories}) >= FEWEST_CATEGORIES else clusters
        # Where scores are missing, a judge with fewer of them counts as much as the others.
        typical = len(sizes) / math.fsum(1 / size for size in sizes) if sizes else 0.0
        weights = [typical / size for size in sizes] if len({*sizes}) > 1 else None
        return clustered_mean_interval(scores, clusters, self.scales.get(benchmark), weights=weights)

    def estimates(self, rows: Rows) -> dict[str, Estimate | None]:
        """Estimate each benchmark of some rows, and their mean over benchmarks: None where one is not known."""
        self.load(rows)
        lower, upper = (
            {
                name: corrected(self.estimate(of_benchmark, decided=decided), mean_audit(of_benchmark))
                for name, of_benchmark in grouped(rows, itemgetter("benchmark"))
            }
            for decided in (False, True)
        )
        lower, upper = (found | {OVERALL: mean_estimate([*found.values()])} for found in (lower, upper))
        return {name: spanned(estimate, upper[name]) for name, estimate in lower.items()}


def cell_of(row: Row) -> _Cell:
    """Return the run, judge and benchmark of a row."""
    return row["run_id"], row["judge"], row["benchmark"]
