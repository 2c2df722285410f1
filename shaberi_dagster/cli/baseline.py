"""`shaberi baseline`: name what a run got right, and list these names."""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from shaberi_dagster.cli.command import FINE, Debug
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.names import check_known, did_you_mean
from shaberi_dagster.rendering.text import json_safe, printable
from shaberi_dagster.reports.named_queries import known_names
from shaberi_dagster.settings import Settings

if TYPE_CHECKING:
    import duckdb

baseline_app = typer.Typer(
    no_args_is_help=True,
    help="Name what a run got right, for `quick-eval --baseline NAME` to compare later runs with.",
)

_PROMOTE_EPILOG = """Examples:

\b
  shaberi baseline promote main-2026-07 --model my-model --tag nightly
  shaberi baseline promote main-2026-07 my-model@@nightly --note "before the new prompts"

A baseline is never changed, and no check changes one: to move on, promote another run under another name."""


@baseline_app.command(epilog=_PROMOTE_EPILOG)
def promote(  # noqa: PLR0917
    name: Annotated[str, typer.Argument(help="Name of the new baseline.")],
    run_id: Annotated[str | None, typer.Argument(metavar="[RUN]", help="The run, as MODEL@@TAG.")] = None,
    model: Annotated[str | None, typer.Option(help="Instead of RUN: the run's model.")] = None,
    tag: Annotated[str | None, typer.Option(help="The run's tag; not needed where the model has one run.")] = None,
    note: Annotated[str | None, typer.Option(help="What to say about it.")] = None,
    allow_partial: Annotated[
        bool, typer.Option("--allow-partial", help="Even if parts of the run are missing; they count as wrong.")
    ] = False,
    debug: Debug = False,
) -> int:
    """Make what a run got right a baseline, which is never changed."""
    del debug
    from shaberi_dagster.baselines import promote as promote_run  # noqa: PLC0415
    from shaberi_dagster.lake.catalog import open_catalog  # noqa: PLC0415  (DuckDB and polars only when needed)
    from shaberi_dagster.runs.workspace import Workspace  # noqa: PLC0415

    settings = Settings.from_environment()
    with open_catalog(settings.warehouse) as catalog:
        chosen = _run(catalog, run_id, model, tag)
    rows = promote_run(Workspace(settings).lake, chosen, name, note, allow_partial=allow_partial)
    datasets, strategies = rows["benchmark"].n_unique(), rows["strategy"].n_unique()
    questions = rows.select("benchmark", "question_id").n_unique()
    typer.echo(
        f"baseline {name}: {printable(chosen)}, {_count(datasets, 'dataset')}, {_count(questions, 'question')}, "
        f"{strategies} strategies with single"
    )
    return FINE


@baseline_app.command("list")
def list_baselines(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
    debug: Debug = False,
) -> int:
    """List the baselines with the runs that they were promoted from."""
    del debug
    from shaberi_dagster.lake.catalog import open_catalog  # noqa: PLC0415  (DuckDB only when it is needed)
    from shaberi_dagster.reports.verdicts import baselines  # noqa: PLC0415

    with open_catalog(Settings.from_environment().warehouse) as catalog:
        found = baselines(catalog)
    if as_json:
        sys.stdout.write(json_safe(json.dumps(found, indent=2, ensure_ascii=False, default=str)) + "\n")
    elif found:
        Console().print(_table(found), crop=False)
    else:
        typer.echo("no baselines; `shaberi baseline promote NAME --model MODEL` makes one")
    return FINE


_RUNS = """
select run_id, run_tag, run_id in (select run_id from consensus) as has_strategies
from runs
where model = $model and ($tag is null or run_tag = $tag)
order by run_tag
"""


def _run(catalog: "duckdb.DuckDBPyConnection", run_id: str | None, model: str | None, tag: str | None) -> str:
    """The run that is meant.

    Raises:
        ConfigurationError: None or several are.
    """
    if (run_id is None) == (model is None):
        raise ConfigurationError("name the run: MODEL@@TAG, or --model MODEL --tag TAG")
    if run_id is not None:
        if tag is not None:
            raise ConfigurationError("--tag goes with --model; a run is MODEL@@TAG")
        model, _, tag = run_id.rpartition("@@")  # the identity of a run has its model's name made safe
        known = _fetch(catalog, "select run_id from runs where run_id = $run_id", {"run_id": run_id})
        if known:
            return run_id
        if not model:
            meant = did_you_mean(run_id, known_names(catalog, "run"), "the lake has")
            raise ConfigurationError(f"{run_id!r} is no run: name it as MODEL@@TAG, or give --model; {meant}")
    found = _fetch(catalog, _RUNS, {"model": model, "tag": tag})
    if not found:
        what, given = ("run", run_id) if run_id else ("model", str(model))
        check_known(what, [given], known_names(catalog, what))
        raise ConfigurationError(f"{model} has no run{f' with tag {tag!r}' if tag else ''}")
    # A run of generate-cache has samples only.
    found = [row for row in found if row[2]] or found
    if len(found) > 1:
        raise ConfigurationError(f"{model} has several runs: give --tag, one of {', '.join(row[1] for row in found)}")
    return str(found[0][0])


def _fetch(catalog: "duckdb.DuckDBPyConnection", sql: str, values: dict[str, object]) -> list[tuple[Any, ...]]:
    from shaberi_dagster.lake.catalog import run_query  # noqa: PLC0415  (DuckDB only when it is needed)

    return run_query(catalog, sql, values).fetchall()


def _table(found: list[dict[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in ("name", "run", "datasets", "questions", "right", "promoted", "note"):
        table.add_column(Text(title, style="bold"))
    for one in found:
        right = ", ".join(f"{strategy} {100 * share:.1f}%" for strategy, share in one["accuracy"].items())
        cells = [one["name"], one["run_id"], ", ".join(one["datasets"]), str(one["n_questions"]), right]
        cells += [f"{one['promoted_at']:%Y-%m-%d %H:%M}", one["note"] or ""]
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
