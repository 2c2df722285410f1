"""`shaberi sql`: run a statement or a named query and show its result."""

import csv
import sys
import warnings
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import duckdb
import orjson
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from shaberi_dagster.errors import ConfigurationError, SqlError
from shaberi_dagster.lake.catalog import VIEWS, describe_sql, open_catalog, run_query, view_files, view_name
from shaberi_dagster.lake.connections import within
from shaberi_dagster.rendering.text import json_safe, printable
from shaberi_dagster.reports.named_queries import QUERIES, find_query
from shaberi_dagster.settings import Settings

FORMATS = ("table", "csv", "json", "parquet")


def run_sql(
    settings: Settings,
    query: str,
    parameters: Sequence[str],
    output_format: str,
    output: Path | None,
    *,
    explain: bool = False,
    timeout: float | None = None,
) -> None:
    """Run one statement and write its result; in tables and CSV a map becomes a column for each of its keys.

    Args:
        settings: Where the lake and the named queries are.
        query: SQL, or the name of a file in `sql/queries` or of a view.
        parameters: `NAME=VALUE` texts.
        output_format: One of `FORMATS`.
        output: A file, or None for stdout.
        explain: Run it and write DuckDB's plan with times instead of its result.
        timeout: Seconds after which the statement is stopped; None for no limit.

    Raises:
        ConfigurationError: The query, a parameter or the format cannot be used, or the time is over.
    """
    if output_format not in FORMATS:
        raise ConfigurationError(f"--format must be one of {', '.join(FORMATS)}, not {output_format!r}")
    parquet = output if output_format == "parquet" and not explain else None
    if output_format == "parquet" and parquet is None:
        raise ConfigurationError("--format parquet needs --output FILE and is no format of a plan")
    given = _given(parameters)
    named = find_query(query)
    text, values = (query, given) if named is None else (named.sql, named.bound(given))
    with open_catalog(settings.warehouse) as connection, within(timeout, connection):
        if named is not None:
            named.check_known(connection, given)
        result = run_query(connection, f"explain analyze {text}" if explain else text, dict(values))
        try:
            if parquet is not None:
                _write_parquet(result, parquet)
                return
            description = result.description or []
            rows = result.fetchall()
        except duckdb.InterruptException:
            raise
        except duckdb.Error as error:
            raise SqlError(error) from error
    columns = [column[0] for column in description]
    if output_format in {"table", "csv"}:
        maps = [str(column[1]).startswith("MAP(") for column in description]
        columns, rows = _with_maps_as_columns(columns, rows, maps)
    if output is None:
        _write_all(output_format, columns, rows, sys.stdout, explain=explain)
    else:
        with _opened(output, "w") as file:
            _write_all(output_format, columns, rows, file, explain=explain)


def list_queries() -> None:
    """Print the views and the named queries with their parameters and the first sentence of their descriptions."""
    table = Table("kind", Column("name and parameters", no_wrap=True), "what it tells")
    added = (file.path for file in VIEWS.added if VIEWS.file(file.name) == file)
    views = {**{view_name(path): path for path in view_files()}, **{path.stem: path for path in added}}
    for name, path in views.items():
        table.add_row("view", name, Text(_first_sentence(describe_sql(path))))
    for query in QUERIES.values():
        parameters = "".join(f"\n  {name}" for name in query.signature.split(", ") if name)
        table.add_row("query", Text(query.name + parameters), Text(_first_sentence(query.description)))
    Console().print(table)


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].removesuffix(".") + "."


def _given(parameters: Sequence[str]) -> dict[str, str]:
    given = {}
    for parameter in parameters:
        name, equals, value = parameter.partition("=")
        if not equals or not name:
            raise ConfigurationError(f"--param {parameter!r} must be NAME=VALUE")
        given[name] = value
    return given


def _with_maps_as_columns(
    columns: Sequence[str], rows: Sequence[tuple[Any, ...]], maps: Sequence[bool]
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """A pivot without knowing its columns beforehand; DuckDB's own takes no parameters and is no single statement."""
    keys = {
        place: list(dict.fromkeys(key for row in rows for key in row[place] or {}))
        for place, is_map in enumerate(maps)
        if is_map
    }
    names: list[str] = []
    for place, column in enumerate(columns):
        taken = {*columns, *names}
        names += [f"{column}.{key}" if key in taken else str(key) for key in keys[place]] if place in keys else [column]
    spread = [
        tuple(
            value
            for place, cell in enumerate(row)
            for value in ([(cell or {}).get(key) for key in keys[place]] if place in keys else [cell])
        )
        for row in rows
    ]
    return names, spread


def _write_all(
    output_format: str, columns: list[str], rows: list[tuple[Any, ...]], file: IO[str], *, explain: bool
) -> None:
    if explain:
        file.writelines(printable(plan, multiline=True) + "\n" for _, plan in rows)
    else:
        _write(output_format, columns, rows, file)


def _write(output_format: str, columns: list[str], rows: list[tuple[Any, ...]], file: IO[str]) -> None:
    if output_format == "json":
        records = [dict(zip(columns, row, strict=True)) for row in rows]
        document = orjson.dumps(records, default=_plain, option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z).decode()
        file.write(json_safe(document) + "\n")
    elif output_format == "csv":
        writer = csv.writer(file)
        # A file gets the exact texts; a terminal must not be steered by them.
        shown = printable if file.isatty() else str
        writer.writerow(map(shown, columns))
        writer.writerows([None if value is None else shown(str(value)) for value in row] for row in rows)
    else:
        table = Table(*(escape(printable(column)) for column in columns))
        for row in rows:
            table.add_row(*map(_cell, row))
        # A file or a pipe has no width: nothing may be cut off there.
        Console(file=file, width=None if file.isatty() else 100_000).print(table, crop=False)


def _cell(value: Any) -> Text:
    if value is None:
        return Text("")
    if isinstance(value, float):
        return Text(f"{value:.4g}" if abs(value) < 1e-3 and value else f"{value:.4f}".rstrip("0").rstrip("."))  # noqa: PLR2004
    if isinstance(value, datetime):
        return Text(f"{value:%Y-%m-%d %H:%M:%S}")
    # Text of models must not move the cursor or colour the terminal.
    return Text(printable(str(value)))


def _plain(value: Any) -> float | str:
    """What JSON has no type for: decimals as numbers, all else as text."""
    return float(value) if isinstance(value, Decimal) else str(value)


def _write_parquet(result: duckdb.DuckDBPyConnection, output: Path) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415  (costs start-up time)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the rows are copied once more
        table = result.to_arrow_table()
    with _opened(output, "wb") as file:
        pq.write_table(table, file)


def _opened(output: Path, mode: str) -> IO[Any]:
    try:
        return output.open(mode) if "b" in mode else output.open(mode, encoding="utf-8", newline="")
    except OSError as error:
        raise ConfigurationError(f"--output {output} cannot be written: {error.strerror}") from error
