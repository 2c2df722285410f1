"""The one partition dimension: the run."""

import dagster as dg

from shaberi_dagster.defs.execution import key_of
from shaberi_dagster.defs.metadata import question_sets_metadata
from shaberi_dagster.runs.spec import RunSpec

RUNS_NAME = "runs"
QUESTIONS = "questions"
runs = dg.DynamicPartitionsDefinition(name=RUNS_NAME)
"""A key is `MODEL@@TAG`, as commands write both; it is registered when a RunSpec is stored."""


def add_partition(spec: RunSpec, instance: dg.DagsterInstance) -> None:
    """Make a run a partition, once, and its question sets known to Dagster."""
    instance.add_dynamic_partitions(RUNS_NAME, [key_of(spec.run_id)])
    last = instance.get_latest_materialization_event(dg.AssetKey(QUESTIONS))
    # Without any the UI warns that the questions are missing.
    if last is None or last.asset_materialization is None:
        sets = {
            name: (own.question_set, own.question_set_sha256, own.n_questions, own.source or "legacy tree")
            for name, own in spec.benchmarks.items()
        }
        made = dg.AssetMaterialization(QUESTIONS, metadata=question_sets_metadata(sets))
        instance.report_runless_asset_event(made)
