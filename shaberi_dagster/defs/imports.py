"""Imports: of legacy trees, with a partition for each, and of ensemble and baseline caches, of which runs are parts.

The sensor `lake_runs` shows the runs themselves.
"""

from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from shaberi_dagster.defs.assets import import_checks, operation
from shaberi_dagster.defs.metadata import markdown_table, rounded
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.exchange.caches import import_ensemble
from shaberi_dagster.exchange.trees.importing import (
    DEFAULT_TAG,
    ImportRequest,
    import_trees,
    named_trees,
    tree_folders,
)
from shaberi_dagster.exchange.trees.sums import Reconciliation
from shaberi_dagster.util.errors import ConfigurationError

IMPORT = "legacy_import"
REPORT = "report"
"""Metadata of `ensemble_import` with the counts of every file, which the command shows."""
_CHECKS = {
    "reconciled": "What the files had is what the lake has: lines, rows, repeats and quarantined lines add up.",
    "nothing_quarantined": "Every file could be read, and every line of it could become a row.",
}
_ENSEMBLE_CHECKS = {
    "reconciled": "What the files had is what the lake has: entries, responses and verdicts add up.",
    "nothing_quarantined": "Every part of every file could become rows.",
}
_MOST_SHOWN = 10
TREES_NAME = "legacy_trees"
trees = dg.DynamicPartitionsDefinition(name=TREES_NAME)
"""A key is the name of a tree."""


class LegacyImportConfig(dg.Config):
    """Config of an import of legacy trees."""

    trees: list[str] = Field(
        default=[],
        description="Folders of the trees, as [NAME=FOLDER]; one that is left out is where it was at its last import.",
    )
    tag: str = Field(default=DEFAULT_TAG, description="Tag of the runs.")
    models: str = Field(default="*", description="Only models whose file names match: a part of a tree at a time.")


@operation(
    IMPORT,
    table="legacy_files",
    checks=_CHECKS,
    partitions_def=trees,
    backfill_policy=dg.BackfillPolicy.single_run(),  # what trees share is read once
    group_name="legacy",
    kinds={"json", "deltalake"},
)
def legacy_import(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource, config: LegacyImportConfig
) -> dg.MaterializeResult:  # type: ignore[type-arg]  # with checks, Dagster wants the bare class
    """Trees of the old Shaberi suite as runs of this lake; what is there already is not read again.

    The first time: click the arrow beside Materialize, Open launchpad, Add new partition; name the tree, and write
    NAME=FOLDER into trees. Again: click Materialize and choose trees.
    """
    place, given = workspace.workspace(context.log), named_trees(config.trees)
    of_partitions = context.has_partition_key or context.has_partition_key_range
    names = list(context.partition_keys) if of_partitions else list(given)
    folders, lost = tree_folders(names, given, place.lake, config.tag)
    result = import_trees(ImportRequest(folders, config.tag, config.models), place)
    counted = result.reconciliation
    facts: dict[str, Any] = {
        "tag": result.tag,
        "models read": result.models_read,
        "models already there": result.models_there,
        "runs imported": result.runs.height,
        "megabytes read": rounded(result.bytes_read / 1e6),
        "seconds": rounded(result.seconds),
        "trees left out": ", ".join(given.keys() - names),
    }
    left_out = {"lines quarantined": counted.quarantine.height, "files not read": counted.left_out.height}
    checks = import_checks(counted.discrepancies(), left_out)
    sums = {name: {"folder": str(folder), **_reconciled(counted.of(name))} for name, folder in folders.items()}
    if of_partitions and not lost:
        for name, sums_of_tree in sums.items():
            context.add_asset_metadata(sums_of_tree, partition_key=name)
        return dg.MaterializeResult(metadata=facts, check_results=checks)
    context.instance.add_dynamic_partitions(TREES_NAME, names)
    for name, sums_of_tree in sums.items():
        context.instance.report_runless_asset_event(
            dg.AssetMaterialization(IMPORT, partition=name, metadata=sums_of_tree)
        )
    if lost:  # after the other trees are there
        raise ConfigurationError("; ".join(lost))
    return dg.MaterializeResult(metadata=facts | _reconciled(counted), check_results=checks)


class EnsembleImportConfig(dg.Config):
    """Config of an import of response caches."""

    paths: list[str] = Field(description="Cache files, or folders with cache files.")


@operation(
    "ensemble_import", table="legacy_files", checks=_ENSEMBLE_CHECKS, group_name="legacy", kinds={"json", "deltalake"}
)
def ensemble_import(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource, config: EnsembleImportConfig
) -> dg.MaterializeResult:  # type: ignore[type-arg]  # with checks, Dagster wants the bare class
    """Responses and verdicts of the ensemble evaluation's caches as runs of this lake; what is there already stays.

    Click the arrow beside Materialize, Open launchpad, and write the caches' folders into paths.
    """
    done = import_ensemble(map(Path, config.paths), workspace.workspace(context.log))
    shown = done.quarantine.select("source", "path", "reason").head(_MOST_SHOWN)
    facts: dict[str, Any] = {
        "dagster/row_count": sum(file.answers + file.judgements for file in done.files),
        "runs": ", ".join(done.runs),
        "quarantined": done.quarantine.height,
        "changed": done.changed,
        REPORT: dg.MetadataValue.json(done.document()),
        **({"quarantine": dg.MetadataValue.md(markdown_table(shown))} if shown.height else {}),
    }
    left_out = {"parts quarantined": done.quarantine.height, "files unreadable": done.n_unreadable}
    return dg.MaterializeResult(metadata=facts, check_results=import_checks(done.discrepancies(), left_out))


def _reconciled(counted: Reconciliation) -> dict[str, Any]:
    """Describe what became of a tree's files."""
    files = counted.files
    samples = {"quarantine": counted.quarantine, "not read": counted.left_out}
    return {
        "dagster/row_count": int(counted.outcomes["rows"].sum()),
        "files": int(files["files"].sum()),
        "lines": int(files["lines"].sum()),
        "quarantined lines": counted.quarantine.height,
        "unreadable files": counted.n_unreadable,
        "reconciliation of files": dg.MetadataValue.md(markdown_table(files)),
        "reconciliation by judge and benchmark": dg.MetadataValue.md(markdown_table(counted.cells)),
        "rows by outcome": dg.MetadataValue.md(markdown_table(counted.outcomes)),
        **{
            name: dg.MetadataValue.md(markdown_table(rows.head(_MOST_SHOWN)))
            for name, rows in samples.items()
            if rows.height
        },
    }
