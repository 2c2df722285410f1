"""Imports: of legacy trees, with a partition for each, and of ensemble and baseline caches, of which runs are parts.

The import of trees tells of the runs that it made as well.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
from pydantic import Field

from shaberi_dagster.benchmarks.registry import BENCHMARKS
from shaberi_dagster.defs.events import report_materializations
from shaberi_dagster.defs.metadata import markdown_table
from shaberi_dagster.defs.operation import import_checks, operation
from shaberi_dagster.defs.partitions import add_partitions
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.exchange.caches import import_ensemble
from shaberi_dagster.exchange.trees.importing import (
    DEFAULT_TAG,
    ImportRequest,
    ImportResult,
    import_trees,
    imported_runs,
    named_trees,
    tree_folders,
)
from shaberi_dagster.exchange.trees.sums import Reconciliation
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.workspace import Workspace

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
        description="Where the trees are, as NAME=FOLDER; one that is not named is where it was at its last import.",
    )
    tag: str = Field(default=DEFAULT_TAG, description="Tag of the runs.")
    models: str = Field(default="*", description="Only models whose file names match: a part of a tree at a time.")
    log_runs: bool = Field(default=True, description="Show the runs as materialized partitions of their assets.")


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

    Started without a partition it imports all trees that are named, and their partitions are materialized as well.
    """
    place, given = workspace.workspace(context.log), named_trees(config.trees)
    of_partitions = context.has_partition_key or context.has_partition_key_range
    names = list(context.partition_keys) if of_partitions else list(given)
    folders = tree_folders(names, given, place.lake, config.tag)
    result = import_trees(ImportRequest(folders, config.tag, config.models), place)
    logged = log_runs(config.tag, result.runs["run_id"], place, context) if config.log_runs else 0
    facts = _metadata(result) | {"partitions logged": logged}
    counted = result.reconciliation
    left_out = {"lines quarantined": counted.quarantine.height, "files not read": counted.left_out.height}
    checks = import_checks(counted.discrepancies(), left_out)
    sums = {name: {"folder": str(folder), **_reconciled(counted.of(name))} for name, folder in folders.items()}
    if of_partitions:
        for name, sums_of_tree in sums.items():
            context.add_asset_metadata(sums_of_tree, partition_key=name)
        return dg.MaterializeResult(metadata=facts, check_results=checks)
    context.instance.add_dynamic_partitions(TREES_NAME, names)
    report_materializations(
        context.instance,
        [dg.AssetMaterialization(IMPORT, partition=name, metadata=sums_of_tree) for name, sums_of_tree in sums.items()],
    )
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
    """Responses and verdicts of the ensemble evaluation's caches as runs of this lake; what is there already stays."""
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


def log_runs(tag: str, anew: Sequence[str] | pl.Series, workspace: Workspace, context: dg.AssetExecutionContext) -> int:
    """Make imported runs partitions, materialized where they have rows.

    Dagster has an event for each partition of each asset; those that have one get no other.

    Args:
        tag: The tag of the import.
        anew: The runs that were imported just now.
        workspace: Where the runs are.
        context: Of the import.

    Returns:
        How many events there were to log.
    """
    instance = context.instance
    specs = [RunSpec.read(text) for text in imported_runs(workspace.lake, tag)["spec"]]
    add_partitions({spec.run_id: spec.model_dump() for spec in specs}, instance)
    fresh = set(anew)
    events: list[dg.AssetMaterialization] = []
    for stage in ("answers", "judgements", "scores", "metrics"):
        for name in BENCHMARKS:
            key = dg.AssetKey([stage, name])
            there = instance.get_materialized_partitions(key) - fresh
            events += [
                _materialization(key, spec, context)
                for spec in specs
                if _has(spec, stage, name) and spec.run_id not in there
            ]
    report_materializations(instance, events)
    return len(events)


def _materialization(key: dg.AssetKey, spec: RunSpec, context: dg.AssetExecutionContext) -> dg.AssetMaterialization:
    own = spec.benchmarks[key.path[-1]]
    metadata: dict[str, Any] = {
        "imported by": dg.MetadataValue.dagster_run(context.run.run_id),
        "question_set": own.question_set,
        "n_planned": spec.n_planned(key.path[-1]),
        "judges": ", ".join(own.all_judges),
    }
    return dg.AssetMaterialization(key, partition=spec.run_id, metadata=metadata, description="imported")


def _has(spec: RunSpec, stage: str, benchmark: str) -> bool:
    own = spec.benchmarks.get(benchmark)
    return own is not None and (stage == "answers" or bool(own.imported_judges))


def _metadata(result: ImportResult) -> dict[str, Any]:
    return {
        "tag": result.tag,
        "models read": result.models_read,
        "models already there": result.models_there,
        "runs imported": result.runs.height,
        "megabytes read": result.bytes_read / 1e6,
        "seconds": result.seconds,
    }


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
