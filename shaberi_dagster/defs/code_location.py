"""The content of the code location: every asset, job, schedule and sensor."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from shaberi_dagster.defs.assets import ASSETS
from shaberi_dagster.defs.decisions import audits, decision_calibrations, decisions, links
from shaberi_dagster.defs.execution import QUIET, recorded_run
from shaberi_dagster.defs.export import results, shaberi_v1
from shaberi_dagster.defs.imports import ensemble_import, legacy_import
from shaberi_dagster.defs.jobs import JOBS, nightly_compaction
from shaberi_dagster.defs.reprocess import reprocess
from shaberi_dagster.defs.resources import WorkspaceResource, working_in
from shaberi_dagster.defs.sensors import lake_runs, run_spec_folder
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS

_OPERATIONS = {
    "decide": (decisions, "Decide between models: click Materialize and name them."),
    "link": (links, "Link imported and new scores of a judge: click Materialize and name it."),
    "audit": (audits, "Audit verdicts of rules: click Materialize, and give their number and the model."),
    "calibrate_decisions": (
        decision_calibrations,
        "Replay past decisions of each judge: click Materialize. Families of models are held out.",
    ),
    "import_legacy": (
        legacy_import,
        "Import trees of the old Shaberi suite: click the arrow beside Materialize, Open launchpad, Add new partition.",
    ),
    "import_ensemble": (
        ensemble_import,
        "Import caches of the ensemble evaluation: click Materialize, and name their files or folders.",
    ),
}
"""Jobs that make one asset, by name: the asset, and what the UI says of the job."""

for _problem in ALL_BENCHMARKS.problems():
    dg.get_dagster_logger().warning(str(_problem))  # it stops no other

defs = dg.Definitions(
    assets=[
        *(*ASSETS, results, shaberi_v1, legacy_import, ensemble_import),
        *(decisions, decision_calibrations, links, audits),
    ],
    jobs=[
        *JOBS,
        *(
            dg.define_asset_job(name, selection=dg.AssetSelection.assets(asset), description=text)
            for name, (asset, text) in _OPERATIONS.items()
        ),
        reprocess,
    ],
    schedules=[nightly_compaction],
    sensors=[run_spec_folder, lake_runs],
    resources={"workspace": WorkspaceResource()},
    # One process per step would cost 5 to 19 seconds a run.
    executor=dg.in_process_executor,
)


def run_operation(
    name: str,
    instance: dg.DagsterInstance,
    config: Mapping[str, Any],
    workspace: Workspace,
    partition_key: str | None = None,
    **tags: str,
) -> dg.ExecuteInProcessResult:
    """Run a job that has one op in this process.

    Args:
        name: Of the job.
        instance: Where Dagster records it.
        config: Of its op.
        workspace: Where to read and write.
        partition_key: Its partition.
        tags: More tags for the Dagster run.
    """
    job = defs.resolve_job_def(name)
    (node,) = job.nodes
    with recorded_run(instance, partition_key, tags) as record, working_in(workspace):
        ops = {node.name: {"config": dict(config)}}
        return job.execute_in_process(run_config=QUIET | {"ops": ops}, **record)
