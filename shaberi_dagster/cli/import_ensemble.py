"""What `shaberi import-ensemble` does: import in this process, then say what became of every file."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shaberi_dagster.cli.command import FAILED_PARTS, FINE
from shaberi_dagster.cli.output import say
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.rendering.imports import CachesDocument
from shaberi_dagster.rendering.live import reporter_for
from shaberi_dagster.runs.spec import CallOptions
from shaberi_dagster.runs.workspace import reporting_to
from shaberi_dagster.settings import Settings

if TYPE_CHECKING:
    from shaberi_dagster.rendering.ensemble import EnsembleDocument


def import_caches(settings: Settings, paths: Sequence[Path], *, as_json: bool, grade: bool = False) -> int:
    """Materialize the import in this process, on the instance that the UI shows.

    Args:
        settings: Where the lake and the instance are.
        paths: Files, or folders with files.
        as_json: One JSON document instead of sentences.
        grade: Also grade the imported samples by rules and vote on them.

    Returns:
        `FAILED_PARTS` when something could not be read, or sums do not agree.

    Raises:
        ConfigurationError: A path does not exist, or there is no cache in it.
    """
    with reporting_to(reporter_for(sys.stderr)):
        from shaberi_dagster.definitions import run_job  # noqa: PLC0415
        from shaberi_dagster.defs.execution import close_dead_runs, open_instance  # noqa: PLC0415
        from shaberi_dagster.defs.options import ENSEMBLE_IMPORT, ENSEMBLE_IMPORT_JOB, ENSEMBLE_REPORT  # noqa: PLC0415

        instance = open_instance(settings.dagster_home)
        close_dead_runs(instance)
        result = run_job(
            ENSEMBLE_IMPORT_JOB,
            instance,
            # The UI shows the paths; a relative one would mean another place there.
            ops={ENSEMBLE_IMPORT: {"config": {"paths": [str(path.absolute()) for path in paths]}}},
            tags={"shaberi/command": "import-ensemble"},
        )
        (event,) = result.get_asset_materialization_events()
        report: Any = event.materialization.metadata[ENSEMBLE_REPORT].value
    graded = _graded(settings, report["runs"]) if grade else None
    say(CachesDocument(report, graded), as_json=as_json)
    return FAILED_PARTS if report["quarantine"] or report["unreadable_files"] or report["discrepancies"] else FINE


def _graded(settings: Settings, run_ids: Sequence[str]) -> "list[EnsembleDocument]":
    """Grade the samples of imported runs by rules, vote on them, and read what that says; no call is made."""
    from shaberi_dagster.lake.catalog import open_catalog  # noqa: PLC0415
    from shaberi_dagster.legacy.ensemble import grading_of  # noqa: PLC0415
    from shaberi_dagster.rendering.ensemble import EnsembleDocument  # noqa: PLC0415
    from shaberi_dagster.reports.ensemble import read_report  # noqa: PLC0415
    from shaberi_dagster.running import Evaluation  # noqa: PLC0415

    lake, documents = Lake(settings.warehouse), []
    for request in filter(None, (grading_of(run_id, lake) for run_id in run_ids)):
        evaluation = Evaluation([request], CallOptions(max_tokens_total=0), command="import-ensemble")
        status, spec = evaluation.run(), evaluation.spec
        with open_catalog(settings.warehouse) as catalog:
            report = read_report(
                catalog, spec, evaluation.benchmarks, request.strategies or (), status=status, calls_made={}
            )
        documents.append(EnsembleDocument(report))
    return documents
