"""Import of legacy trees: one asset writes them into the lake and says so for the partitions of the runs' assets."""

from collections.abc import Sequence
from typing import Any

import dagster as dg
import polars as pl
from pydantic import Field

from shaberi_dagster.benchmarks.registry import BENCHMARKS
from shaberi_dagster.defs.assets import OWNERS
from shaberi_dagster.defs.interrupts import canceled_when_interrupted
from shaberi_dagster.defs.metadata import column_schema, markdown_table
from shaberi_dagster.defs.options import IMPORT, IMPORT_JOB
from shaberi_dagster.defs.partitions import add_partitions
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.legacy.importing import (
    DEFAULT_TAG,
    ImportRequest,
    ImportResult,
    import_trees,
    imported_runs,
    named_trees,
)
from shaberi_dagster.legacy.spec import LegacyRunSpec
from shaberi_dagster.progress import StageProgress
from shaberi_dagster.runs.workspace import Workspace

_CHECKS = {
    "reconciled": "What the files had is what the lake has: lines, rows, repeats and quarantined lines add up.",
    "nothing_quarantined": "Every line of every file could become a row.",
}
_MOST_QUARANTINED_SHOWN = 10


class LegacyImportConfig(dg.Config):
    """What to import."""

    trees: list[str] = Field(description="Folders of legacy trees, as NAME=FOLDER or FOLDER; the first one stands.")
    tag: str = Field(default=DEFAULT_TAG, description="Tag of the runs.")
    models: str = Field(default="*", description="Only models whose file names match: a part of a tree at a time.")
    log_runs: bool = Field(
        default=True, description="Show the runs as materialized partitions of their assets (8 ms for each of them)."
    )


@dg.asset(
    key=IMPORT,
    group_name="legacy",
    kinds={"json", "deltalake"},
    owners=OWNERS,
    check_specs=[dg.AssetCheckSpec(name, asset=IMPORT, description=text) for name, text in _CHECKS.items()],
    metadata={"dagster/table_name": "legacy_files", "dagster/column_schema": column_schema("legacy_files")},
)
def legacy_import(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource, config: LegacyImportConfig
) -> dg.MaterializeResult:  # type: ignore[type-arg]  # with checks, Dagster wants the bare class
    """Trees of the old Shaberi suite as runs of this lake; what is there already is not read again."""
    place = workspace.workspace(context.log)
    request = ImportRequest(named_trees(config.trees), config.tag, config.models)
    with canceled_when_interrupted(context):
        result = import_trees(request, place)
        logged = log_runs(config.tag, result.runs["run_id"], place, context) if config.log_runs else 0
    return dg.MaterializeResult(
        metadata=_metadata(result) | {"partitions logged": logged}, check_results=_checks(result)
    )


import_legacy = dg.define_asset_job(
    IMPORT_JOB,
    selection=dg.AssetSelection.assets(IMPORT),
    description="Import trees of the old Shaberi suite: name their folders in the launchpad.",
)
LEGACY = [legacy_import]


def log_runs(tag: str, anew: Sequence[str] | pl.Series, workspace: Workspace, context: dg.AssetExecutionContext) -> int:
    """Make imported runs partitions, materialized where they have rows.

    Dagster has an event for each partition of each asset and takes 8 ms for it, so those that have one get no other.

    Args:
        tag: The tag of the import.
        anew: The runs that were imported just now.
        workspace: Where the runs are.
        context: Of the import.

    Returns:
        How many events there were to log.
    """
    instance = context.instance
    specs = [LegacyRunSpec.model_validate_json(text) for text in imported_runs(workspace.lake, tag)["spec"]]
    add_partitions({spec.run_id: spec.model_dump() for spec in specs}, instance)
    fresh = set(anew)
    events = []
    for stage in ("answers", "judgements", "scores", "metrics"):
        for name in BENCHMARKS:
            key = dg.AssetKey([stage, name])
            there = instance.get_materialized_partitions(key) - fresh
            events += [(key, spec) for spec in specs if _has(spec, stage, name) and spec.run_id not in there]
    progress = StageProgress("partitions", tag, total=len(events))
    for key, spec in events:
        own = spec.benchmarks[key.path[-1]]
        metadata: dict[str, Any] = {
            "imported by": dg.MetadataValue.dagster_run(context.run.run_id),
            "question_set": own.question_set,
            "n_planned": own.n_planned,
            "judges": ", ".join(own.judges),
        }
        instance.report_runless_asset_event(
            dg.AssetMaterialization(key, partition=spec.run_id, metadata=metadata, description="imported")
        )
        progress.done += 1
        workspace.reporter.changed(progress)
    return len(events)


def _has(spec: LegacyRunSpec, stage: str, benchmark: str) -> bool:
    own = spec.benchmarks.get(benchmark)
    return own is not None and (stage == "answers" or bool(own.judges))


def _metadata(result: ImportResult) -> dict[str, Any]:
    counted = result.reconciliation
    files = counted.files
    shown = counted.quarantine.head(_MOST_QUARANTINED_SHOWN)
    return {
        "dagster/row_count": int(counted.outcomes["rows"].sum()),
        "tag": result.tag,
        "models read": result.models_read,
        "models already there": result.models_there,
        "runs imported": result.runs.height,
        "files": int(files["files"].sum()),
        "lines": int(files["lines"].sum()),
        "quarantined lines": counted.quarantine.height,
        "unreadable files": counted.n_unreadable,
        "megabytes read": result.bytes_read / 1e6,
        "seconds": result.seconds,
        "reconciliation of files": dg.MetadataValue.md(markdown_table(files)),
        "reconciliation by judge and benchmark": dg.MetadataValue.md(markdown_table(counted.cells)),
        "rows by outcome": dg.MetadataValue.md(markdown_table(counted.outcomes)),
        **({"quarantine": dg.MetadataValue.md(markdown_table(shown))} if len(shown) else {}),
    }


def _checks(result: ImportResult) -> list[dg.AssetCheckResult]:
    counted = result.reconciliation
    wrong, left_out = counted.discrepancies(), counted.quarantine.height + counted.n_unreadable
    return [
        dg.AssetCheckResult(
            check_name="reconciled", passed=not wrong, description="; ".join(wrong) or "all sums agree"
        ),
        dg.AssetCheckResult(
            check_name="nothing_quarantined",
            passed=not left_out,
            severity=dg.AssetCheckSeverity.WARN,
            description=f"{counted.quarantine.height:,} lines quarantined, {counted.n_unreadable:,} files unreadable",
        ),
    ]
