"""`catalog.duckdb`: the public SQL views over the active files of the Delta tables.

The file holds views only. It is written beside its place and swapped in atomically, so any DuckDB client can open
it at any moment. Readers compare the versions it was made from with the tables' logs and write it again when it is old:
as a copy of the one that is there in which only the views of changed tables are others, a tenth of the work.
A client that opens it finds the tables beside it, wherever that is.
"""

import errno
import json
import os
import re
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from shaberi_dagster.lake.connections import connected
from shaberi_dagster.lake.damage import CATALOG_NAME, DamagedLakeError, damage_behind, log_damage
from shaberi_dagster.lake.formats import check_format
from shaberi_dagster.lake.log import LOG, Log
from shaberi_dagster.lake.mirror import Mirror
from shaberi_dagster.lake.schemas import TABLES, LakeTable
from shaberi_dagster.lake.statements import quoted
from shaberi_dagster.lake.views import column_meaning, columns_file, define_added_views, public_views, view_files
from shaberi_dagster.util.errors import ConfigurationError, SqlError

if TYPE_CHECKING:
    from shaberi_dagster.lake import store


# EXPLAIN ANALYZE runs what it explains, which may be a COPY; what comes after this must itself be a SELECT.
_EXPLAIN = re.compile(r"\s*explain\s+(?:analyze\s+)?", re.IGNORECASE)
# The parts of a SELECT that only read: `with x as (copy … to …) from x` is a SELECT for DuckDB, too.
_READING_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
# Functions that run SQL which stands in a text.
_RUNNING_TEXT = {"query", "json_execute_serialized_sql"}
_PARSED = '{"error":false,'
_NODES, _FUNCTIONS = re.compile(r'"type":"(\w+_NODE)"'), re.compile(r'"function_name":"(\w+)"')
# The folder is not there or somebody else's, or the disk is only to be read.
_CANNOT_WRITE = {errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS}
# A client that opens the catalog spills beside it, unless told otherwise: DuckDB tells a view nothing else about where
# its own file lies. Who attaches the catalog to another database needs the place that it was made for.
_FOLDER = rf"""
create or replace macro lake.folder() as case
    when regexp_matches(current_setting('temp_directory'), '(^|/){re.escape(CATALOG_NAME)}\.tmp$')
    then left(current_setting('temp_directory'), -{len(CATALOG_NAME) + len(".tmp")})
    else {{}}
end
"""


