"""The lake as files for other tools: assets without partitions, since one tree has many runs."""

from pathlib import Path

import dagster as dg
from pydantic import Field

from shaberi_dagster.benchmarks.registry import BENCHMARKS
from shaberi_dagster.defs.assets import OWNERS
from shaberi_dagster.defs.interrupts import canceled_when_interrupted
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.export.shaberi_v1 import Selection, export

_FOLDER = "_export/shaberi-v1"  # in the warehouse, unless the launchpad says otherwise


class ExportConfig(dg.Config):
    """What to export, and where to."""

    output: str | None = Field(default=None, description=f"Folder to write; none: {_FOLDER} in the warehouse.")
    models: list[str] = Field(default=[], description="Only these models; none means all.")
    tags: list[str] = Field(default=[], description="Only runs with these tags; none means all.")
    sources: list[str] = Field(default=[], description="Only these imported trees; none means all, and other runs.")


@dg.asset(
    key=["jsonl_export", "shaberi_v1"],
    deps=[[stage, name] for stage in ("answers", "judgements") for name in BENCHMARKS],
    group_name="export",
    kinds={"json"},
    owners=OWNERS,
)
def shaberi_v1(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource, config: ExportConfig
) -> dg.MaterializeResult[None]:
    """Answers and judgements as trees of JSON Lines as the old Shaberi suite had them, for tools that read those."""
    place = workspace.workspace(context.log)
    output = Path(config.output).absolute() if config.output else place.settings.warehouse / _FOLDER
    selection = Selection(config.models, config.tags, config.sources)
    with canceled_when_interrupted(context):
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


EXPORTS = [shaberi_v1]
