"""Declared reports as they are read, and the known benchmarks of a lake."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import duckdb

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.lake.connections import frame_of
from shaberi_dagster.lake.statements import fetch, parsed_statement, rows_of, run_statement
from shaberi_dagster.plugins.discovery import running
from shaberi_dagster.reports.named_queries import known_names
from shaberi_dagster.reports.report import Document, Report, Row, Table
from shaberi_dagster.reports.requests import BASELINE
from shaberi_dagster.util.names import check_known

if TYPE_CHECKING:
    import polars as pl

    from shaberi_dagster.benchmarks import registry


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
    names = [table.name for table in report.tables]
    if len(set(names)) < len(names):
        raise ConfigurationError(f"report {report.name}: two of its tables have one name ({', '.join(names)})")
    found = {table.name: rows_of(_selected(catalog, table, selection)) for table in report.tables}
    for table in report.tables:
        _check_columns(table, found[table.name][0])
    _check_parameters(catalog, report, selection)
    columns, _ = found[report.tables[0].name]
    rows: dict[str, Sequence[Row]] = {name: rows for name, (_, rows) in found.items()}
    for table in report.tables:
        if table.derive and rows[table.name]:
            rows[table.name] = [table.derive(row) for row in rows[table.name]]
            columns = list(rows[report.tables[0].name][0])
    with running(report.verdict or report.result):
        return report.result(rows, columns)


def _check_parameters(catalog: duckdb.DuckDBPyConnection, report: Report, selection: Any) -> None:
    """Refuse a report that takes a choice and does nothing with it.

    Raises:
        ConfigurationError: It names the field of the selection, and the parameters that there are.
    """
    used = set().union(*(parsed_statement(catalog, table.sql).named_parameters for table in report.tables))
    if unused := [f"${name}" for name in vars(selection) if name not in used]:
        has = ", ".join(f"${name}" for name in sorted(used)) or "no parameter"
        raise ConfigurationError(f"report {report.name}: none of its statements has {unused[0]}; they have {has}")


def _check_columns(table: Table, given: Sequence[str]) -> None:
    """Refuse a table of which a column is not in its statement.

    Raises:
        ConfigurationError: It names the column, and those that there are.
    """
    for name in (column.name for column in table.columns if not callable(column.value)):
        if name not in given:
            raise ConfigurationError(f"sql/reports/{table.sql}.sql has no column {name}; it has {', '.join(given)}")


def report_frame(catalog: duckdb.DuckDBPyConnection, report: Report, selection: Any) -> "pl.DataFrame":
    """Read the first table of a declared report as a frame."""
    found = _selected(catalog, report.tables[0], selection)
    _check_parameters(catalog, report, selection)
    return frame_of(found)


def _selected(catalog: duckdb.DuckDBPyConnection, table: Table, selection: Any) -> duckdb.DuckDBPyConnection:
    """Run the statement of a table; fields of the selection are its parameters, others of them are null."""
    chosen = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(selection).items()}
    for name, kind in _NAMES.items():
        if chosen.get(name):
            check_known(kind.partition(" ")[0], chosen[name], known_names(catalog, kind, chosen[name]))
    names = parsed_statement(catalog, table.sql).named_parameters
    if "prices" in names:
        chosen["prices"] = _current_prices(catalog)
    return run_statement(catalog, table.sql, {name: chosen.get(name) or None for name in names})


_NAMES = {"models": "model or run", "tags": "tag or base tag", "sources": "source", "judges": "judge"}
"""The kind of names that a selection chooses from, by its field."""


def read_costs(catalog: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> Sequence[Row]:
    """Tokens and cost of runs by stage and benchmark, at the prices that are known now."""
    return fetch(catalog, "cost", run_ids=run_ids, prices=_current_prices(catalog))


def _current_prices(catalog: duckdb.DuckDBPyConnection) -> str:
    from shaberi_dagster.runs import known_prices

    return known_prices.price_list(catalog)


def benchmarks_in(catalog: duckdb.DuckDBPyConnection) -> "Mapping[str, registry.Benchmark]":
    """Return the known benchmarks, and those of plugins that are gone, as the last run of them kept them."""
    from shaberi_dagster.benchmarks import registry

    rows = fetch(catalog, "entries")
    if not rows:
        return registry.ALL_BENCHMARKS
    from shaberi_dagster.runs import spec

    specs = [spec.RunSpec.read(row["spec"]) for row in rows]
    gone = {
        name: run.benchmark(name)
        for run in specs
        for name, settings in run.benchmarks.items()
        if settings.entry and name not in registry.ALL_BENCHMARKS
    }
    return {**registry.ALL_BENCHMARKS, **gone}


Scales = Mapping[str, tuple[float, float]]
"""The ends of each benchmark's reported scale."""


def reported_scales(benchmarks: "Mapping[str, registry.Benchmark]") -> Scales:
    """Map each benchmark to its (lowest, highest) score on the reported scale."""
    return {
        name: (
            benchmark.scale_minimum * benchmark.reported_multiplier,
            benchmark.scale_maximum * benchmark.reported_multiplier,
        )
        for name, benchmark in benchmarks.items()
    }


def scale_rows(catalog: duckdb.DuckDBPyConnection) -> list[Row]:
    """Return the scales as statements take them."""
    scales = reported_scales(benchmarks_in(catalog))
    return [{"benchmark": name, "minimum": low, "maximum": high} for name, (low, high) in scales.items()]


def check_passes(pipeline: str) -> None:
    """Refuse a pipeline that found nothing because one of its passes is none.

    Raises:
        ConfigurationError: There is no such pass; with those that are most like it.
    """
    from shaberi_dagster.passes import registry as passes

    for name in () if pipeline == BASELINE else pipeline.split(","):
        passes.PASSES.use(name)
