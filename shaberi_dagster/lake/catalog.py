"""`catalog.duckdb`: the public SQL views over the active files of the Delta tables.

The file holds views only. It is written beside its place and swapped in atomically, so any DuckDB client can open
it at any moment. Readers compare the versions it was made from with the tables' logs and write it anew when it is old.
A client that opens it finds the tables beside it, wherever that is.
"""

import errno
import os
import re
import tempfile
import uuid
from collections.abc import Iterable
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from shaberi_dagster.errors import ConfigurationError, SqlError
from shaberi_dagster.lake.connections import connected
from shaberi_dagster.lake.mirror import Mirror
from shaberi_dagster.lake.upgrades import check_format
from shaberi_dagster.plugins import Kind, PluginError, PluginFile
from shaberi_dagster.settings import project_folder

if TYPE_CHECKING:
    from shaberi_dagster.lake.store import Lake

CATALOG_NAME = "catalog.duckdb"
_LOG_NAME = re.compile(r"(\d{20})\.(?:json|checkpoint)")
# EXPLAIN ANALYZE runs what it explains, which may be a COPY; what comes after this must itself be a SELECT.
_EXPLAIN = re.compile(r"\s*explain\s+(?:analyze\s+)?", re.IGNORECASE)
# The parts of a SELECT that only read: `with x as (copy … to …) from x` is a SELECT for DuckDB, too.
_READING_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
# Functions that run SQL which stands in a text.
_RUNNING_TEXT = {"query", "json_execute_serialized_sql"}
_PARSED = '{"error":false,'
_NODES, _FUNCTIONS = re.compile(r'"type":"(\w+_NODE)"'), re.compile(r'"function_name":"(\w+)"')
# The folder is somebody else's, or the disk is only to be read.
_CANNOT_WRITE = {errno.EACCES, errno.EPERM, errno.EROFS}
# A client that opens the catalog spills beside it, unless told otherwise: DuckDB tells a view nothing else about where
# its own file lies. Who attaches the catalog to another database needs the place that it was made for.
_FOLDER = rf"""
create macro lake.folder() as case
    when regexp_matches(current_setting('temp_directory'), '(^|/){re.escape(CATALOG_NAME)}\.tmp$')
    then left(current_setting('temp_directory'), -{len(CATALOG_NAME) + len(".tmp")})
    else {{}}
end
"""
_PARAMETER_DEFAULT = re.compile(r"\$(\w+) = (.*)")


def open_catalog(folder: Path) -> duckdb.DuckDBPyConnection:
    """A locked-down read-only connection to the public views, and to the views of plugin folders.

    It reads the warehouse's files and nothing else; settings cannot be changed any more. Use `run_query` for
    statements that come from users.

    Args:
        folder: The warehouse.

    Raises:
        ConfigurationError: There is no lake in that folder, or a newer program wrote it.
        ShaberiError: The store that the folder mirrors cannot be reached.
    """
    if mirror := Mirror.of(folder):
        mirror.refresh()
    check_format(folder)
    if not logged_versions(folder):
        raise ConfigurationError(f"no lake in {folder}: run run-evals first, or set SHABERI_WAREHOUSE")
    connection = _connect_current(folder) or _renewed(folder)
    _define_added_views(connection)
    connection.execute("set TimeZone = 'UTC'")
    # Where large results are spilled to is readable as well; by default that is in the working directory.
    connection.execute(f"set temp_directory = {_sql_string(str(_spill_folder(folder)))}")
    connection.execute(f"set allowed_directories = [{_sql_string(str(folder) + os.sep)}]")
    connection.execute("set parquet_metadata_cache = true")  # files never change, and questions are often asked again
    connection.execute("set enable_progress_bar = false")  # nobody asked for lines of it in a log
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")
    return connection


def _spill_folder(folder: Path) -> Path:
    """Where large results go, made by DuckDB when it is needed: in the warehouse, if that can be written."""
    # Not as who started the process, but as who it is now, where the system knows the difference.
    writable = os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
    return folder / "_spill" if writable else Path(tempfile.gettempdir()) / f"shaberi-{uuid.uuid4()}"


