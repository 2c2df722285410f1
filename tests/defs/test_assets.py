"""The asset graph: an asset for each stage."""

import dagster as dg
import pytest

from shaberi_dagster.definitions import defs
from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.runs.stages.ordered import STAGE_NAMES, stage_named

pytestmark = pytest.mark.unit


def test_each_stage_is_one_asset_with_its_checks_and_all_columns_of_its_table() -> None:
    graph = defs.resolve_asset_graph()
    for stage in ("questions", *STAGE_NAMES):
        node = graph.get(dg.AssetKey(stage))
        assert node.metadata["dagster/table_name"] == stage
        columns = node.metadata["dagster/column_schema"].columns
        assert [column.name for column in columns] == [column.name for column in TABLES[stage].columns]
        if stage in STAGE_NAMES:
            made = stage_named(stage)
            assert {key.name for key in node.check_keys} == {*made.checks, *made.graded_checks}


def test_nothing_depends_on_an_asset_that_is_not_made_here() -> None:
    assert all(node.is_executable for node in defs.resolve_asset_graph().asset_nodes)


def test_runs_are_executed_in_one_process() -> None:
    assert defs.resolve_job_def("evaluate").executor_def is dg.in_process_executor
