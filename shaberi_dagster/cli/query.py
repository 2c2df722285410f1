"""`shaberi sql`: run a statement or a named query and show its result."""

import csv
import re
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
from rich.table import Table
from rich.text import Text

from shaberi_dagster.cli.text import json_safe, printable
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.lake.catalog import describe_sql, open_catalog, run_query, view_files, view_name
from shaberi_dagster.settings import Settings

FORMATS = ("table", "csv", "json", "parquet")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def run_sql(settings: Settings, query: str, parameters: Sequence[str], output_format: str, output: Path | None) -> None:
    """Run one statement and write its result.

    Args:
        settings: Where the lake and the named queries are.
        query: SQL, or the name of a file in `sql/queries`.
        parameters: `NAME=VALUE` texts.
        output_format: One of `FORMATS`.
        output: A file, or None for stdout.

    Raises:
        ConfigurationError: The query, a parameter or the format cannot be used.
    """
    if output_format not in FORMATS:
        raise ConfigurationError(f"--format must be one of {', '.join(FORMATS)}, not {output_format!r}")
    parquet = output if output_format == "parquet" else None
    if output_format == "parquet" and parquet is None:
        raise ConfigurationError("--format parquet needs --output FILE")
    text = _named_query(settings, query) if _NAME.fullmatch(query) else query
    with open_catalog(settings.warehouse) as connection:
        result = run_query(connection, text, _bound(parameters))
        try:
            if parquet is not None:
                _write_parquet(result, parquet)
                return
            columns = [column[0] for column in result.description or []]
            rows = result.fetchall()
        except duckdb.Error as error:
            raise ConfigurationError(f"SQL: {str(error).strip()}") from error
    if output is None:
        _write(output_format, columns, rows, sys.stdout)
    else:
        with _opened(output, "w") as file:
            _write(output_format, columns, rows, file)


def list_queries(settings: Settings) -> None:
    """Print the views and the named queries with their descriptions."""
    table = Table("kind", "name", "what it tells")
    for path in view_files():
        table.add_row("view", view_name(path), Text(describe_sql(path)))
    for path in sorted((settings.sql / "queries").glob("*.sql")):
        table.add_row("query", path.stem, Text(describe_sql(path)))
    Console().print(table)


def _named_query(settings: Settings, name: str) -> str:
    path = settings.sql / "queries" / f"{name}.sql"
    if not path.is_file():
        known = ", ".join(sorted(path.stem for path in path.parent.glob("*.sql")))
        raise ConfigurationError(f"no query {name!r}; known: {known}; `shaberi sql` lists views too")
    return path.read_text(encoding="utf-8")


def _bound(parameters: Sequence[str]) -> dict[str, object] | None:
    bound: dict[str, object] = {}
    for parameter in parameters:
        name, equals, value = parameter.partition("=")
        if not equals or not name:
            raise ConfigurationError(f"--param {parameter!r} must be NAME=VALUE")
        bound[name] = value
    return bound or None


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
