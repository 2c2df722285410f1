"""Import of ensemble and baseline caches: one asset without partitions, since a run is spread over many files."""

from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from shaberi_dagster.defs.metadata import markdown_table
from shaberi_dagster.defs.operation import import_checks, operation
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.exchange.legacy.ensemble import EnsembleImport, import_ensemble

REPORT = "report"
"""The metadata with the counts of every file, which the command shows."""
_CHECKS = {
    "reconciled": "What the files had is what the lake has: entries, responses and verdicts add up.",
    "nothing_quarantined": "Every part of every file could become rows.",
}
_MOST_SHOWN = 10


class EnsembleImportConfig(dg.Config):
    """What to import."""

    paths: list[str] = Field(description="Cache files, or folders with cache files.")


@operation("ensemble_import", table="legacy_files", checks=_CHECKS, group_name="legacy", kinds={"json", "deltalake"})
def ensemble_import(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource, config: EnsembleImportConfig
) -> dg.MaterializeResult:  # type: ignore[type-arg]  # with checks, Dagster wants the bare class
    """Responses and verdicts of the ensemble evaluation's caches as runs of this lake; what is there already stays."""
    done = import_ensemble(map(Path, config.paths), workspace.workspace(context.log))
    left_out = {"parts quarantined": done.quarantine.height, "files unreadable": done.n_unreadable}
    return dg.MaterializeResult(metadata=_metadata(done), check_results=import_checks(done.discrepancies(), left_out))


def _metadata(done: EnsembleImport) -> dict[str, Any]:
    shown = done.quarantine.select("source", "path", "reason").head(_MOST_SHOWN)
    return {
        "dagster/row_count": sum(file.answers + file.judgements for file in done.files),
        "runs": ", ".join(done.runs),
        "quarantined": done.quarantine.height,
        "changed": done.changed,
        REPORT: dg.MetadataValue.json(done.document()),
        **({"quarantine": dg.MetadataValue.md(markdown_table(shown))} if shown.height else {}),
    }
