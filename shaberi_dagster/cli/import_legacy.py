"""`shaberi import-legacy`: answers and judgements of the old Shaberi suite."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from shaberi_dagster.cli.command import FAILED_PARTS, FINE
from shaberi_dagster.cli.options import AsJson, CommandOptions
from shaberi_dagster.cli.output import say
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.runs.option import Option
from shaberi_dagster.settings import Settings

EPILOG = """Examples:

\b
  shaberi import-legacy shaberi                            the tree is named after its folder
  shaberi import-legacy shisa=~/shaberi umiyuki=~/fork     each tree has runs of its own
  shaberi import-legacy shisa=~/shaberi --models 'Qwen*'   a part of the tree
  shaberi import-legacy --report                           what was imported before, with all sums

A tree has model_answers/DATASET/MODEL.json and judgements/judge_NAME/DATASET/MODEL.json (or .json.gz), at any depth.
Answers that were judged together become a run: TAG for the first tree that has the model, TAG-TREE for others; further
answers in the same tree are ...-gen2, ... The same command again reads only what is new.

Exit codes: 0 fine, 2 usage or configuration error, 3 some lines, files or folders were not read, 130 interrupted."""


class ImportLegacy(CommandOptions):
    """Options of `shaberi import-legacy`."""

    trees: Annotated[
        Sequence[str],
        Field(description="Legacy trees, as FOLDER or NAME=FOLDER; none with --report"),
        Option("what", metavar="PATH", is_argument=True, repeated=True),
    ] = ()
    tag: Annotated[str, Field(description="Tag of the runs"), Option("what")] = "legacy"
    models: Annotated[
        str,
        Field(description="Only models whose file names match this pattern (* and ?)"),
        Option("what", metavar="PATTERN"),
    ] = "*"
    report: Annotated[bool, Field(description="Show all sums of everything imported under the tag"), Option("how")] = (
        False
    )
    log_runs: Annotated[
        bool,
        Field(description="Show the runs as materialized partitions in Dagster"),
        Option("how", ("--log-runs/--no-log-runs",)),
    ] = True
    as_json: AsJson = False


def import_legacy(how: ImportLegacy) -> int:
    """Import answers and judgements of the old Shaberi suite."""
    from shaberi_dagster.defs import operations

    settings = Settings.from_environment()
    if how.trees:
        operations.import_trees(settings, how.trees, how.tag, how.models, log_runs=how.log_runs)
    elif not how.report:
        raise ConfigurationError("name a legacy tree (FOLDER or NAME=FOLDER), or give --report for earlier imports")
    return show_report(settings, how.tag, full=how.report, as_json=how.as_json)


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
