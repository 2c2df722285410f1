"""The rows of any statement: a table for people, CSV, JSON, or a Parquet file; and the list of named queries."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from operator import itemgetter
from typing import IO, TYPE_CHECKING, Any

import orjson
from rich.console import Console

from shaberi_dagster.lake.queries import QUERIES
from shaberi_dagster.lake.statements import Catalog, describe_sql
from shaberi_dagster.lake.views import VIEWS, public_views
from shaberi_dagster.reports.blocks import Column, Heading, Sentences, Table, counted, table_of, text
from shaberi_dagster.reports.terminal import draw, table_width
from shaberi_dagster.util.text import csv_text, json_safe, no_formula, printable

if TYPE_CHECKING:
    import pyarrow as pa

_NARROWEST_TEXT, _NARROWEST_NAME = 8, 20
_NAMES = {"model", "run_id"}
_FIRST = ("leaderboard", "scores", "answers", "judgements", "runs")
"""Views that the list begins with."""
"""Columns that say whose the others are: these go first where there is no room for all."""
_AT_ONCE = 10_000


@dataclass(frozen=True)
class QueryRows:
    """The result of a statement.

    Attributes:
        columns: Their names.
        rows: As many values each.
        maps: Which columns are maps.
        n_left_out: How many more rows there are.
    """

    columns: Sequence[str]
    rows: Sequence[tuple[Any, ...]]
    maps: Sequence[bool]
    n_left_out: int = 0

    @classmethod
    def of(cls, result: Catalog, most: int | None = None) -> "QueryRows":
        """The rows of a statement that was run; not more than so many, the rest being counted."""
        description = result.description or []
        names, maps = [name for name, *_ in description], [str(kind).startswith("MAP(") for _, kind, *_ in description]
        if most is None:
            return cls(names, result.fetchall(), maps)
        rows, n_left_out = result.fetchmany(most), 0
        while more := result.fetchmany(_AT_ONCE):
            n_left_out += len(more)
        return cls(names, rows, maps, n_left_out)

    @property
    def left_out(self) -> str:
        """The number of rows that are not among these, and the option that shows them."""
        return f"{counted(self.n_left_out, 'row')} not shown (--rows)"


def write_rows(result: QueryRows, output_format: str, file: IO[str], *, vertical: bool = False) -> None:
    """Write rows; in tables and CSV a map becomes a column for each of its keys.

    Args:
        result: The rows.
        output_format: table, csv or json.
        file: Where to; texts steer no terminal, and a file gets them exactly.
        vertical: In a table, each row as lines of its own, with whole texts.
    """
    if output_format == "json":
        records = [dict(zip(result.columns, row, strict=True)) for row in result.rows]
        document = orjson.dumps(records, default=_plain, option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z).decode()
        file.write(json_safe(document) + "\n")
        return
    names, rows = _with_maps_as_columns(result.columns, result.rows, result.maps)
    if output_format == "csv":
        _write_csv(names, rows, file)
    else:
        _write_table(names, rows, file, vertical=vertical, left_out=result.left_out if result.n_left_out else "")


def write_plan(result: QueryRows, file: IO[str]) -> None:
    """Write the plan that a statement has brought as DuckDB draws it."""
    for _, plan in result.rows:
        file.write(printable(plan, multiline=True) + "\n")


def write_parquet(rows: "pa.Table", file: IO[bytes]) -> None:
    """Write rows with their types."""
    from pyarrow import parquet as pq

    pq.write_table(rows, file)


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
    names: Sequence[str], rows: Sequence[tuple[Any, ...]], file: IO[str], *, vertical: bool, left_out: str
) -> None:
    # A file or a pipe has no width: nothing may be cut off there.
    console = Console(file=file, width=None if file.isatty() else 100_000)
    notes = [f"{left_out}."] if left_out else []
    if vertical:
        for number, row in enumerate(rows, start=1):
            of_row = table_of(list(zip(names, row, strict=True)), _VERTICAL)
            draw([Heading(f"row {number}"), of_row], console)
        draw([Sentences(notes, "note")], console)
        return
    columns = [_column(name, [row[place] for row in rows]) for place, name in enumerate(names)]
    n_shown = len(columns)
    while n_shown > 1 and table_width(Table(columns[:n_shown])) > console.width:
        n_shown -= 1
    if n_shown < len(columns):
        hidden = ", ".join(names[n_shown:])
        notes.append(f"{counted(len(names) - n_shown, 'column')} not shown (--vertical): {hidden}.")
    draw([Table(columns[:n_shown], notes=notes)], console)


def _column(name: str, values: Sequence[Any]) -> Column:
    """Numbers are aligned on the right and whole; texts may be cut."""
    known = [value for value in values if value is not None]
    column = Column(name, cells=list(map(_cell, values)))
    if known and all(isinstance(value, int | float | Decimal) and not isinstance(value, bool) for value in known):
        return column
    if name in _NAMES:
        return replace(column, left=True, cuts="middle", narrowest=_NARROWEST_NAME)
    return replace(column, left=True, cuts="end", narrowest=_NARROWEST_TEXT)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e-3 and value else f"{value:.4f}".rstrip("0").rstrip(".")  # noqa: PLR2004
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return str(value)


def _lines(named: tuple[str, Any]) -> tuple[str, ...]:
    """A whole value, line by line."""
    return tuple(printable(_cell(named[1]), multiline=True).replace("\t", " ").split("\n"))


_VERTICAL = (text("", itemgetter(0)), text("", _lines, folds=True))


def _plain(value: Any) -> float | str:
    """Convert values that JSON has no type for: decimals to numbers, all else to text."""
    return float(value) if isinstance(value, Decimal) else str(value)


def _write_csv(names: Sequence[str], rows: Sequence[tuple[Any, ...]], file: IO[str]) -> None:
    writer = csv.writer(file)
    # A file gets the exact texts, which steer no spreadsheet; a terminal must not be steered by them.
    shown = csv_text if file.isatty() else no_formula
    writer.writerow(map(shown, names))
    numbers = int | float | Decimal | None
    writer.writerows([value if isinstance(value, numbers) else shown(str(value)) for value in row] for row in rows)


def query_table() -> Table:
    """List the views and the named queries with their parameters and the first sentence of their descriptions."""
    added = (file.path for file in VIEWS.added if VIEWS.file(file.name) == file)
    descriptions = {view.name: view.description for view in public_views()}
    descriptions |= {path.stem: describe_sql(path) for path in added}
    first = [name for name in _FIRST if name in descriptions]
    views = [("view", (name,), descriptions[name]) for name in dict.fromkeys([*first, *descriptions])]
    queries = [
        ("query", (query.name, *(f"  {name}" for name in query.signature.split(", ") if name)), query.description)
        for query in QUERIES.values()
    ]
    columns = [
        text("kind", lambda row: row[0]),
        text("name and parameters", lambda row: row[1]),
        text("what it tells", lambda row: row[2].partition(". ")[0].removesuffix(".") + ".", folds=True),
    ]
    return table_of([*views, *queries], columns)
