"""`shaberi sql`: run a statement or a named query and show its result."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field
from rich.console import Console

from shaberi_dagster.cli.output import opened, tell
from shaberi_dagster.lake.catalog import open_catalog, run_query
from shaberi_dagster.lake.connections import arrow_of, errors_of_sql, within
from shaberi_dagster.lake.queries import explained, find_query, parameters_of
from shaberi_dagster.reports.sql_rows import QueryRows, query_table, write_parquet, write_plan, write_rows
from shaberi_dagster.reports.terminal import draw
from shaberi_dagster.reports.write import check_format
from shaberi_dagster.runs.option import option
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.streams import ending_with_reader

EPILOG = """Examples:
  shaberi sql "select benchmark, count(*) from judgements group by 1"
  shaberi sql "from leaderboard where benchmark = 'tengu'" --format csv
  shaberi sql                      lists the views and the named queries with their parameters
  shaberi sql "from answers limit 1" --vertical      whole texts, line by line
  shaberi sql judge_agreement --explain"""

FORMATS = ("table", "csv", "json", "parquet")
_MOST_ROWS = 100
"""So many rows a terminal gets, unless more are asked for."""


def sql(
    query: Annotated[
        str | None,
        option("what", "A SELECT statement, or the name of a file in sql/queries or of a view", known="queries"),
    ] = None,
    /,
    *,
    param: Annotated[list[str] | None, option("what", "Value of $NAME in the query", metavar="NAME=VALUE")] = None,
    output_format: Annotated[str, option("how", "table, csv, json or parquet", name="--format")] = "table",
    output: Annotated[Path | None, option("how", "Write here instead of stdout (needed for parquet)")] = None,
    explain: Annotated[bool, option("how", "Show DuckDB's plan with times instead")] = False,
    vertical: Annotated[bool, option("how", "Each row as lines of its own, with whole texts")] = False,
    rows: Annotated[
        int | None, Field(ge=1), option("how", "So many rows at most; default: all, and 100 in a table on a terminal")
    ] = None,
    timeout: Annotated[
        float | None, Field(ge=0), option("how", "Stop the statement after so many seconds. Default: never")
    ] = None,
) -> None:
    """Query the lake. Read only."""
    settings = Settings.from_environment()
    if query is None:
        list_queries()
    else:
        run_sql(
            settings,
            query,
            param or [],
            output_format,
            output,
            explain=explain,
            vertical=vertical,
            most_rows=rows,
            timeout=timeout,
        )


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
    check_format(output_format, FORMATS)
    parquet = output if output_format == "parquet" and not explain else None
    if output_format == "parquet" and parquet is None:
        raise ConfigurationError("--format parquet needs --output FILE, and cannot show a plan")
    given = parameters_of(parameters)
    named = find_query(query)
    statement, values = (query, given) if named is None else (named.sql, named.bound(given))
    with open_catalog(settings.warehouse) as connection, within(timeout, connection):
        if named is not None:
            named.check_known(connection, given)
        result = run_query(connection, explained(statement) if explain else statement, dict(values))
        with errors_of_sql():
            if parquet is not None:
                typed = arrow_of(result)
                with opened(parquet, "wb") as file:
                    write_parquet(typed, file)
                return
            on_terminal = output_format == "table" and output is None and sys.stdout.isatty() and not explain
            found = QueryRows.of(result, _MOST_ROWS if most_rows is None and on_terminal else most_rows)
    with ending_with_reader() if output is None else opened(output, "w") as file:
        if explain:
            write_plan(found, file)
        else:
            write_rows(found, output_format, file, vertical=vertical)
    if found.n_left_out and output_format != "table":
        tell(found.left_out)


def list_queries() -> None:
    """Print the views and the named queries with their parameters and the first sentence of their descriptions."""
    draw([query_table()], Console())
