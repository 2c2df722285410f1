"""The asset graph as a committed file: what the UI shows and what is stored in its history changes only in the open.

After a wanted change: `SHABERI_UPDATE_SNAPSHOTS=1 pytest tests/defs/test_assets.py`, and commit the difference.
"""

import json
import os
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from shaberi_dagster.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.definitions import defs
from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.stages.ordered import STAGE_NAMES, stage_named

pytestmark = pytest.mark.unit

_SNAPSHOT = Path(__file__).with_name("asset_graph.json")


def test_the_asset_graph_is_the_committed_one() -> None:
    graph = json.dumps(_graph(), indent=2, ensure_ascii=False) + "\n"
    if os.environ.get("SHABERI_UPDATE_SNAPSHOTS"):
        _SNAPSHOT.write_text(graph, encoding="utf-8")
    assert graph == _SNAPSHOT.read_text(encoding="utf-8"), __doc__


def test_each_benchmark_has_one_asset_a_stage_with_the_checks_of_the_stage() -> None:
    graph = defs.resolve_asset_graph()

    expected = {(stage, name) for name in ALL_BENCHMARKS for stage in STAGE_NAMES}
    for stage, name in expected:
        node = graph.get(dg.AssetKey([stage, name]))
        assert {key.name for key in node.check_keys} == set(stage_named(stage).checks_of(ALL_BENCHMARKS[name]))
        assert len(node.execution_set_asset_keys) == 1, "each benchmark must be selectable by itself"
    own = {tuple(key.path) for key in graph.get_all_asset_keys() if key.path[0] in {"questions", *STAGE_NAMES}}
    assert own == expected | {("questions", name) for name in ALL_BENCHMARKS}


def test_every_asset_describes_its_table_with_all_columns() -> None:
    graph = defs.resolve_asset_graph()

    keys = [(stage, name) for name in ALL_BENCHMARKS for stage in ["questions", *STAGE_NAMES]]
    for stage, benchmark in keys:
        node = graph.get(dg.AssetKey([stage, benchmark]))
        assert ALL_BENCHMARKS[benchmark].title in node.description
        assert node.metadata["dagster/table_name"] == stage
        columns = node.metadata["dagster/column_schema"].columns
        assert [column.name for column in columns] == [column.name for column in TABLES[stage].columns]


def test_runs_are_executed_in_one_process() -> None:
    assert defs.resolve_job_def("evaluate").executor_def is dg.in_process_executor


def _graph() -> dict[str, Any]:
    repository = defs.get_repository_def()
    return {
        "assets": {key.to_user_string(): _asset(key) for key in sorted(repository.asset_graph.get_all_asset_keys())},
        "jobs": {job.name: _job(job) for job in sorted(repository.get_all_jobs(), key=lambda job: job.name)},
        "sensors": {
            sensor.name: {
                "jobs": sorted(target.job_name for target in sensor.targets),
                "default_status": sensor.default_status.value,
                "minimum_interval_seconds": sensor.minimum_interval_seconds,
            }
            for sensor in repository.sensor_defs
        },
        "schedules": {
            schedule.name: {
                "job": schedule.job_name,
                "default_status": schedule.default_status.value,
                "cron_schedule": schedule.cron_schedule,
            }
            for schedule in repository.schedule_defs
        },
        "resources": sorted(repository.get_top_level_resources()),
    }


def _asset(key: dg.AssetKey) -> dict[str, Any]:
    node = defs.resolve_asset_graph().get(key)
    partitions = node.partitions_def
    return {
        "group": node.group_name,
        "deps": sorted(parent.to_user_string() for parent in node.parent_keys),
        "partitions": partitions.name if isinstance(partitions, dg.DynamicPartitionsDefinition) else None,
        "backfill": node.backfill_policy.policy_type.value if node.backfill_policy else None,
        "kinds": sorted(node.kinds),
        "owners": list(node.owners),
        "checks": sorted(check.name for check in node.check_keys),
        "op": node.assets_def.op.name,
        "pools": sorted(node.pools or []),
        "automation": repr(node.automation_condition) if node.automation_condition else None,
    }


def _job(job: dg.JobDefinition) -> dict[str, Any]:
    layer = job.asset_layer
    return {
        "ops": sorted(node.name for node in job.nodes),
        "assets": len(layer.executable_asset_keys) if layer else 0,
        "partitions": job.partitions_def.name
        if isinstance(job.partitions_def, dg.DynamicPartitionsDefinition)
        else None,
    }
