"""Import of ensemble and baseline caches: one asset without partitions, since a run is spread over many files."""

from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from shaberi_dagster.defs.assets import OWNERS
from shaberi_dagster.defs.interrupts import canceled_when_interrupted
from shaberi_dagster.defs.metadata import markdown_table
from shaberi_dagster.defs.options import ENSEMBLE_IMPORT, ENSEMBLE_IMPORT_JOB, ENSEMBLE_REPORT
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.exchange.caches import import_ensemble
from shaberi_dagster.exchange.importer import ImportReport

_CHECKS = {
    "reconciled": "What the files had is what the lake has: entries, responses and verdicts add up.",
    "nothing_quarantined": "Every part of every file could become rows.",
}
_MOST_SHOWN = 10


class EnsembleImportConfig(dg.Config):
    """What to import."""

    paths: list[str] = Field(description="Cache files, or folders with cache files.")


@dg.asset(
    key=ENSEMBLE_IMPORT,
    group_name="legacy",
    kinds={"json", "deltalake"},
    owners=OWNERS,
    check_specs=[dg.AssetCheckSpec(name, asset=ENSEMBLE_IMPORT, description=text) for name, text in _CHECKS.items()],
    metadata={"dagster/table_name": "legacy_files"},
)
def ensemble_import(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource, config: EnsembleImportConfig
) -> dg.MaterializeResult:  # type: ignore[type-arg]  # with checks, Dagster wants the bare class
    """Responses and verdicts of the ensemble evaluation's caches as runs of this lake; what is there already stays."""
    with canceled_when_interrupted(context):
        done = import_ensemble(map(Path, config.paths), workspace.workspace(context.log))
    return dg.MaterializeResult(metadata=_metadata(done), check_results=_checks(done))


import_ensemble_job = dg.define_asset_job(
    ENSEMBLE_IMPORT_JOB,
    selection=dg.AssetSelection.assets(ENSEMBLE_IMPORT),
    description="Import caches of the ensemble evaluation: name their files or folders in the launchpad.",
)
ENSEMBLE = [ensemble_import]


def _metadata(done: ImportReport) -> dict[str, Any]:
    shown = done.quarantine.select("source", "path", "reason").head(_MOST_SHOWN)
    return {
        "dagster/row_count": sum(file.answers + file.judgements for file in done.files),
        "runs": ", ".join(done.runs),
        "quarantined": done.quarantine.height,
        "changed": done.changed,
        ENSEMBLE_REPORT: dg.MetadataValue.json(done.document()),
        **({"quarantine": dg.MetadataValue.md(markdown_table(shown))} if shown.height else {}),
    }


def _checks(done: ImportReport) -> list[dg.AssetCheckResult]:
    wrong, n_unreadable = done.discrepancies(), done.n_unreadable
    return [
        dg.AssetCheckResult(
            check_name="reconciled", passed=not wrong, description="; ".join(wrong) or "all sums agree"
        ),
        dg.AssetCheckResult(
            check_name="nothing_quarantined",
            passed=not done.quarantine.height and not n_unreadable,
            severity=dg.AssetCheckSeverity.WARN,
            description=f"{done.quarantine.height:,} parts quarantined, {n_unreadable:,} files unreadable",
        ),
    ]
