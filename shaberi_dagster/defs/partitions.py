"""The one partition dimension: the run."""

from collections.abc import Mapping
from typing import Any

import dagster as dg
import orjson

from shaberi_dagster.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.defs.events import report_materializations
from shaberi_dagster.defs.metadata import question_set_metadata
from shaberi_dagster.defs.pools import add_pools
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.spec import RunSpec

RUNS_NAME = "runs"
runs = dg.DynamicPartitionsDefinition(name=RUNS_NAME)
"""A key is `{model_safe}@@{run_tag}`; it is registered when a RunSpec is stored."""
_NOT_ASKED = "No run asks them yet; they are read when one does."


def add_partition(spec: RunSpec, instance: dg.DagsterInstance) -> None:
    """Make a run a partition, once, its question sets known to Dagster, and the pools of its endpoints."""
    add_partitions({spec.run_id: spec.model_dump()}, instance)
    add_pools(spec, instance)


def add_partitions(specs: Mapping[str, Mapping[str, Any]], instance: dg.DagsterInstance) -> int:
    """Make runs partitions, once, and their question sets known to Dagster: they are in the lake with the runs.

    Args:
        specs: The spec of each run, as plain JSON.
        instance: Where the partitions are.

    Returns:
        How many were none before.
    """
    known = set(instance.get_dynamic_partitions(RUNS_NAME))
    if new := [run_id for run_id in specs if run_id not in known]:
        instance.add_dynamic_partitions(RUNS_NAME, new)
    sets: dict[str, Mapping[str, Any]] = {}
    for spec in specs.values():
        sets = {**spec["benchmarks"], **sets}  # the first run's
    _make_known(sets, instance)
    return len(new)


def _make_known(sets: Mapping[str, Mapping[str, Any]], instance: dg.DagsterInstance) -> None:
    """Give the questions of every benchmark a materialization: without any the UI warns that they are missing.

    Args:
        sets: By benchmark, the question set that a run asks.
        instance: Where the materializations are.
    """
    keys = {name: dg.AssetKey(["questions", name]) for name in (*ALL_BENCHMARKS, *sets)}
    records = [record.asset_entry for record in instance.get_asset_records(list(keys.values()))]
    known = {
        record.asset_key: record.last_materialization.asset_materialization
        for record in records
        if record.last_materialization
    }
    made = []
    for name, key in sorted(keys.items()):
        own, last = sets.get(name), known.get(key)
        if own and (last is None or "sha256" not in last.metadata):
            facts = question_set_metadata(
                own["question_set"], own["question_set_sha256"], own["n_questions"], own.get("source", "legacy tree")
            )
            made.append(dg.AssetMaterialization(key, metadata=facts))
        elif last is None:
            made.append(dg.AssetMaterialization(key, description=_NOT_ASKED))
    report_materializations(instance, made)


def add_missing_partitions(lake: Lake, instance: dg.DagsterInstance) -> int:
    """Make those runs of the lake partitions that the instance lacks, as it does when it is new or another one.

    Returns:
        How many there were.
    """
    known = set(instance.get_dynamic_partitions(RUNS_NAME))
    stored = lake.read("runs", columns=["run_id", "spec"]).sort("run_id")
    missing = {run_id: orjson.loads(spec) for run_id, spec in stored.iter_rows() if run_id not in known}
    return add_partitions(missing, instance) if missing else 0
