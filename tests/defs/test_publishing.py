"""A Dagster run publishes once, however it was started and however it ends; what it started is left to the outermost."""

from collections import Counter
from collections.abc import Callable

import dagster as dg
import pytest

from shaberi_dagster.definitions import defs
from shaberi_dagster.defs import assets
from shaberi_dagster.defs.jobs import EVALUATE, run_in_process
from shaberi_dagster.lake.catalog import refresh_catalog
from shaberi_dagster.runs.results.results_tree import is_exported
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.workspace import Workspace
from tests.example_runs import materialized
from tests.mock_endpoint import MockEndpoint
from tests.stages_alone import ELYZA_OPS

pytestmark = pytest.mark.integration

Registered = Callable[..., RunSpec]


def launch(spec: RunSpec, instance: dg.DagsterInstance, *, raise_on_error: bool = True) -> dg.ExecuteInProcessResult:
    """What the UI does with a partition of the job."""
    keys = [dg.AssetKey(stage) for stage in ("answers", "judgements", "scores", "metrics")]
    return defs.resolve_job_def(EVALUATE).execute_in_process(
        instance=instance, partition_key=spec.run_id, asset_selection=keys, raise_on_error=raise_on_error
    )


def test_a_run_that_succeeds_has_its_results_before_and_with_nothing_to_do_writes_no_catalog(
    registered: Registered,
    instance: dg.DagsterInstance,
    workspace: Workspace,
    written: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = registered(benchmarks=["elyza"])
    seen = []

    def watched(lake: object) -> None:
        seen.append(instance.get_runs()[0].status)
        refresh_catalog(lake)  # type: ignore[arg-type]

    monkeypatch.setattr("shaberi_dagster.runs.workspace.refresh_catalog", watched)
    assert launch(spec, instance).success

    assert seen == [dg.DagsterRunStatus.STARTED]
    assert written == {"catalog": 1, spec.run_id: 1}
    assert is_exported(workspace.lake, spec.run_id, workspace.settings.results)

    launch(spec, instance)

    assert written == {"catalog": 1, spec.run_id: 2}


def test_a_run_that_fails(
    registered: Registered,
    instance: dg.DagsterInstance,
    workspace: Workspace,
    mock: MockEndpoint,
    written: Counter[str],
) -> None:
    spec = registered(benchmarks=["elyza"])
    mock.options.key = "another key"

    assert not launch(spec, instance, raise_on_error=False).success

    assert instance.get_runs()[0].status == dg.DagsterRunStatus.FAILURE
    assert written == {"catalog": 1, spec.run_id: 1}
    assert is_exported(workspace.lake, spec.run_id, workspace.settings.results)


def test_a_run_that_is_terminated(
    registered: Registered,
    instance: dg.DagsterInstance,
    workspace: Workspace,
    written: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = registered(benchmarks=["elyza"])

    def terminated(*_: object, **__: object) -> None:
        raise dg.DagsterExecutionInterruptedError

    monkeypatch.setattr("shaberi_dagster.runs.stages.judgements.Judgements.materialize", terminated)
    with pytest.raises(dg.DagsterExecutionInterruptedError):
        launch(spec, instance)

    assert instance.get_runs()[0].status == dg.DagsterRunStatus.CANCELED
    assert written == {"catalog": 1, spec.run_id: 1}
    assert is_exported(workspace.lake, spec.run_id, workspace.settings.results)
    assert workspace.lake.read("answers").height == 3


def test_runs_of_one_command_are_published_by_it(
    registered: Registered, instance: dg.DagsterInstance, workspace: Workspace, written: Counter[str]
) -> None:
    specs = [registered(benchmarks=["elyza"], tag=f"july-run{number}", limit=1) for number in (1, 2)]

    with workspace.published_at_the_end():
        for spec in specs:
            run_in_process(spec.run_id, {"answers": ELYZA_OPS["answers"]}, instance, workspace)
        assert written == {}

    assert written == {"catalog": 1, "summary of model july": 1, **dict.fromkeys((one.run_id for one in specs), 1)}


def test_runs_of_one_reprocess_job_are_published_by_it(
    registered: Registered, instance: dg.DagsterInstance, workspace: Workspace, written: Counter[str]
) -> None:
    specs = [registered(benchmarks=["elyza"], tag=tag, limit=1) for tag in ("one", "two")]
    for spec in specs:
        materialized(spec, workspace, "answers")
    assert written == {}

    config = {"ops": {"reprocess_runs": {"config": {"passes": ["repetition"]}}}}
    assert defs.resolve_job_def("reprocess").execute_in_process(instance=instance, run_config=config).success

    assert written == {"catalog": 1, **dict.fromkeys((one.run_id for one in specs), 1)}


def test_an_asset_that_only_reads_writes_no_catalog_twice(
    registered: Registered, instance: dg.DagsterInstance, written: Counter[str]
) -> None:
    registered(benchmarks=["elyza"])

    assert dg.materialize([assets.questions], instance=instance, resources=dict(defs.resources or {})).success

    assert written["catalog"] <= 1
