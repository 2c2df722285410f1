"""The export as an asset."""

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from shaberi_dagster.defs.execution import run_in_process
from shaberi_dagster.defs.export import shaberi_v1
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.runspec import RunSpec
from shaberi_dagster.settings import Settings

pytestmark = pytest.mark.integration


def _materialized(instance: dg.DagsterInstance, **config: object) -> dict[str, object]:
    result = dg.materialize(
        [shaberi_v1],
        instance=instance,
        resources={"workspace": WorkspaceResource()},
        run_config={"ops": {"jsonl_export__shaberi_v1": {"config": config}}},
    )
    (event,) = result.get_asset_materialization_events()
    return {name: value.value for name, value in event.materialization.metadata.items()}


def test_the_asset_writes_the_lake_beside_its_tables_and_says_how_much(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance, settings: Settings
) -> None:
    spec = registered(benchmarks=["elyza"])
    run_in_process(spec.run_id, ["elyza"], instance)

    metadata = _materialized(instance)

    folder = settings.warehouse / "_export" / "shaberi-v1"
    assert metadata["folder"] == str(folder)
    assert (metadata["files"], metadata["dagster/row_count"], metadata["not written"]) == (2, 6, 0)
    assert (folder / "data" / "model_answers" / "elyza__ELYZA-tasks-100" / "model.json").is_file()


def test_the_launchpad_chooses_folder_and_runs(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    for tag in ("one", "two"):
        spec = registered(benchmarks=["elyza"], tag=tag)
        run_in_process(spec.run_id, ["elyza"], instance)

    metadata = _materialized(instance, output=str(tmp_path / "tree"), tags=["two"])

    assert (metadata["files"], metadata["files elsewhere"]) == (2, 0)
    assert (tmp_path / "tree" / "export.json").is_file()
