"""The SQL of reports: statements of `sql/reports/`, run on the public views."""

from collections.abc import Collection, Mapping
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import duckdb

from shaberi_dagster.lake.catalog import errors_of_sql
from shaberi_dagster.lake.connections import frame_of
from shaberi_dagster.lake.statements import statement
from shaberi_dagster.reports.named_queries import known_names
from shaberi_dagster.reports.report import Document, Report, Table
from shaberi_dagster.reports.requests import BASELINE
from shaberi_dagster.util.names import check_known

if TYPE_CHECKING:
    import polars as pl

    from shaberi_dagster.benchmarks.registry import Benchmark

R = TypeVar("R", bound=NamedTuple)


def fetch(catalog: duckdb.DuckDBPyConnection, name: str, **values: object) -> list[dict[str, Any]]:
    """The rows of `sql/reports/NAME.sql`, by column name.

    Args:
        catalog: The public views.
        name: Of the file.
        values: Of the statement's parameters; the others are null.
    """
    return _rows(_run(catalog, name, values))[1]


def fetch_as(kind: type[R], catalog: duckdb.DuckDBPyConnection, name: str, **values: object) -> list[R]:
    """The same as named tuples, of very many rows in a fraction of the time.

    Args:
        kind: Its fields are columns of the statement, or have a default.
        catalog: The public views.
        name: Of the file.
        values: Of the statement's parameters.
    """
    result = _run(catalog, name, values)
    defaults = kind._field_defaults
    given = [column[0] for column in result.description or []]
    places = [*given, *defaults]
    pick = itemgetter(*map(places.index, kind._fields))
    return [kind._make(pick((*row, *defaults.values()))) for row in result.fetchall()]


def fetch_frame(catalog: duckdb.DuckDBPyConnection, name: str, **values: object) -> "pl.DataFrame":
    """The same as a frame."""
    return frame_of(_run(catalog, name, values))


def read_report(catalog: duckdb.DuckDBPyConnection, report: Report, selection: Any) -> Document:
    """Read a declared report.

    Args:
        catalog: The public views.
        report: Its declaration.
        selection: Of the kind that it asks for.

    Raises:
        ConfigurationError: The lake has no such model, tag, …
    """
    if report.read is not None:
        return report.read(catalog, selection)
    found = {table.name: _rows(_selected(catalog, table, selection)) for table in report.tables}
    columns, _ = found[report.tables[0].name]
    return report.result({name: rows for name, (_, rows) in found.items()}, columns)


def report_frame(catalog: duckdb.DuckDBPyConnection, report: Report, selection: Any) -> "pl.DataFrame":
    """Read the first table of a declared report as a frame."""
    return frame_of(_selected(catalog, report.tables[0], selection))


def _selected(catalog: duckdb.DuckDBPyConnection, table: Table, selection: Any) -> duckdb.DuckDBPyConnection:
    """Run the statement of a table; fields of the selection are its parameters, others of them are null."""
    chosen = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(selection).items()}
    for name, what in _NAMES.items():
        if chosen.get(name):
            check_known(what.partition(" ")[0], chosen[name], known_names(catalog, what))
    return _run(catalog, table.sql, {name: chosen.get(name) or None for name in _parameters(table.sql)})


_NAMES = {"models": "model", "tags": "tag or base tag", "sources": "source", "judges": "judge"}
"""The kind of names that a selection chooses from, by its field."""


def _rows(result: duckdb.DuckDBPyConnection) -> tuple[list[str], list[dict[str, Any]]]:
    """The columns of a result, and its rows by them."""
    names = [column[0] for column in result.description or []]
    return names, [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def _run(catalog: duckdb.DuckDBPyConnection, name: str, values: Mapping[str, object]) -> duckdb.DuckDBPyConnection:
    # Without `run_query`, which finds out of anybody's statement that it only reads: a quarter of the time of ours.
    with errors_of_sql():
        return catalog.execute(statement(name), {**dict.fromkeys(_parameters(name)), **values})


@cache
def _parameters(name: str) -> Collection[str]:
    """Parameters of a statement; those that get no value are null."""
    return duckdb.extract_statements(statement(name))[0].named_parameters


def benchmarks_in(catalog: duckdb.DuckDBPyConnection) -> "Mapping[str, Benchmark]":
    """The known benchmarks, and those of plugins that are gone as the last run of them kept them."""
    from shaberi_dagster.benchmarks.registry import ALL_BENCHMARKS  # noqa: PLC0415  (costs start-up time as well)

    rows = fetch(catalog, "entries")
    if not rows:
        return ALL_BENCHMARKS
    from shaberi_dagster.runs.spec import RunSpec  # noqa: PLC0415  (costs start-up time, and few have plugins)

    specs = [RunSpec.read(row["spec"]) for row in rows]
    kept = {name: spec.benchmark(name) for spec in specs for name, one in spec.benchmarks.items() if one.entry}
    return {**ALL_BENCHMARKS, **{name: one for name, one in kept.items() if name not in ALL_BENCHMARKS}}


Scales = Mapping[str, tuple[float, float]]
"""The ends of each benchmark's reported scale."""


def reported_scales(benchmarks: "Mapping[str, Benchmark]") -> Scales:
    """Those of some benchmarks."""
    return {
        name: (one.scale_minimum * one.reported_multiplier, one.scale_maximum * one.reported_multiplier)
        for name, one in benchmarks.items()
    }


def check_passes(pipeline: str) -> None:
    """Refuse a pipeline that found nothing because one of its passes is none.

    Raises:
        ConfigurationError: There is no such pass; with those that are most like it.
    """
    from shaberi_dagster.passes.registry import PASSES  # noqa: PLC0415 (only who names a wrong one waits for it)

    for name in () if pipeline == BASELINE else pipeline.split(","):
        PASSES.use(name)
