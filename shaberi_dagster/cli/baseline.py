"""`shaberi baseline`: name what a run got right, and list these names."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from shaberi_dagster.cli.options import AsJson, group
from shaberi_dagster.runs.option import option
from shaberi_dagster.settings import Settings

Note = Annotated[str | None, option("how", "What to say about it", metavar="TEXT")]
EPILOG = """Examples:
  shaberi baseline promote main-2026-07 --model my-model --tag nightly
  shaberi baseline promote main-2026-07 my-model@@nightly --note "before the new prompts"

A baseline is never changed, and no check changes one: to move on, promote another run under another name."""


def promote(
    name: Annotated[
        str, option("what", "Name of the new baseline; of numbered runs each gets NAME-runN", metavar="NAME")
    ],
    run_id: Annotated[str | None, option("what", "The run, as MODEL@@TAG", name="run")] = None,
    /,
    *,
    model: Annotated[str | None, option("what", "Instead of RUN: the run's model", known="models")] = None,
    tag: Annotated[
        str | None, option("what", "The run's tag; not needed where the model has one run", known="runs")
    ] = None,
    note: Note = None,
    allow_partial: Annotated[
        bool, option("how", "Even if parts of the run are missing; a gate leaves them out")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make what a run got right a baseline, which is never changed."""
    from shaberi_dagster.deciding import promotion
    from shaberi_dagster.lake import catalog
    from shaberi_dagster.runs.workspace import Workspace

    settings = Settings.from_environment()
    with catalog.open_catalog(settings.warehouse) as views:
        chosen = promotion.chosen_runs(views, run_id, model, tag)
    lake = Workspace(settings).lake
    names = promotion.promote_all(lake, chosen, name, note, allow_partial=allow_partial)
    _show(names, as_json=as_json)


def import_baseline(
    path: Annotated[
        Path,
        option("what", "Pooled baseline of the ensemble evaluation, such as baselines/quick-eval.json", metavar="FILE"),
    ],
    /,
    *,
    name: Annotated[str | None, option("what", "Name of the new baseline; default: the file's")] = None,
    note: Note = None,
    as_json: AsJson = False,
) -> None:
    """Make a pooled baseline of the ensemble evaluation a baseline."""
    from shaberi_dagster.exchange import cache_files
    from shaberi_dagster.runs.workspace import Workspace

    name, lake = name or path.stem, Workspace(Settings.from_environment()).lake
    cache_files.import_baseline(path, lake, name, note)
    _show([name], as_json=as_json)


def _show(names: Sequence[str], *, as_json: bool) -> None:
    from shaberi_dagster.cli import output
    from shaberi_dagster.lake import catalog
    from shaberi_dagster.reports import baselines

    with catalog.open_catalog(Settings.from_environment().warehouse) as views:
        promoted = [baseline for baseline in baselines.baselines(views) if baseline["name"] in names]
    output.say(baselines.promotion_result(promoted), as_json=as_json)


def list_baselines(*, as_json: AsJson = False) -> None:
    """List the baselines with the runs that they were promoted from."""
    from shaberi_dagster.cli import output
    from shaberi_dagster.lake import catalog
    from shaberi_dagster.reports import baselines

    with catalog.open_catalog(Settings.from_environment().warehouse) as views:
        found = baselines.baselines(views)
    output.show(baselines.list_result(found), "json" if as_json else "table")


baseline = group(
    "baseline",
    "Name a run as the baseline that `quick-eval` compares with.",
    {
        "Baselines": {
            "promote": (
                "shaberi_dagster.cli.baseline:promote",
                "Make what a run got right a baseline, which is never changed.",
            ),
            "import": (
                "shaberi_dagster.cli.baseline:import_baseline",
                "Make a pooled baseline of the ensemble evaluation a baseline.",
            ),
            "list": (
                "shaberi_dagster.cli.baseline:list_baselines",
                "List the baselines with the runs that they were promoted from.",
            ),
        }
    },
)
