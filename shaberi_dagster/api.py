"""The library: `open_lake()` reads what there is, `evaluate()` makes what is missing. `docs/library.md` shows how."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from shaberi_dagster.lake.catalog import open_as_of, open_catalog, run_query
from shaberi_dagster.lake.connections import frame_of, within
from shaberi_dagster.lake.queries import find_query
from shaberi_dagster.lake.statements import fetch
from shaberi_dagster.reports.blocks import Document, Report, Row
from shaberi_dagster.reports.declared import REPORTS
from shaberi_dagster.reports.declared.sweep import read_sweep
from shaberi_dagster.reports.questions import Filter, read_question, read_questions
from shaberi_dagster.reports.reading import find_side, read_report, report_frame
from shaberi_dagster.reports.requests import ComparisonRequest, ScoreSelection
from shaberi_dagster.reports.scores import ScoreReport, read_rankings, read_scores
from shaberi_dagster.settings import Settings, warehouse_folder
from shaberi_dagster.util.permissions import private_files

if TYPE_CHECKING:
    import polars as pl

    from shaberi_dagster.reports import comparison

_OF_QUESTION = (
    *("benchmark", "question_set", "question_id", "position", "category", "question"),
    *("difference", "disagreement", "n_failed"),
)


@dataclass(frozen=True)
class LakeReader:
    """A lake to ask. Each question is about what is there when it is asked; nothing can be changed.

    Attributes:
        folder: The warehouse.
    """

    folder: Path

    def sql(self, query: str, *, timeout: float | None = None, **parameters: Any) -> "pl.DataFrame":
        """The rows of a SELECT statement, of a named query (`sql/queries`) or of a view.

        Args:
            query: SQL, or a name.
            timeout: Seconds after which the statement is stopped; None for no limit.
            parameters: Values of its `$parameters`; those of a named query have the defaults of the query.

        Raises:
            ConfigurationError: It cannot be run, only changes something, or takes too long.
        """
        named = find_query(query)
        with self._catalog() as catalog, within(timeout, catalog):
            if named is None:
                return frame_of(run_query(catalog, query, parameters))
            given = {name: None if value is None else str(value) for name, value in parameters.items()}
            named.check_known(catalog, given)
            return frame_of(run_query(catalog, named.sql, dict(named.bound(given))))

    def scores(self, *, as_of: datetime | None = None, top: int = 0, **selection: Any) -> ScoreReport:
        """Scores with their uncertainty; `.frame` has them as a frame.

        Args:
            as_of: What the lake had at that time, with its offset; None is now.
            top: Of more than 200 runs, lines of each ranking that are compared with the best; 0: all.
            selection: Fields of `reports.requests.ScoreSelection`: models, tags, judges, pipeline, null_policy, …

        Raises:
            ConfigurationError: Nothing is selected.
        """
        with self._catalog(as_of) as catalog:
            return read_scores(catalog, _chosen(ScoreSelection, {"as_of": as_of, **selection}), top=top)

    def leaderboard(self, **selection: Any) -> "pl.DataFrame":
        """Who is best, as `view-scores` ranks it: a row for each model and base tag, with interval and tie.

        Args:
            selection: Fields of `reports.requests.ScoreSelection`: models, tags, judges, pipeline, null_policy, …

        Raises:
            ConfigurationError: Nothing is selected.
        """
        with self._catalog() as catalog:
            return read_rankings(catalog, _chosen(ScoreSelection, selection)).ranking_frame

    def sweep(self, models: Sequence[str], tags: Sequence[str]) -> Sequence[Sequence[Row]]:
        """Runs that differ in a setting: the standings of each ranking, with what their answers cost.

        Args:
            models: Their models.
            tags: Their tags.

        Raises:
            ConfigurationError: There are no scores.
        """
        with self._catalog() as catalog:
            return read_sweep(catalog, ScoreSelection(models=models, tags=tags))

    def compare(self, a: str, b: str, **choices: Any) -> "comparison.ComparisonReport":
        """Two models or runs, question by question; `.frame` has the differences as a frame.

        Args:
            a: A model, or MODEL@@TAG for a run.
            b: What to compare it with.
            choices: Fields of `reports.requests.ComparisonRequest`: tag, judges, benchmarks, over, margin, …

        Raises:
            ConfigurationError: There is no such run, or nothing is common to both.
        """
        from shaberi_dagster.reports import comparison

        with self._catalog() as catalog:
            return comparison.compare(catalog, _chosen(ComparisonRequest, {"a": a, "b": b, **choices}))

    def questions(self, runs: Sequence[str], which: str = "") -> "pl.DataFrame":
        """The questions that some runs were asked, with a column for each run's score on the reported scale.

        Args:
            runs: Each a model, MODEL@@TAG or a run id; TAG can be that of several runs, which are averaged. Scores are
                over the judges that scored all of them there.
            which: A filter as that of `inspect-output`: `benchmark:elyza score<5 sort:difference words`.

        Raises:
            ConfigurationError: There is no such run, or the filter is not valid.
        """
        import polars as pl

        with self._catalog() as catalog:
            known = fetch(catalog, "chosen_runs")
            sides = [{"run_ids": find_side(known, name, name, None).run_ids} for name in runs]
            found = read_questions(catalog, sides, Filter.parse(which))
            rows = [
                {name: question[name] for name in _OF_QUESTION} | dict(zip(runs, question["scores"], strict=True))
                for question in found
            ]
        numbers = dict.fromkeys((*runs, "difference", "disagreement"), pl.Float64) if rows else None
        return pl.DataFrame(rows, schema_overrides=numbers, infer_schema_length=None)

    def question(
        self, benchmark: str, position: int, *, question_set: str | None = None, models: Sequence[str] = ()
    ) -> dict[str, Any]:
        """A question with its answers and judgements.

        Args:
            benchmark: Its benchmark.
            position: Its place in the set, from 1.
            question_set: Which version, such as `tengu@115`; None is the largest.
            models: Only their answers; none means all.

        Raises:
            ConfigurationError: The lake has no such question.
        """
        with self._catalog() as catalog:
            return read_question(catalog, benchmark, position, question_set=question_set, models=models)

    def read(self, report: Report, selection: Any) -> Document:
        """Read a declared report, as its command does.

        Args:
            report: Its declaration.
            selection: Of the kind that it asks for.

        Raises:
            ConfigurationError: The lake has no such model, tag, …
        """
        with self._catalog() as catalog:
            return read_report(catalog, report, selection)

    def __getattr__(self, name: str) -> "Callable[..., pl.DataFrame]":
        """Find the method that a declared report is: of fields of its selection it makes a frame of its first table."""
        if name not in REPORTS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def frame(**selection: Any) -> "pl.DataFrame":
            report = REPORTS.use(name)
            with self._catalog() as catalog:
                return report_frame(catalog, report, _chosen(report.selection, selection))

        return frame

    def _catalog(self, as_of: datetime | None = None) -> duckdb.DuckDBPyConnection:
        return open_as_of(self.folder, as_of) if as_of else open_catalog(self.folder)


def _chosen(kind: type[Any], choices: Mapping[str, Any]) -> Any:
    """Make a selection; one name stands for a list of it."""
    several = {name for name in choices if getattr(kind, name, None) == ()}
    return kind(**{name: [one] if name in several and isinstance(one, str) else one for name, one in choices.items()})


def open_lake(folder: str | Path | None = None) -> LakeReader:
    """The lake in a folder, to read.

    Args:
        folder: The warehouse; None: as `SHABERI_WAREHOUSE` says, else `warehouse` in the working directory.

    Raises:
        ConfigurationError: There is no lake in it, or a newer program wrote it.
    """
    warehouse = Path(folder).absolute() if folder is not None else Settings.from_environment().warehouse
    lake = LakeReader(warehouse)
    lake._catalog().close()  # noqa: SLF001
    return lake


def evaluate(model: str, **request: Any) -> ScoreReport:
    """Evaluate a model, as `run-evals` does: what is there already is not paid for again. Progress goes to stderr.

    Args:
        model: What to evaluate.
        request: Fields of `runs.spec.RunRequest` (tag, benchmarks, judge_models, base_url, limit, …) and of
            `runs.spec.CallOptions` (concurrency, max_cost, …).

    Returns:
        The run's scores; parts that failed are in `unfinished`.

    Raises:
        ConfigurationError: Something that is asked for cannot be.
        EndpointError: An endpoint cannot be reached or refuses us.
    """
    from shaberi_dagster.runs import spec

    options = {name: request.pop(name) for name in spec.CallOptions.model_fields if name in request}
    asked = spec.RunRequest(model=model, **request)
    with private_files(warehouse_folder()):
        evaluation = _executor()([asked], spec.CallOptions(**options))
        if evaluation.run() != "complete":
            print(evaluation.failures(), file=sys.stderr)  # noqa: T201
    chosen = evaluation.selection
    return LakeReader(evaluation.workspace.settings.warehouse).scores(models=chosen.models, tags=chosen.tags)


def _executor() -> Any:
    """Load what carries out evaluations, which registers itself as an entry point: Dagster stands above the library."""
    (executor,) = entry_points(group="shaberi.executor")
    return executor.load()
