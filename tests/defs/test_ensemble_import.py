"""The import of caches as an asset."""

from pathlib import Path

import dagster as dg
import pytest

from shaberi_dagster.defs.imports import ensemble_import
from shaberi_dagster.defs.resources import WorkspaceResource
from tests.exchange.caches import ensemble, response, write

pytestmark = pytest.mark.integration


def _materialized(instance: dg.DagsterInstance, folder: Path) -> dg.ExecuteInProcessResult:
    return dg.materialize(
        [ensemble_import],
        instance=instance,
        resources={"workspace": WorkspaceResource()},
        run_config={"ops": {"ensemble_import": {"config": {"paths": [str(folder)]}}}},
    )


def _checks(result: dg.ExecuteInProcessResult) -> dict[str, bool]:
    return {one.check_name: one.passed for one in result.get_asset_check_evaluations()}


def test_what_is_set_aside_fails_a_check_and_cannot_break_out_of_its_cell(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    folder = tmp_path / "caches"
    write(folder / "cache.json", ensemble({"q-1": [response("a"), response(error=["<b>|x"])]}))
    write(folder / "<i>|y.json", b"{")

    done = _materialized(instance, folder)

    (event,) = done.get_asset_materialization_events()
    assert _checks(done) == {"reconciled": True, "nothing_quarantined": False}
    shown = event.materialization.metadata["quarantine"].value
    assert "<i>" not in shown
    assert shown.count("\n") == 3
