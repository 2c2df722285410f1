"""`shaberi`: query the lake, look after it, open the UI."""

from pathlib import Path
from typing import Annotated

import typer

from shaberi_dagster.cli.command import FAILED_PARTS, FINE, Debug, run_command
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.settings import Settings

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=True,
    help="Query the evaluation lake in SQL, look after it, and open the Dagster UI.",
)  # fmt: skip

_SQL_EPILOG = """Examples:

\b
  shaberi sql "select benchmark, count(*) from judgements group by 1"
  shaberi sql "from leaderboard where benchmark = 'tengu'" --format csv
  shaberi sql "from leaderboard_under('zero')"
  shaberi sql                      lists the views and the named queries
  shaberi sql hardest_questions --param benchmark=elyza"""


@app.command(epilog=_SQL_EPILOG)
def sql(
    query: Annotated[
        str | None, typer.Argument(help="A SELECT statement, or the name of a file in sql/queries.")
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE for $NAME in the query; repeat for several.")
    ] = None,
    output_format: Annotated[str, typer.Option("--format", help="table, csv, json or parquet.")] = "table",
    output: Annotated[Path | None, typer.Option(help="Write here instead of stdout (needed for parquet).")] = None,
    debug: Debug = False,
) -> int:
    """Ask the lake; nothing can be changed from here."""
    del debug
    from shaberi_dagster.cli.query import list_queries, run_sql  # noqa: PLC0415  (DuckDB only when it is needed)

    settings = Settings.from_environment()
    if query is None:
        list_queries(settings)
    else:
        run_sql(settings, query, param or [], output_format, output)
    return FINE


@app.command()
def compact(debug: Debug = False) -> int:
    """Merge the lake's small files and delete those that no version of the last week needs."""
    del debug
    from shaberi_dagster.lake.catalog import logged_versions, write_catalog  # noqa: PLC0415
    from shaberi_dagster.lake.store import Lake  # noqa: PLC0415

    folder = Settings.from_environment().warehouse
    if not logged_versions(folder):
        raise ConfigurationError(f"no lake in {folder}: run run-evals first, or set SHABERI_WAREHOUSE")
    lake = Lake(folder)
    for table, counts in lake.compact().items():
        typer.echo(
            f"{table}: {counts['files_before']} files -> {counts['files_after']}, {counts['files_deleted']} deleted"
        )
    write_catalog(lake)
    return FINE


@app.command()
def doctor(debug: Debug = False) -> int:
    """Check the installation and the lake, and close runs whose process has died."""
    del debug
    from shaberi_dagster.cli.doctor import examine  # noqa: PLC0415

    findings = examine(Settings.from_environment())
    for finding in findings:
        typer.echo(f"{'ok  ' if finding.fine else 'FAIL'}  {finding.what}: {finding.detail}")
    return FINE if all(finding.fine for finding in findings) else FAILED_PARTS


@app.command(epilog="Example:\n\n\b\n  shaberi ui --port 3000")
def ui(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 3000,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    debug: Debug = False,
) -> int:
    """Open Dagster's UI and daemon on this lake (Ctrl-C stops them)."""
    del debug
    from shaberi_dagster.cli.ui import serve  # noqa: PLC0415

    return serve(Settings.from_environment(), host, port)


def main() -> None:
    """Entry point."""
    run_command(app)
