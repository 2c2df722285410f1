"""The public SQL views: one of each table, those of `sql/views`, and those of plugin folders.

The view of a table shows its rows as they are. A file of `sql/views` that has a table's name takes its place.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb
import yaml

from shaberi_dagster.lake import schemas
from shaberi_dagster.lake.schemas import TABLES, LakeTable
from shaberi_dagster.lake.statements import describe_sql, quoted
from shaberi_dagster.plugins.discovery import PluginError, PluginFile, PluginRegistry
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.folders import project_folder

_PLACE_OF_TABLES = "10_"


@dataclass(frozen=True)
class View:
    """A public view, or a macro that is a table.

    Attributes:
        name: Its name.
        sql: The statement that creates it.
        description: Its comment.
    """

    name: str
    sql: str
    description: str

    @property
    def kind(self) -> str:
        """Its kind in SQL: `view`, `macro`, or `macro table`."""
        is_macro, is_table = (words in self.sql.lower() for words in (" macro ", " as table"))
        return ("macro table" if is_table else "macro") if is_macro else "view"


def public_views() -> Sequence[View]:
    """List the project's views in the order in which they can be created: that of the numbers of files."""
    files = view_files()
    views = {
        path.stem: View(name, path.read_text(encoding="utf-8"), describe_sql(path)) for name, path in files.items()
    }
    views |= {f"{_PLACE_OF_TABLES}{name}": _view_of(table) for name, table in TABLES.items() if name not in files}
    return [view for _, view in sorted(views.items())]


def view_files() -> dict[str, Path]:
    """Map the names of views to the files of `sql/views`: `60_leaderboard.sql` defines `leaderboard`."""
    paths = sorted((project_folder("sql") / "views").glob("*.sql"))
    return {path.stem.partition("_")[2]: path for path in paths}


def columns_file() -> Path:
    """Return the file with the meanings of columns that no table has."""
    return project_folder("sql") / "views" / "columns.yaml"


def column_meaning(view: str, column: str) -> str:
    """Say what a column of a view means: as its table says it, else the file of meanings, else every table alike."""
    meanings = _meanings()
    return meanings.get(f"{view}.{column}") or meanings.get(column, "")


@cache
def _meanings() -> Mapping[str, str]:
    """Map names of columns, some as VIEW.NAME, to what they mean."""
    of_tables = {
        f"{name}.{column.name}": column.description for name, table in TABLES.items() for column in table.columns
    }
    by_name: dict[str, set[str]] = {}
    for name, description in of_tables.items():
        by_name.setdefault(name.partition(".")[2], set()).add(description)
    alike = {name: descriptions.pop() for name, descriptions in by_name.items() if len(descriptions) == 1}
    return alike | read_meanings(columns_file()) | of_tables


def read_meanings(path: Path) -> dict[str, str]:
    """Read a file of meanings."""
    meanings: dict[str, str] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return meanings


def _view_of(table: LakeTable) -> View:
    return View(table.name, f"create view {table.name} as from lake.{table.name};", f"{table.meaning}.")


def _read_view(file: PluginFile) -> str:
    if file.is_own:
        return ""  # the catalog has it
    sql = file.path.read_text(encoding="utf-8")
    try:
        n_statements = len(duckdb.extract_statements(sql))
    except duckdb.Error as error:
        raise PluginError(file.path, None, str(error)) from error
    begins = rf"^create\s+(?:or\s+replace\s+)?(view|macro)\s+{file.name}\b"
    temporary, found = re.subn(begins, rf"create temp \1 {file.name}", sql, count=1, flags=re.IGNORECASE | re.MULTILINE)
    if n_statements != 1 or not found:
        raise PluginError(file.path, None, f"must be one statement: create view {file.name} as …")
    return temporary


VIEWS = PluginRegistry(
    "view", "sql/views", ".sql", {**dict.fromkeys(TABLES, Path(schemas.__file__)), **view_files()}, read=_read_view
)
"""All public views by name; of those of plugin folders the statement, for a reader's own connection."""


def define_added_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Add the views of plugin folders; asking one that is broken says why."""
    for file in VIEWS.added:
        if file != VIEWS.file(file.name):
            continue
        try:
            connection.execute(VIEWS.use(file.name))
        except (ConfigurationError, duckdb.Error) as error:
            why = str(error) if isinstance(error, ConfigurationError) else f"plugin {file.path}: {error}"
            connection.execute(f'create temp view "{file.name}" as select error({quoted(why)}) as problem')