def _renewed(folder: Path) -> duckdb.DuckDBPyConnection:
    """The public views as they are now: from the catalog made anew, or in memory where that cannot be written."""
    from shaberi_dagster.lake.store import Lake  # noqa: PLC0415  (delta-rs and polars cost start-up time)

    lake = Lake(folder)
    try:
        write_catalog(lake)
    except OSError as error:
        if error.errno not in _CANNOT_WRITE:
            raise
        return connect(lake)
    connection = _connect(folder)
    assert connection is not None  # noqa: S101  (just written)
    return connection


def open_as_of(folder: Path, time: datetime) -> duckdb.DuckDBPyConnection:
    """The public views over what had been committed at a time; for statements of our own.

    Args:
        folder: The warehouse.
        time: With its offset.

    Raises:
        ConfigurationError: There is no lake in that folder, a newer program wrote it, or files of that time are gone.
    """
    check_format(folder)
    from shaberi_dagster.lake.store import Lake  # noqa: PLC0415  (delta-rs and polars cost start-up time)

    if not logged_versions(folder):
        raise ConfigurationError(f"no lake in {folder}: run run-evals first, or set SHABERI_WAREHOUSE")
    lake = Lake(folder, time)
    gone = [
        table for table in lake.versions() if not all(Path(file).is_file() for file in lake.delta(table).file_uris())
    ]
    if gone:
        raise ConfigurationError(
            f"what the lake had at {time.isoformat()} is not kept any more: compaction deletes old files after a week"
        )
    connection = connect(lake)
    _define_added_views(connection)
    return connection


def run_query(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, object] | None = None
) -> duckdb.DuckDBPyConnection:
    """Run one statement that only reads.

    Args:
        connection: From `open_catalog`.
        sql: One SELECT (or FROM, WITH, VALUES, DESCRIBE, EXPLAIN …).
        parameters: Values of `$name` parameters.

    Returns:
        The connection with the result to fetch.

    Raises:
        ConfigurationError: The SQL is not valid, is several statements, could change something, or has other
            parameters.
    """
    try:
        statements = connection.extract_statements(sql)
        if len(statements) != 1 or not _only_reads(connection, statements[0]):
            raise ConfigurationError("only one statement that reads (SELECT, DESCRIBE, EXPLAIN) is allowed")
        (statement,) = statements
        given = parameters or {}
        if given.keys() != statement.named_parameters:
            missing = ", ".join(sorted(statement.named_parameters - given.keys())) or "none"
            unknown = ", ".join(sorted(given.keys() - statement.named_parameters)) or "none"
            raise ConfigurationError(f"SQL parameters: missing {missing}; unknown {unknown}")
        return connection.execute(statement, given)
    except duckdb.InterruptException:
        raise
    except (duckdb.Error, ValueError) as error:  # ValueError: a statement that DuckDB has no type for in Python
        raise SqlError(error) from error


def refresh_catalog(lake: "Lake") -> None:
    """Write `catalog.duckdb` unless it stands for the current versions, or the lake can only be read."""
    if connection := _connect_current(lake.folder):
        connection.close()
        return
    try:
        write_catalog(lake)
    except OSError as error:
        if error.errno not in _CANNOT_WRITE:
            raise


def write_catalog(lake: "Lake") -> Path:
    """Write `catalog.duckdb` for the current versions of all tables and swap it in; no table is touched.

    Returns:
        Its path.
    """
    versions = logged_versions(lake.folder)
    with tempfile.TemporaryDirectory(prefix=".catalog-", dir=lake.folder) as scratch:
        fresh = Path(scratch) / CATALOG_NAME
        # Clients from 1.4 on can open it.
        with connected(str(fresh), {"storage_compatibility_version": "v1.4.0"}) as connection:
            # The tables are beside the place where it will be.
            connection.execute(f"set temp_directory = {_sql_string(f'{lake.folder / CATALOG_NAME}.tmp')}")
            connection.begin()  # else each of the hundreds of statements is synced to the disk
            versions |= define_views(connection, lake)
            _describe_views(connection)
            connection.execute(
                "create table lake.catalog as select $1 as description", [_description(lake.folder, versions)]
            )
            connection.commit()
        return fresh.replace(lake.folder / CATALOG_NAME)


