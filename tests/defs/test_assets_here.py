"""What Dagster keeps of a run that a command makes in its own process."""

from collections.abc import Callable

import dagster as dg
import pytest

from shaberi_dagster.defs.jobs import run_in_process
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.workspace import Workspace
from tests.mock_endpoint import MockEndpoint
from tests.stages_alone import ELYZA_OPS

pytestmark = pytest.mark.integration


def test_it_is_of_some_assets_of_the_one_job_and_of_one_partition(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance, workspace: Workspace, mock: MockEndpoint
) -> None:
    spec = registered(benchmarks=["elyza"], limit=1)

    run_in_process(spec.run_id, {"answers": ELYZA_OPS["answers"]}, instance, workspace, {"by": "a test"})

    (run,) = instance.get_runs()
    assert run.status == dg.DagsterRunStatus.SUCCESS
    assert run.asset_selection == {dg.AssetKey("answers")}
    assert run.tags.items() >= {"dagster/partition": spec.run_id, "by": "a test"}.items()
    assert mock.stats()["requests"] == 1
    materializations = instance.fetch_materializations(dg.AssetKey("answers"), limit=5).records
    assert run.run_id in {event.run_id for event in materializations}
