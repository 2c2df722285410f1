"""The content of the code location: every asset, job, schedule and sensor."""

from typing import Any

import dagster as dg

from shaberi_dagster.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.defs.assets import ASSETS
from shaberi_dagster.defs.decisions import DECISION_JOBS, DECISIONS
from shaberi_dagster.defs.execution import execute
from shaberi_dagster.defs.export import EXPORTS
from shaberi_dagster.defs.imports import IMPORTS, import_ensemble_job, import_legacy
from shaberi_dagster.defs.jobs import JOBS, nightly_compaction
from shaberi_dagster.defs.reprocess import reprocess
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.defs.sensors import run_spec_folder

for _problem in ALL_BENCHMARKS.problems():
    dg.get_dagster_logger().warning(str(_problem))  # it stops no other

defs = dg.Definitions(
    assets=[*ASSETS, *EXPORTS, *IMPORTS, *DECISIONS],
    jobs=[*JOBS, *DECISION_JOBS, import_legacy, import_ensemble_job, reprocess],
    schedules=[nightly_compaction],
    sensors=[run_spec_folder],
    resources={"workspace": WorkspaceResource()},
    # One process per step would cost 5 to 19 seconds a run.
    executor=dg.in_process_executor,
)


def run_job(name: str, instance: dg.DagsterInstance, **options: Any) -> dg.ExecuteInProcessResult:
    """Run a job of the definitions in this process.

    Args:
        name: Its name.
        instance: Where Dagster records it.
        options: As for `execute`.
    """
    return execute(defs.resolve_job_def(name), instance, **options)
