"""`shaberi import-ensemble`: response caches of the ensemble-consensus evaluation."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from shaberi_dagster.cli.command import FAILED_PARTS, FINE
from shaberi_dagster.cli.options import AsJson
from shaberi_dagster.cli.output import say
from shaberi_dagster.runs.option import option
from shaberi_dagster.settings import Settings

EPILOG = """Examples:
  shaberi import-ensemble .cache                           every cache below the folder
  shaberi import-ensemble .cache --grade                   graded by rules and voted on as well, no call made

A cache of N responses at temperature T becomes the run legacy-Nx-tT of its model, a judged baseline the run
legacy-baseline. The same command again changes nothing; a cache that has grown adds what is new.

Exit codes: 0 fine, 2 usage or configuration error, 3 some parts could not be read, 130 interrupted."""


def import_ensemble(
    paths: Annotated[Sequence[Path], option("what", "Cache files, or folders with cache files", metavar="PATH")],
    /,
    *,
    grade: Annotated[
        bool, option("how", "Also let rules grade their samples, and a vote (plurality) choose among them; no call")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Import response caches of the ensemble-consensus evaluation."""
    from shaberi_dagster.defs import operations
    from shaberi_dagster.exchange import outcomes
    from shaberi_dagster.reports import ensemble

    settings = Settings.from_environment()
    report = operations.import_caches(settings, paths)
    graded = None
    if grade:
        graded = [ensemble.ensemble_result(found) for found in operations.grade_caches(settings, report["runs"])]
    say(outcomes.caches_result(report, graded), as_json=as_json)
    return FAILED_PARTS if report["quarantine"] or report["unreadable_files"] or report["discrepancies"] else FINE
