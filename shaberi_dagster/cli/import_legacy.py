"""`shaberi import-legacy`: answers and judgements of the old Shaberi suite."""

from collections.abc import Sequence
from typing import Annotated

from shaberi_dagster.cli.command import FAILED_PARTS, FINE
from shaberi_dagster.cli.options import AsJson
from shaberi_dagster.cli.output import say
from shaberi_dagster.runs.option import option
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError

EPILOG = """Examples:
  shaberi import-legacy shaberi                            the tree is named after its folder
  shaberi import-legacy shisa=~/shaberi umiyuki=~/fork     each tree has runs of its own
  shaberi import-legacy --report                           what was imported before, with all sums

A tree has model_answers/DATASET/MODEL.json and judgements/judge_NAME/DATASET/MODEL.json (or .json.gz), at any depth.
Answers that were judged together become a run with the tag TAG-TREE; further answers in the same tree are
...-gen2, ... The same command again reads only what is new.

Exit codes: 0 fine, 2 usage or configuration error, 3 some lines, files or folders were not read, 130 interrupted."""


def import_legacy(
    trees: Annotated[
        Sequence[str], option("what", "Legacy trees, as FOLDER or NAME=FOLDER; none with --report", metavar="PATH")
    ] = (),
    /,
    *,
    tag: Annotated[str, option("what", "Tag of the runs")] = "legacy",
    models: Annotated[
        str, option("what", "Only models whose file names match this pattern (* and ?)", metavar="PATTERN")
    ] = "*",
    report: Annotated[bool, option("how", "Show all sums of everything imported under the tag")] = False,
    as_json: AsJson = False,
) -> int:
    """Import results of the old Shaberi suite."""
    from shaberi_dagster.defs import operations

    settings = Settings.from_environment()
    if trees:
        operations.import_trees(settings, trees, tag, models)
    elif not report:
        raise ConfigurationError("name a legacy tree (FOLDER or NAME=FOLDER), or give --report for earlier imports")
    return show_report(settings, tag, full=report, as_json=as_json)


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
    from shaberi_dagster.exchange import outcomes
    from shaberi_dagster.exchange.trees import importing
    from shaberi_dagster.lake import store

    counted = importing.reconcile_lake(store.Lake(settings.warehouse), tag)
    say(outcomes.trees_result(counted, tag, full=full), as_json=as_json)
    return FAILED_PARTS if counted.discrepancies() or counted.quarantine.height or counted.left_out.height else FINE
