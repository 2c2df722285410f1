"""The lake as files for other tools: a folder for each run, and the tree of the old suite, which has many runs."""

from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
from pydantic import Field

from shaberi_dagster.defs.assets import operation
from shaberi_dagster.defs.execution import run_of
from shaberi_dagster.defs.metadata import markdown_table
from shaberi_dagster.defs.partitions import runs
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.exchange.shaberi_v1 import export
from shaberi_dagster.reports.requests import RunSelection
from shaberi_dagster.runs.results.results_tree import export_runs

_FOLDER = "_export/shaberi-v1"  # in the warehouse, unless the launchpad says otherwise


class ExportConfig(dg.Config):
    """Config of an export: its selection, and its folder."""

    output: str | None = Field(default=None, description=f"Folder to write; none: {_FOLDER} in the warehouse.")
    models: list[str] = Field(default=[], description="Only these models; none means all.")
    tags: list[str] = Field(default=[], description="Only runs with these tags; none means all.")
    sources: list[str] = Field(default=[], description="Only these imported trees; none means all, and other runs.")


@operation(
    ["jsonl_export", "shaberi_v1"],
    deps=["answers", "judgements"],
    group_name="export",
    kinds={"json"},
)
def shaberi_v1(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource, config: ExportConfig
) -> dg.MaterializeResult[None]:
    """Answers and judgements as trees of JSON Lines as the old Shaberi suite had them, for tools that read those."""
    place = workspace.workspace(context.log)
    output = Path(config.output).absolute() if config.output else place.settings.warehouse / _FOLDER
    selection = RunSelection(models=config.models, tags=config.tags, sources=config.sources)
    done = export(place.lake, output, selection, changed=place.reporter.changed)
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": sum(done.rows.values()),
            "folder": dg.MetadataValue.path(done.output),
            "files": sum(done.files.values()),
            "bytes": done.size,
            "files elsewhere": len(done.elsewhere),
            "odd": len(done.oddities),
            "not written": len(done.not_written),
        }
    )


class ResultsConfig(dg.Config):
    """Destination and size of an export."""

    output: str | None = Field(default=None, description="Folder of all runs' results; none: SHABERI_RESULTS.")
    compact: bool = Field(default=False, description="No whole texts in normalized/, but a pointer to them.")


@operation(
    ["jsonl_export", "results"],
    deps=["metrics"],
    partitions_def=runs,
    backfill_policy=dg.BackfillPolicy.single_run(),
    group_name="export",
    kinds={"json"},
)
def results(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource, config: ResultsConfig
) -> dg.MaterializeResult[None]:
    """Manifest, answers, judgements, passes and metrics of a run as JSON and JSON Lines; only what has changed."""
    place = workspace.workspace(context.log)
    folder = Path(config.output).absolute() if config.output else place.settings.results
    done = export_runs(
        place.lake,
        folder,
        run_ids=list(map(run_of, context.partition_keys)),
        compact=config.compact,
        environment=place.environment,
        changed=place.reporter.changed,
    )
    rows = [{"run": run.run_id, "status": run.status, "files": run.files, "written": run.written} for run in done.runs]
    metadata: dict[str, Any] = {
        "folder": dg.MetadataValue.path(done.runs[0].folder if len(done.runs) == 1 else done.folder),
        "status": ", ".join(sorted({run.status for run in done.runs})),
        "files": sum(run.files for run in done.runs),
        "written": sum(run.written for run in done.runs),
        "removed": sum(run.removed for run in done.runs),
        "bytes": sum(run.size for run in done.runs),
        "summaries": len(done.summaries),
        "not exported": len(done.failed),
    }
    if rows:
        metadata["runs"] = dg.MetadataValue.md(markdown_table(pl.DataFrame(rows)))
    for run_id, reason in done.failed.items():
        context.log.warning("run %s was not exported: %s", run_id, reason)
    return dg.MaterializeResult(metadata=metadata)
