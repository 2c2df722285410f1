"""Making stored runs again without any call: outputs parsed again, passes, scores, metrics; many runs in one job."""

import dagster as dg
from pydantic import Field

from shaberi_dagster.defs.execution import STARTED_BY_TAG, canceled_when_interrupted
from shaberi_dagster.defs.jobs import run_in_process
from shaberi_dagster.defs.options import stage_config
from shaberi_dagster.defs.partitions import add_partition
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.runs.planning import add_pipeline
from shaberi_dagster.runs.selection import chosen_runs
from shaberi_dagster.runs.spec import CallOptions
from shaberi_dagster.runs.stages.answers import Answers
from shaberi_dagster.runs.stages.consensus import ConsensusAnswers
from shaberi_dagster.runs.stages.imported import REMADE, add_to_imported, imported_among, reprocess_imported
from shaberi_dagster.runs.stages.ordered import STAGES
from shaberi_dagster.runs.stored import stored_spec
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.util.errors import ConfigurationError

_REPROCESSED = tuple(stage.name for stage in STAGES if stage not in {Answers, ConsensusAnswers})
_NO_CALL = CallOptions(max_tokens_total=0)


class ReprocessConfig(dg.Config):
    """Config of a reprocessing: the runs, and their passes."""

    passes: list[str] = Field(default=[], description="One more pipeline, in order; none: those there are.")
    pass_options: list[str] = Field(default=[], description="Settings of the passes, as NAME.SETTING=VALUE.")
    models: list[str] = Field(default=[], description="Only these models; none means all.")
    tags: list[str] = Field(default=[], description="Only runs with these tags or base tags; none means all.")
    sources: list[str] = Field(default=[], description="Only runs imported from these trees; none means all.")


@dg.op
def reprocess_runs(
    context: dg.OpExecutionContext, config: ReprocessConfig, workspace: WorkspaceResource
) -> dict[str, int]:
    """Make the runs again; imported ones all at once, the others as partitions."""
    with canceled_when_interrupted(context):
        place = workspace.workspace(context.log, _NO_CALL)
        if not (chosen := chosen_runs(place.lake, config.models, config.tags, config.sources)["run_id"].to_list()):
            raise ConfigurationError('no runs match; `shaberi sql "select run_id, status from runs"` lists them')
        imported = imported_among(chosen, place.lake)
    with canceled_when_interrupted(context), place.published_at_the_end():
        if imported and config.passes:
            add_to_imported(imported, config.passes, config.pass_options, place)
        for stage in REMADE if imported else ():
            reprocess_imported(stage, imported, list(ALL_BENCHMARKS), place, again=not config.passes)
        for run_id in (run_id for run_id in chosen if run_id not in imported):
            spec = stored_spec(run_id, place)
            add_partition(spec, context.instance)
            if config.passes:
                add_pipeline(run_id, config.passes, config.pass_options, place)
            names, reexamine = list(spec.benchmarks), not config.passes
            ops = stage_config(_NO_CALL, _REPROCESSED, names, reprocess=True, reexamine=reexamine)
            tags = {STARTED_BY_TAG: context.run_id}
            run_in_process(run_id, ops, instance=context.instance, workspace=place, tags=tags)
    return {"runs": len(chosen), "imported": len(imported)}


@dg.job(
    description="Parse, apply passes and score again, without a call: name runs in Launchpad, click Launch Run.",
)
def reprocess() -> None:
    """Make stored runs again."""
    reprocess_runs()