def connect(lake: "Lake", *tables: str) -> duckdb.DuckDBPyConnection:
    """An in-memory connection over the current versions, for the stages' own SQL.

    Args:
        lake: What to read.
        tables: Only these tables of schema `lake`, which is quick; none named means all of them and the public views.
    """
    connection = connected()
    connection.execute("set TimeZone = 'UTC'")
    if tables:
        define_tables(connection, lake, tables)
    else:
        define_views(connection, lake)
    return connection


def define_tables(connection: duckdb.DuckDBPyConnection, lake: "Lake", tables: Iterable[str]) -> dict[str, int]:
    """Create schema `lake` with one view per table; that of a table that is missing is empty.

    The files are in `lake.folder()`.

    Returns:
        The version of each table that its view stands for.
    """
    from shaberi_dagster.lake.schemas import TABLES  # noqa: PLC0415  (needs polars)

    connection.execute("create schema lake")
    connection.execute(_FOLDER.format(_sql_string(f"{lake.folder.absolute()}/")))
    versions = {}
    for name in tables:
        table, files = TABLES[name], list[str]()
        if lake.exists(name):
            delta = lake.delta(name)
            files, versions[name] = lake.files(name), delta.version()
        columns = ", ".join(column.name for column in table.columns)
        paths = f"list_transform([{', '.join(map(_sql_string, files))}], lambda file: lake.folder() || file)"
        source = f"read_parquet({paths}, hive_partitioning=true, hive_types_autocast=false"
        lacking = bool(files) and lake.lacks_columns(name)
        if lacking or not files:
            # A view has all its columns with their types, whatever the files have.
            connection.register("empty_frame", table.schema.to_frame())
            connection.execute(f"create table lake._{name} as from empty_frame")
        if not files:
            source = f"lake._{name}"
        elif lacking:
            # By name costs a look into every file, 0.1 ms each, so not unless it must be.
            source = f"(from lake._{name} union all by name from {source}, union_by_name=true))"
        else:
            source += ")"
        connection.execute(f"create view lake.{name} as select {columns} from {source}")
    return versions


def define_views(connection: duckdb.DuckDBPyConnection, lake: "Lake") -> dict[str, int]:
    """Create schema `lake` and the public views of `sql/views` in `main`.

    Returns:
        The version of each table that the views stand for.
    """
    from shaberi_dagster.lake.schemas import TABLES  # noqa: PLC0415  (needs polars)

    versions = define_tables(connection, lake, TABLES)
    for path in view_files():
        connection.execute(path.read_text(encoding="utf-8"))
    return versions


def _describe_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Give the public views and their columns the comments that a reader of the file sees."""
    from shaberi_dagster.lake.schemas import TABLES  # noqa: PLC0415  (needs polars)

    documented = {(name, column.name): column.description for name, table in TABLES.items() for column in table.columns}
    columns = connection.execute(
        "select table_name, column_name from duckdb_columns() where schema_name = 'main' and not internal"
    ).fetchall()
    comments = {f"{_kind(path)} {view_name(path)}": describe_sql(path) for path in view_files()}
    comments |= {f"column {view}.{column}": documented.get((view, column), "") for view, column in columns}
    # All at once: one by one they take twice as long.
    connection.execute("".join(f"comment on {one} is {_sql_string(text)};" for one, text in comments.items() if text))


def view_files() -> list[Path]:
    """The files of `sql/views`, in the order in which they can be created."""
    return sorted((project_folder("sql") / "views").glob("*.sql"))


def view_name(path: Path) -> str:
    """`30_leaderboard.sql` defines `leaderboard`."""
    return path.stem.split("_", 1)[1]


def _read_view(file: PluginFile) -> str:
    sql = file.path.read_text(encoding="utf-8")
    if file.is_own:
        return sql
    try:
        n_statements = len(duckdb.extract_statements(sql))
    except duckdb.Error as error:
        raise PluginError(file.path, None, str(error)) from error
    begins = rf"^create\s+(?:or\s+replace\s+)?(view|macro)\s+{file.name}\b"
    temporary, found = re.subn(begins, rf"create temp \1 {file.name}", sql, count=1, flags=re.IGNORECASE | re.MULTILINE)
    if n_statements != 1 or not found:
        raise PluginError(file.path, None, f"must be one statement: create view {file.name} as …")
    return temporary


VIEWS = Kind("view", "sql/views", ".sql", {view_name(path): path for path in view_files()}, read=_read_view)
"""The statement of each public view: those of plugin folders are of a reader's own connection, not of the catalog."""


