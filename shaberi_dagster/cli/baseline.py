"""`shaberi baseline`: name what a run got right, and list these names."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field

from shaberi_dagster.cli.command import FINE
from shaberi_dagster.cli.options import AsJson, CommandOptions, JsonOptions, OptionsCommand, takes_models
from shaberi_dagster.runs.option import Option
from shaberi_dagster.settings import Settings

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

Note = Annotated[str | None, Field(description="What to say about it"), Option("how", metavar="TEXT")]
_PROMOTE_EPILOG = """Examples:

\b
  shaberi baseline promote main-2026-07 --model my-model --tag nightly
  shaberi baseline promote main-2026-07 my-model@@nightly --note "before the new prompts"

A baseline is never changed, and no check changes one: to move on, promote another run under another name."""


@app.callback()
def baseline() -> None:
    """Name what a run got right, for `quick-eval --baseline NAME` to compare later runs with."""


class Promotion(CommandOptions):
    """Options of `shaberi baseline promote`: the run, and the name of its baseline."""

    name: Annotated[
        str,
        Field(description="Name of the new baseline; of numbered runs each gets NAME-runN"),
        Option("what", metavar="NAME", is_argument=True),
    ]
    run_id: Annotated[
        str | None,
        Field(description="The run, as MODEL@@TAG"),
        Option("what", metavar="RUN", is_argument=True),
    ] = None
    model: Annotated[
        str | None, Field(description="Instead of RUN: the run's model"), Option("what", known="models")
    ] = None
    tag: Annotated[
        str | None,
        Field(description="The run's tag; not needed where the model has one run"),
        Option("what", known="runs"),
    ] = None
    note: Note = None
    allow_partial: Annotated[
        bool, Field(description="Even if parts of the run are missing; a gate leaves them out"), Option("how")
    ] = False
    as_json: AsJson = False


class BaselineImport(CommandOptions):
    """Options of `shaberi baseline import`."""

    path: Annotated[
        Path,
        Field(description="Pooled baseline of the ensemble evaluation, such as baselines/quick-eval.json"),
        Option("what", metavar="FILE", is_argument=True),
    ]
    name: Annotated[str | None, Field(description="Name of the new baseline; default: the file's"), Option("what")] = (
        None
    )
    note: Note = None
    as_json: AsJson = False


def promote(how: Promotion) -> int:
    """Make what a run got right a baseline, which is never changed."""
    from shaberi_dagster.exchange import installation
    from shaberi_dagster.lake import catalog
    from shaberi_dagster.reports import baselines

    settings = Settings.from_environment()
    with catalog.open_catalog(settings.warehouse) as views:
        chosen = baselines.chosen_runs(views, how.run_id, how.model, how.tag)
    lake = installation.Installation(settings).lake
    names = baselines.promote_all(lake, chosen, how.name, how.note, allow_partial=how.allow_partial)
    _show(names, as_json=how.as_json)
    return FINE


def import_baseline(how: BaselineImport) -> int:
    """Make a pooled baseline of the ensemble evaluation a baseline, which `--gate fisher` compares with."""
    from shaberi_dagster.exchange import cache_files, installation

    name, lake = how.name or how.path.stem, installation.Installation(Settings.from_environment()).lake
    cache_files.import_baseline(how.path, lake, name, how.note)
    _show([name], as_json=how.as_json)
    return FINE


def _show(names: Sequence[str], *, as_json: bool) -> None:
    from shaberi_dagster.cli import output
    from shaberi_dagster.lake import catalog
    from shaberi_dagster.reports import baselines, verdicts

    with catalog.open_catalog(Settings.from_environment().warehouse) as views:
        promoted = [baseline for baseline in verdicts.baselines(views) if baseline["name"] in names]
    output.say(baselines.promotion_result(promoted), as_json=as_json)


def list_baselines(how: JsonOptions) -> int:
    """List the baselines with the runs that they were promoted from."""
    from shaberi_dagster.cli import output
    from shaberi_dagster.lake import catalog
    from shaberi_dagster.reports import baselines, verdicts

    with catalog.open_catalog(Settings.from_environment().warehouse) as views:
        found = verdicts.baselines(views)
    output.show(baselines.list_result(found), "json" if how.as_json else "table")
    return FINE


app.command(cls=OptionsCommand, epilog=_PROMOTE_EPILOG)(takes_models(promote))
app.command("import", cls=OptionsCommand)(takes_models(import_baseline))
app.command("list", cls=OptionsCommand)(takes_models(list_baselines))
