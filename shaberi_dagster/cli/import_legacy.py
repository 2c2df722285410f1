"""What `shaberi import-legacy` does: import in this process, then show what became of every file and line."""

import sys
from collections.abc import Sequence

from shaberi_dagster.cli.command import FAILED_PARTS, FINE
from shaberi_dagster.cli.output import say
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.lake.compaction import surplus_files
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.lake.upgrades import FORMAT, stored_format
from shaberi_dagster.legacy.importing import named_trees, reconcile_lake
from shaberi_dagster.rendering.imports import ImportDocument
from shaberi_dagster.rendering.live import reporter_for
from shaberi_dagster.runs.workspace import reporting_to
from shaberi_dagster.settings import Settings

_MANY_FILES = 100  # over a thousand small ones a leaderboard takes ten times as long


def import_trees(settings: Settings, trees: Sequence[str], tag: str, models: str, *, log_runs: bool) -> None:
    """Import trees in this process and in one Dagster run, on the instance that the UI shows.

    Args:
        settings: Where the lake and the instance are.
        trees: `NAME=FOLDER` or `FOLDER`.
        tag: Tag of the runs.
        models: Pattern of file names.
        log_runs: Whether the runs become materialized partitions.

    Raises:
        ConfigurationError: A tree is no folder, or there is nothing to import.
    """
    named = named_trees(trees)
    # The UI shows folders; a relative one would mean another folder there.
    asked = [f"{name}={folder}" for name, folder in named.items()]
    reporter = reporter_for(sys.stderr)
    with reporting_to(reporter):
        from shaberi_dagster.definitions import run_job  # noqa: PLC0415
        from shaberi_dagster.defs.execution import close_dead_runs, open_instance  # noqa: PLC0415
        from shaberi_dagster.defs.options import IMPORT, IMPORT_JOB  # noqa: PLC0415

        instance = open_instance(settings.dagster_home)
        close_dead_runs(instance)
        tags = {"shaberi/command": "import-legacy"}
        config = {"trees": asked, "tag": tag, "models": models, "log_runs": log_runs}
        run_job(IMPORT_JOB, instance, ops={IMPORT: {"config": config}}, tags=tags)
        if (surplus := surplus_files(Lake(settings.warehouse))) >= _MANY_FILES:
            reporter.note(f"the lake has {surplus:,} files more than it needs: `shaberi compact` puts them together")


def show_report(settings: Settings, tag: str, *, full: bool, as_json: bool) -> int:
    """Print what became of all files that were imported under a tag.

    Args:
        settings: Where the lake is.
        tag: Tag of the runs.
        full: With all sums, not only those by tree.
        as_json: As one document, which always has all of them.

    Returns:
        `FAILED_PARTS` when lines or files were not read, or sums do not agree.

    Raises:
        ConfigurationError: Nothing was imported under that tag, or a lake of an older format has other rows.
    """
    stored = stored_format(settings.warehouse)
    if stored is not None and stored < FORMAT:
        raise ConfigurationError(
            f"the lake in {settings.warehouse} has format {stored}, whose imports are counted otherwise: "
            f"`shaberi compact` brings it to {FORMAT}"
        )
    counted = reconcile_lake(Lake(settings.warehouse), tag)
    say(ImportDocument(counted, tag, full=full), as_json=as_json)
    return FAILED_PARTS if counted.discrepancies() or counted.quarantine.height or counted.left_out.height else FINE