def _define_added_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Add the views of plugin folders; asking one that is broken says why."""
    for file in VIEWS.added:
        if file != VIEWS.file(file.name):
            continue
        try:
            connection.execute(VIEWS.use(file.name))
        except (ConfigurationError, duckdb.Error) as error:
            why = str(error) if isinstance(error, ConfigurationError) else f"plugin {file.path}: {error}"
            connection.execute(f'create temp view "{file.name}" as select error({_sql_string(why)}) as problem')


def describe_sql(path: Path) -> str:
    """The comment lines at the top of an SQL file, as one line, without those that are `default_parameters`."""
    return " ".join(line for line in _header(path) if not _PARAMETER_DEFAULT.fullmatch(line))


def default_parameters(path: Path) -> dict[str, str | None]:
    """The values that the comment at the top of an SQL file gives to parameters: `-- $name = value`, or `= null`."""
    defaults = [match.groups() for line in _header(path) if (match := _PARAMETER_DEFAULT.fullmatch(line))]
    return {name: None if value == "null" else value for name, value in defaults}


def _header(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.removeprefix("--").strip() for line in takewhile(lambda line: line.startswith("--"), lines)]


def logged_versions(folder: Path) -> dict[str, int]:
    """The last version in each table's transaction log, read from file names alone (a few ms)."""
    versions = {}
    for log in sorted(folder.glob("*/_delta_log")):
        numbers = [int(match[1]) for path in log.iterdir() if (match := _LOG_NAME.match(path.name))]
        if numbers:
            versions[log.parent.name] = max(numbers)
    return versions


def _only_reads(connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> bool:
    query = statement.query
    if statement.type == duckdb.StatementType.EXPLAIN:
        query = _EXPLAIN.sub("", query, count=1)
    if [one.type for one in connection.extract_statements(query)] != [duckdb.StatementType.SELECT]:
        return False
    # Not on the connection itself, whose last result may still be in use.
    row = connection.cursor().execute("select json_serialize_sql($1)", [query]).fetchone()
    tree = row[0] if row else ""
    if not tree.startswith(_PARSED):
        return False
    # Texts in the query cannot look like this: their quotation marks are escaped.
    return set(_NODES.findall(tree)) <= _READING_NODES and _RUNNING_TEXT.isdisjoint(_FUNCTIONS.findall(tree))


def _kind(path: Path) -> str:
    return "macro table" if " macro " in path.read_text(encoding="utf-8").lower() else "view"


def _connect_current(folder: Path) -> duckdb.DuckDBPyConnection | None:
    """The catalog that stands for the current versions of all tables; None when there is none."""
    connection = _connect(folder)
    if connection is not None and _described(connection) != _description(folder, logged_versions(folder)):
        connection.close()
        return None
    return connection


def _connect(folder: Path) -> duckdb.DuckDBPyConnection | None:
    path = folder / CATALOG_NAME
    if not path.is_file():
        return None
    # Attached to an instance of its own: DuckDB hands out an open file's instance again, with the old content and
    # with its settings locked, even when another file stands in its place.
    connection = connected()
    try:
        connection.execute(f"attach {_sql_string(str(path))} as catalog (read_only)")
    except duckdb.IOException:
        return None  # broken, or open for writing elsewhere: it can be made anew
    connection.execute("use catalog")
    return connection


def _described(connection: duckdb.DuckDBPyConnection) -> str | None:
    try:
        row = connection.execute("select description from lake.catalog").fetchone()
    except duckdb.CatalogException:
        return None
    return row[0] if row else None


def _description(folder: Path, versions: dict[str, int]) -> str:
    """Where the files lie, and which versions of tables and view definitions the catalog stands for."""
    definitions = [(path.name, path.stat().st_mtime_ns) for path in view_files()]
    return repr((str(folder), sorted(versions.items()), definitions))


def _sql_string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
