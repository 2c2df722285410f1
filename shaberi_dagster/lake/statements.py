"""SQL that stands in files: statements by name, and the comment at the top that describes one.

A statement of `sql/reports/`, ours and of plugin folders, has all its choices as parameters. The comment of a view or a
named query tells what it shows, and declares parameters: `-- $name: kind`, `-- $name = value`, or
`-- $name: kind = value`.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import duckdb

from shaberi_dagster.lake.connections import errors_of_sql, read_frame
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.folders import plugin_folders, project_folder

if TYPE_CHECKING:
    import polars as pl

Catalog = duckdb.DuckDBPyConnection
"""A connection over the public views of a lake."""
T = TypeVar("T")
_LAST: WeakKeyDictionary[Catalog, dict[str, tuple[str, Any]]] = WeakKeyDictionary()
_NAMED_QUERY = re.compile(r"\{(\w+)\}")
_PARAMETER = re.compile(r"\$(\w+)(?=:| =)(?:: ([a-z ]+?))?(?: = (.*))?")


@cache
def statement(name: str) -> str:
    """Read a statement of `sql/reports`; `{name}` in it stands for the named query of `sql/queries`.

    Raises:
        ConfigurationError: There is no such file.
    """
    folders = [project_folder("sql"), *(folder / "sql" for folder in plugin_folders())]
    files = (folder / "reports" / f"{name}.sql" for folder in folders)
    file = next((file for file in files if file.exists()), None)
    if file is None:
        raise ConfigurationError(f"neither the project nor a plugin folder has sql/reports/{name}.sql")
    return _NAMED_QUERY.sub(lambda match: _named_query(match[1]), file.read_text(encoding="utf-8"))


def quoted(text: str) -> str:
    """Write a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _named_query(name: str) -> str:
    text = (project_folder("sql") / "queries" / f"{name}.sql").read_text(encoding="utf-8")
    return text.rstrip().removesuffix(";")


def fetch(catalog: Catalog, name: str, **values: object) -> list[dict[str, Any]]:
    """Read the rows of a statement of `sql/reports`, by column name.

    Args:
        catalog: The public views.
        name: The statement.
        values: Values of its parameters; the others are null.
    """
    return rows_of(run_statement(catalog, name, values))[1]


def once(catalog: Catalog, about: str, asked: object, read: Callable[[], T]) -> T:
    """Return what was last read of a catalog, for those that ask again and again; a lake that has changed has another.

    Args:
        catalog: The public views.
        about: What is read; of each the last is kept.
        asked: Its choices.
        read: Reads it.
    """
    kept = _LAST.setdefault(catalog, {})
    if kept.get(about, ("",))[0] != repr(asked):
        kept[about] = repr(asked), read()
    found: T = kept[about][1]
    return found


def fetch_frame(catalog: Catalog, name: str, **values: object) -> "pl.DataFrame":
    """Read the rows of a statement as a frame."""
    with errors_of_sql(f"sql/reports/{name}.sql"):
        parsed = parsed_statement(catalog, name)
        return read_frame(catalog, parsed, {**dict.fromkeys(parsed.named_parameters), **values})


def rows_of(result: Catalog) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the columns of a result, and its rows by them."""
    names = [column[0] for column in result.description or []]
    return names, [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def run_statement(catalog: Catalog, name: str, values: Mapping[str, object]) -> Catalog:
    """Run a statement of `sql/reports`; parameters without a value are null.

    It goes without `run_query`, which finds out of anybody's statement that it only reads: a quarter of the time.
    """
    with errors_of_sql(f"sql/reports/{name}.sql"):
        parsed = parsed_statement(catalog, name)
        return catalog.execute(parsed, {**dict.fromkeys(parsed.named_parameters), **values})


def parsed_statement(catalog: Catalog, name: str) -> duckdb.Statement:
    """Parse a statement of `sql/reports`, which knows its parameters then.

    It needs a connection: DuckDB's own function opens another database for it, in 25 ms.
    """
    with errors_of_sql(f"sql/reports/{name}.sql"):
        return catalog.extract_statements(statement(name))[0]


def describe_sql(path: Path) -> str:
    """Read the comment at the top of an SQL file, as one line, without the lines that declare parameters."""
    return " ".join(line for line in _header(path) if not _PARAMETER.fullmatch(line))


def default_parameters(path: Path) -> dict[str, str | None]:
    """Read the default values of parameters that the comment at the top declares; `null` is None."""
    return {name: None if value == "null" else value for name, _, value in _parameters(path) if value is not None}


def parameter_kinds(path: Path) -> dict[str, str]:
    """Read the kinds of names that parameters take, as the comment at the top declares them."""
    return {name: kind for name, kind, _ in _parameters(path) if kind is not None}


def _parameters(path: Path) -> list[tuple[Any, ...]]:
    return [match.groups() for line in _header(path) if (match := _PARAMETER.fullmatch(line))]


def _header(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.removeprefix("--").strip() for line in takewhile(lambda line: line.startswith("--"), lines)]
