"""The SQL of reports: statements of `sql/reports/`, run on the public views."""

from collections.abc import Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import duckdb

from shaberi_dagster.lake.catalog import errors_of_sql
from shaberi_dagster.lake.connections import frame_of
from shaberi_dagster.lake.statements import statement
from shaberi_dagster.reports.requests import BASELINE

if TYPE_CHECKING:
    import polars as pl

    from shaberi_dagster.benchmarks.registry import Benchmark

R = TypeVar("R", bound=NamedTuple)


def fetch(catalog: duckdb.DuckDBPyConnection, name: str, **values: object) -> list[dict[str, Any]]:
    """The rows of `sql/reports/NAME.sql`, by column name.

    Args:
        catalog: The public views.
        name: Of the file.
        values: Of the statement's parameters.
    """
    result = _run(catalog, name, values)
    names = [column[0] for column in result.description or []]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


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


def _run(catalog: duckdb.DuckDBPyConnection, name: str, values: Mapping[str, object]) -> duckdb.DuckDBPyConnection:
    # Without `run_query`, which finds out of anybody's statement that it only reads: a quarter of the time of ours.
    with errors_of_sql():
        return catalog.execute(statement(name), values)


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