def open_catalog(folder: Path, former: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyConnection:
    """A locked-down read-only connection to the public views, and to the views of plugin folders.

    It reads the warehouse's files and nothing else; settings cannot be changed any more. Use `run_query` for
    statements that come from users.

    Args:
        folder: The warehouse.
        former: One that was opened before, which is closed, or returned if nothing has changed since: it knows the
            files already.

    Raises:
        ConfigurationError: There is no lake in that folder, or a newer program wrote it.
        ShaberiError: The store that the folder mirrors cannot be reached.
    """
    if mirror := Mirror.of(folder):
        mirror.refresh()
    check_format(folder)
    check_there(folder)
    if former is not None:
        if _is_current(former, folder):
            return former
        former.close()
    connection = connected()
    if not _attach_current(connection, folder):
        from shaberi_dagster.lake import store  # polars and Arrow cost start-up time

        _attach_renewed(connection, store.Lake(folder))
    connection.execute("set TimeZone = 'UTC'")
    define_added_views(connection)
    # Where large results are spilled to is readable as well; by default that is in the working directory.
    connection.execute(f"set temp_directory = {quoted(str(_spill_folder(folder)))}")
    connection.execute(f"set allowed_directories = [{quoted(str(folder) + os.sep)}]")
    connection.execute("set parquet_metadata_cache = true")  # files never change, and questions are often asked again
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")
    return connection


def _spill_folder(folder: Path) -> Path:
    """Return the folder that large results spill to, which DuckDB makes: in the warehouse, if that can be written."""
    # Not as who started the process, but as who it is now, where the system knows the difference.
    writable = os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
    return folder / "_spill" if writable else Path(tempfile.gettempdir()) / f"shaberi-{uuid.uuid4()}"


def _attach_renewed(connection: duckdb.DuckDBPyConnection, lake: "store.Lake") -> None:
    """Have the public views as they are now: from the catalog made again, or in memory where that cannot be written.

    Where a file is damaged they are in memory, too, and only those that need it say so.
    """
    try:
        write_catalog(lake)
    except OSError as error:
        if error.errno not in _CANNOT_WRITE:
            raise
    except DamagedLakeError:
        pass
    except duckdb.Error:  # it cannot be written either: DuckDB finds no place for its log below a folder with a `?`
        pass
    else:
        _attach(connection, lake.folder)
        return
    define_views(connection, lake, in_spite_of_damage=True)


def open_as_of(folder: Path, time: datetime) -> duckdb.DuckDBPyConnection:
    """The public views over what had been committed at a time; for statements of our own.

    Args:
        folder: The warehouse.
        time: With its offset.

    Raises:
        ConfigurationError: There is no lake in that folder, a newer program wrote it, or files of that time are gone.
    """
    from shaberi_dagster.lake import store

    check_format(folder)
    check_there(folder)
    lake = store.Lake(folder, time)
    gone = [
        table for table in lake.versions() if not all(Path(file).is_file() for file in lake.delta(table).file_uris())
    ]
    if gone:
        raise ConfigurationError(f"{time.isoformat()} is not kept any more: compaction deletes old files after a week")
    connection = connected()
    define_views(connection, lake)
    connection.execute("set TimeZone = 'UTC'")
    define_added_views(connection)
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


def refresh_catalog(lake: "store.Lake") -> None:
    """Write `catalog.duckdb` unless it stands for the current versions, or the lake can only be read."""
    with connected() as connection:
        if _attach_current(connection, lake.folder):
            return
    try:
        write_catalog(lake)
    except OSError as error:
        if error.errno not in _CANNOT_WRITE:
            raise


def write_catalog(lake: "store.Lake") -> Path:
    """Write `catalog.duckdb` for the current versions of all tables and swap it in; no table is touched.

    Returns:
        Its path.
    """
    current = lake.folder / CATALOG_NAME
    with tempfile.TemporaryDirectory(prefix=".catalog-", dir=lake.folder) as scratch:
        fresh = Path(scratch) / "from-current" / CATALOG_NAME
        try:
            _bring_up_to_date(fresh, current.read_bytes(), lake)
        except (FileNotFoundError, _OtherViewsError, duckdb.Error):  # missing, older or broken
            fresh = Path(scratch) / "from-blank" / CATALOG_NAME
            _bring_up_to_date(fresh, _blank_catalog(_definitions()), lake)
        return fresh.replace(current)


class _OtherViewsError(Exception):
    """A catalog has not today's views."""


def _bring_up_to_date(file: Path, former: bytes, lake: "store.Lake") -> None:
    """Write a catalog for the current versions of all tables, by what is different in one for other versions.

    Raises:
        _OtherViewsError: It has other public views than today's.
    """
    file.parent.mkdir()
    file.write_bytes(former)
    with _writing(file) as connection:
        described = _described(connection)
        if described is None or described["definitions"] != _definitions():
            raise _OtherViewsError
        logged, before = logged_versions(lake.folder), described["versions"]
        if lost := [damage for name in before if (damage := log_damage(lake.folder / name, before[name]))]:
            raise DamagedLakeError(lost)
        now = lake.versions()
        changed = [table for table in TABLES if before.get(table) != now.get(table)]
        versions = logged | now | define_tables(connection, lake, changed)
        _describe(connection, _description(lake.folder, versions))


@cache
def _blank_catalog(definitions: str) -> bytes:
    """The file of a catalog of tables without rows, with the views and comments that all catalogs have.

    Making it takes half a second.

    Args:
        definitions: What it is made from, as it is now.
    """
    from shaberi_dagster.lake import store

    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / CATALOG_NAME
        with _writing(file) as connection:
            define_views(connection, store.Lake(Path(scratch)))
            _describe_views(connection)
            _describe(connection, {"folder": None, "versions": {}, "definitions": definitions})
        return file.read_bytes()


@contextmanager
def _writing(file: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that writes a catalog at once: else each of hundreds of statements is synced to the disk."""
    with connected() as connection:
        connection.execute("attach $1 as catalog (storage_version 'v1.4.0')", [str(file)])
        connection.execute("use catalog")
        connection.begin()
        yield connection
        connection.commit()
        connection.execute("checkpoint")


@contextmanager
def connect(lake: "store.Lake", *tables: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection over the current versions, for SQL of our own.

    Args:
        lake: What to read, as it is now.
        tables: Only these tables of schema `lake`; none named means all of them and the public views, by the catalog.
    """
    with connected() as connection:
        if tables:
            define_tables(connection, lake, tables)
        elif not _attach_current(connection, lake.folder):
            _attach_renewed(connection, lake)
        connection.execute("set TimeZone = 'UTC'")
        yield connection


def define_tables(
    connection: duckdb.DuckDBPyConnection,
    lake: "store.Lake",
    tables: Iterable[str],
    *,
    in_spite_of_damage: bool = False,
) -> dict[str, int]:
    """Have one view per table in schema `lake`; that of a table that is missing is empty.

    The files are in `lake.folder()`.

    Args:
        connection: Where.
        lake: Whose tables.
        tables: Which of them.
        in_spite_of_damage: Let the view of a damaged table be one that says so when it is asked.

    Returns:
        The version of each table that its view stands for.

    Raises:
        DamagedLakeError: A table is damaged.
    """
    connection.execute("create schema if not exists lake")
    connection.execute(_FOLDER.format(quoted(f"{lake.folder.absolute()}/")))
    versions = {}
    for name in tables:
        try:
            version = _define_table(connection, lake, TABLES[name])
        except (duckdb.Error, DamagedLakeError) as error:
            damage = damage_behind(error, lake.folder)
            if damage is None:
                raise
            if not in_spite_of_damage:
                raise damage from None
            _make_empty(connection, TABLES[name])
            connection.execute(
                f"create or replace view lake.{name} as select {', '.join(TABLES[name].names)} "
                f"from (select error({quoted(str(damage))}) is null as is_read) left join lake._{name} on true "
                "where is_read"
            )
        else:
            if version is not None:
                versions[name] = version
    return versions


def _define_table(connection: duckdb.DuckDBPyConnection, lake: "store.Lake", table: LakeTable) -> int | None:
    """Have the view of one table; its version, if it is there."""
    name, files, version = table.name, list[str](), None
    if lake.exists(name):
        delta = lake.delta(name)
        files, version = lake.files(name), delta.version()
    columns = ", ".join(table.names)
    paths = f"list_transform([{', '.join(map(quoted, files))}], lambda file: lake.folder() || file)"
    source = f"read_parquet({paths}, hive_partitioning=true, hive_types_autocast=false"
    lacking = bool(files) and lake.lacks_columns(name)
    if lacking or not files:
        _make_empty(connection, table)
    if not files:
        source = f"lake._{name}"
    elif lacking:
        # By name costs a look into every file, 0.1 ms each, so not unless it must be.
        source = f"(from lake._{name} union all by name from {source}, union_by_name=true))"
    else:
        source += ")"
    connection.execute(f"create or replace view lake.{name} as select {columns} from {source}")
    return version


def _make_empty(connection: duckdb.DuckDBPyConnection, table: LakeTable) -> None:
    """Make a table without rows, from which a view has all its columns with their types, whatever the files have."""
    columns = ", ".join(f'"{column.name}" {column.sql_type}' for column in table.columns)
    connection.execute(f"create table if not exists lake._{table.name} ({columns})")


def define_views(
    connection: duckdb.DuckDBPyConnection, lake: "store.Lake", *, in_spite_of_damage: bool = False
) -> dict[str, int]:
    """Create schema `lake` and the public views of `sql/views` in `main`.

    Args:
        connection: Where.
        lake: Whose tables.
        in_spite_of_damage: As for `define_tables`.

    Returns:
        The version of each table that the views stand for.
    """
    versions = define_tables(connection, lake, TABLES, in_spite_of_damage=in_spite_of_damage)
    for view in public_views():
        connection.execute(view.sql)
    return versions


def _describe_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Give the public views and their columns the comments that a reader of the file sees."""
    columns = connection.execute(
        "select table_name, column_name from duckdb_columns() "
        "where (database_name, schema_name) = (current_database(), 'main')"
    ).fetchall()
    comments = {f"{view.kind} {view.name}": view.description for view in public_views()}
    comments |= {f"column {view}.{column}": column_meaning(view, column) for view, column in columns}
    # All at once: one by one they take twice as long.
    connection.execute("".join(f"comment on {name} is {quoted(text)};" for name, text in comments.items() if text))


def check_there(folder: Path) -> None:
    """Refuse a folder without a lake.

    Raises:
        ConfigurationError: It does not exist.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"{folder} is no folder: SHABERI_WAREHOUSE names that of the lake")
    if not logged_versions(folder):
        raise ConfigurationError(f"no lake in {folder}: run run-evals first, or set SHABERI_WAREHOUSE")


def logged_versions(folder: Path) -> dict[str, int]:
    """The last version in each table's transaction log, read from file names alone (a few ms)."""
    logs = {log.parent.name: Log(log.parent) for log in sorted(folder.glob(f"*/{LOG}"))}
    return {table: log.newest for table, log in logs.items() if log.newest >= 0}


def _only_reads(connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> bool:
    query = statement.query
    if statement.type == duckdb.StatementType.EXPLAIN:
        query = _EXPLAIN.sub("", query, count=1)
    if [explained.type for explained in connection.extract_statements(query)] != [duckdb.StatementType.SELECT]:
        return False
    # Not on the connection itself, whose last result may still be in use.
    row = connection.cursor().execute("select json_serialize_sql($1)", [query]).fetchone()
    tree = row[0] if row else ""
    if not tree.startswith(_PARSED):
        return False
    # Texts in the query cannot look like this: their quotation marks are escaped.
    return set(_NODES.findall(tree)) <= _READING_NODES and _RUNNING_TEXT.isdisjoint(_FUNCTIONS.findall(tree))


def _attach_current(connection: duckdb.DuckDBPyConnection, folder: Path) -> bool:
    """Have the catalog, if there is one that stands for the current versions of all tables."""
    if not (folder / CATALOG_NAME).is_file():
        return False
    try:
        _attach(connection, folder)
    except duckdb.IOException:
        return False  # broken, or open for writing elsewhere: it can be made again
    if not _is_current(connection, folder):
        connection.execute("use memory; detach catalog")
        return False
    return True


def _is_current(connection: duckdb.DuckDBPyConnection, folder: Path) -> bool:
    return _described(connection) == _description(folder, logged_versions(folder))


def _attach(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    # To an instance in memory: DuckDB hands out an open file's instance again, with the old content and with its
    # settings locked, even when another file stands in its place.
    connection.execute(f"attach {quoted(str(folder / CATALOG_NAME))} as catalog (read_only)")
    connection.execute("use catalog")


def _describe(connection: duckdb.DuckDBPyConnection, description: dict[str, Any]) -> None:
    connection.execute("create or replace table lake.catalog as select $1 as description", [json.dumps(description)])


def _described(connection: duckdb.DuckDBPyConnection) -> dict[str, Any] | None:
    try:
        row = connection.execute("select description from lake.catalog").fetchone()
        return dict(json.loads(row[0])) if row else None
    except (duckdb.CatalogException, ValueError):  # another database, or the catalog of an earlier program
        return None


def _description(folder: Path, versions: dict[str, int]) -> dict[str, Any]:
    """Describe a catalog: where its files lie, and the versions of tables and of definitions that it stands for."""
    return {"folder": str(folder), "versions": versions, "definitions": _definitions()}


def _definitions() -> str:
    """Describe the files that define the views and their columns, as they are now."""
    modules = [Path(__file__).with_name(name) for name in ("catalog.py", "schemas.py", "views.py")]
    files = [*view_files().values(), columns_file(), *modules]
    states = ((path.name, path.stat()) for path in files)
    return repr([(name, state.st_mtime_ns, state.st_size) for name, state in states])
