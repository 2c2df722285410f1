"""`shaberi sql`: run a statement or a named query and show its result."""

import csv
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import duckdb
import orjson
from rich.console import Console

from shaberi_dagster.errors import ConfigurationError, SqlError
from shaberi_dagster.lake.catalog import VIEWS, describe_sql, open_catalog, run_query, view_files, view_name
from shaberi_dagster.lake.connections import within
from shaberi_dagster.rendering.document import Column, Heading, Sentences, Table, table_of, text
from shaberi_dagster.rendering.figures import counted
from shaberi_dagster.rendering.terminal import draw, table_width
from shaberi_dagster.rendering.text import json_safe, printable
from shaberi_dagster.reports.named_queries import QUERIES, find_query
from shaberi_dagster.settings import Settings

FORMATS = ("table", "csv", "json", "parquet")
_MOST_ROWS = 100
"""So many rows a terminal gets, unless more are asked for."""
_NARROWEST_TEXT = 8
_AT_ONCE = 10_000


def run_sql(
    settings: Settings,
    query: str,
    parameters: Sequence[str],
    output_format: str,
    output: Path | None,
    *,
    explain: bool = False,
    timeout: float | None = None,
    vertical: bool = False,
    most_rows: int | None = None,
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
        vertical: In a table, each row as lines of its own, with whole texts.
        most_rows: Not more rows than that; None: all, but for a table on a terminal.

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
    statement, values = (query, given) if named is None else (named.sql, named.bound(given))
    with open_catalog(settings.warehouse) as connection, within(timeout, connection):
        if named is not None:
            named.check_known(connection, given)
        result = run_query(connection, f"explain analyze {statement}" if explain else statement, dict(values))
        with _errors_of_sql():
            if parquet is not None:
                _write_parquet(result, parquet)
                return
            description = result.description or []
            on_terminal = output_format == "table" and output is None and sys.stdout.isatty() and not explain
            rows, n_left_out = _fetch(result, _MOST_ROWS if most_rows is None and on_terminal else most_rows)
    columns = [column[0] for column in description]
    if output_format in {"table", "csv"}:
        maps = [str(column[1]).startswith("MAP(") for column in description]
        columns, rows = _with_maps_as_columns(columns, rows, maps)
    with nullcontext(sys.stdout) if output is None else _opened(output, "w") as file:
        if explain:
            file.writelines(printable(plan, multiline=True) + "\n" for _, plan in rows)
        elif output_format == "table":
            _write_table(columns, rows, file, vertical=vertical, n_left_out=n_left_out)
        else:
            _write(output_format, columns, rows, file)
    if n_left_out and output_format != "table":
        print(f"{counted(n_left_out, 'row')} left out (--rows)", file=sys.stderr)  # noqa: T201


@contextmanager
def _errors_of_sql() -> Iterator[None]:
    try:
        yield
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:
        raise SqlError(error) from error


def _fetch(result: duckdb.DuckDBPyConnection, most: int | None) -> tuple[list[tuple[Any, ...]], int]:
    """The first rows, or all, and how many there are beside them."""
    if most is None:
        return result.fetchall(), 0
    rows, n_left_out = result.fetchmany(most), 0
    while more := result.fetchmany(_AT_ONCE):
        n_left_out += len(more)
    return rows, n_left_out


def list_queries() -> None:
    """Print the views and the named queries with their parameters and the first sentence of their descriptions."""
    added = (file.path for file in VIEWS.added if VIEWS.file(file.name) == file)
    files = {**{view_name(path): path for path in view_files()}, **{path.stem: path for path in added}}
    views = [("view", (name,), describe_sql(path)) for name, path in files.items()]
    queries = [
        ("query", (query.name, *(f"  {name}" for name in query.signature.split(", ") if name)), query.description)
        for query in QUERIES.values()
    ]
    columns = [
        text("kind", lambda row: row[0]),
        text("name and parameters", lambda row: row[1]),
        text("what it tells", lambda row: _first_sentence(row[2]), folds=True),
    ]
    draw([table_of([*views, *queries], columns)], Console())


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


def _write_table(
    names: Sequence[str], rows: Sequence[tuple[Any, ...]], file: IO[str], *, vertical: bool, n_left_out: int
) -> None:
    # A file or a pipe has no width: nothing may be cut off there.
    console = Console(file=file, width=None if file.isatty() else 100_000)
    left_out = [f"{counted(n_left_out, 'row')} not shown (--rows)."] if n_left_out else []
    if vertical:
        for number, row in enumerate(rows, start=1):
            values = [Column("", names, left=True), Column("", [_lines(value) for value in row], left=True, folds=True)]
            draw([Heading(f"row {number}"), Table(values)], console)
        draw([Sentences(left_out, "note")], console)
        return
    columns = [_column(name, [row[place] for row in rows]) for place, name in enumerate(names)]
    n_shown = len(columns)
    while n_shown > 1 and table_width(Table(columns[:n_shown])) > console.width:
        n_shown -= 1
    if n_shown < len(columns):
        hidden = ", ".join(names[n_shown:])
        left_out.append(f"{counted(len(names) - n_shown, 'column')} not shown (--vertical): {hidden}.")
    draw([Table(columns[:n_shown], notes=left_out)], console)


def _column(name: str, values: Sequence[Any]) -> Column:
    """Numbers are aligned on the right and whole; texts may be cut."""
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, int | float | Decimal) and not isinstance(value, bool) for value in known):
        return Column(name, list(map(_cell, values)))
    return Column(name, list(map(_cell, values)), left=True, cuts="end", narrowest=_NARROWEST_TEXT)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e-3 and value else f"{value:.4f}".rstrip("0").rstrip(".")  # noqa: PLR2004
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return str(value)


def _lines(value: Any) -> tuple[str, ...]:
    """A whole value, line by line."""
    return tuple(printable(_cell(value), multiline=True).replace("\t", " ").split("\n"))


def _write(output_format: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], file: IO[str]) -> None:
    if output_format == "json":
        records = [dict(zip(columns, row, strict=True)) for row in rows]
        document = orjson.dumps(records, default=_plain, option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z).decode()
        file.write(json_safe(document) + "\n")
        return
    writer = csv.writer(file)
    # A file gets the exact texts; a terminal must not be steered by them.
    shown = printable if file.isatty() else str
    writer.writerow(map(shown, columns))
    writer.writerows([None if value is None else shown(str(value)) for value in row] for row in rows)


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
