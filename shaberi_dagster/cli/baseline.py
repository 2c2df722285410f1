"""`shaberi baseline`: name what a run got right, and list these names."""

from typing import Annotated

import typer

from shaberi_dagster.cli.command import FINE, Debug
from shaberi_dagster.settings import Settings

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
    from shaberi_dagster.baselines import chosen_run  # noqa: PLC0415
    from shaberi_dagster.baselines import promote as promote_run  # noqa: PLC0415
    from shaberi_dagster.cli.output import say  # noqa: PLC0415  (DuckDB and polars only when they are needed)
    from shaberi_dagster.lake.catalog import open_catalog  # noqa: PLC0415
    from shaberi_dagster.rendering.baselines import PromotionDocument  # noqa: PLC0415
    from shaberi_dagster.reports.verdicts import baselines  # noqa: PLC0415
    from shaberi_dagster.runs.workspace import Workspace  # noqa: PLC0415

    settings = Settings.from_environment()
    with open_catalog(settings.warehouse) as catalog:
        chosen = chosen_run(catalog, run_id, model, tag)
    promote_run(Workspace(settings).lake, chosen, name, note, allow_partial=allow_partial)
    with open_catalog(settings.warehouse) as catalog:
        promoted = next(one for one in baselines(catalog) if one["name"] == name)
    say(PromotionDocument(promoted))
    return FINE


@baseline_app.command("list")
def list_baselines(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
    debug: Debug = False,
) -> int:
    """List the baselines with the runs that they were promoted from."""
    del debug
    # DuckDB only when it is needed.
    from rich.console import Console  # noqa: PLC0415

    from shaberi_dagster.lake.catalog import open_catalog  # noqa: PLC0415
    from shaberi_dagster.rendering.baselines import BaselineDocument  # noqa: PLC0415
    from shaberi_dagster.rendering.document import write  # noqa: PLC0415
    from shaberi_dagster.reports.verdicts import baselines  # noqa: PLC0415

    with open_catalog(Settings.from_environment().warehouse) as catalog:
        found = baselines(catalog)
    write(BaselineDocument(found), "json" if as_json else "table", Console())
    return FINE
