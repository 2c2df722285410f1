"""An interrupted run is a canceled run, wherever the interrupt arrives."""

from collections.abc import Callable

import dagster as dg
import pytest

from shaberi_dagster.definitions import defs
from shaberi_dagster.defs import assets
from shaberi_dagster.defs.execution import INTERRUPTS, LOCK_TAG, canceled_when_interrupted
from shaberi_dagster.defs.jobs import run_in_process
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.workspace import Workspace
from tests.mock_endpoint import MockEndpoint
from tests.stages_alone import ELYZA_OPS

pytestmark = pytest.mark.integration


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("interrupt", INTERRUPTS)
def test_an_interrupted_op_cancels_its_run(interrupt: type[BaseException], instance: dg.DagsterInstance) -> None:
    @dg.op
    def work(context: dg.OpExecutionContext) -> None:
        with canceled_when_interrupted(context):
            raise interrupt

    @dg.job
    def job() -> None:
        work()

    with pytest.raises(interrupt):
        job.execute_in_process(instance=instance)

    assert [run.status for run in instance.get_runs()] == [dg.DagsterRunStatus.CANCELED]


@pytest.mark.parametrize(
    ("tags", "status"),
    [({}, dg.DagsterRunStatus.STARTED), ({LOCK_TAG: "host"}, dg.DagsterRunStatus.CANCELED)],
    ids=["of a worker", "of a command"],
)
def test_a_run_whose_worker_is_stopped_is_left_to_the_next_one_and_that_of_a_command_is_canceled(
    tags: dict[str, str], status: dg.DagsterRunStatus, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dg.DagsterInstance, "run_will_resume", lambda *_: True)

    @dg.op
    def work(context: dg.OpExecutionContext) -> None:
        with canceled_when_interrupted(context):
            raise KeyboardInterrupt

    @dg.job
    def job() -> None:
        work()

    with pytest.raises(KeyboardInterrupt):
        job.execute_in_process(instance=instance, tags=tags)

    assert [run.status for run in instance.get_runs()] == [status]


def test_an_error_is_a_failure_as_ever(instance: dg.DagsterInstance) -> None:
    @dg.op
    def work(context: dg.OpExecutionContext) -> None:
        with canceled_when_interrupted(context):
            raise ValueError("broken")

    @dg.job
    def job() -> None:
        work()

    with pytest.raises(ValueError, match="broken"):
        job.execute_in_process(instance=instance)

    assert [run.status for run in instance.get_runs()] == [dg.DagsterRunStatus.FAILURE]


@pytest.mark.parametrize("place", ["materialize", "stage_result"], ids=["while it works", "between two events"])
def test_an_interrupt_of_a_run_in_process_cancels_it(
    place: str,
    registered: Callable[..., RunSpec],
    instance: dg.DagsterInstance,
    workspace: Workspace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = registered(benchmarks=["elyza"])
    monkeypatch.setattr(assets, place, _interrupted)

    with pytest.raises(KeyboardInterrupt):
        run_in_process(spec.run_id, ELYZA_OPS, instance, workspace)

    assert [run.status for run in instance.get_runs()] == [dg.DagsterRunStatus.CANCELED]


def test_an_interrupted_new_run_is_canceled_with_the_run_that_it_started(
    instance: dg.DagsterInstance, mock: MockEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assets, "materialize", _interrupted)
    config = {"model": "model", "benchmarks": ["elyza"], "base_url": mock.base_url}
    config |= {"judge_models": ["judge"], "judge_base_url": mock.base_url}

    with pytest.raises(KeyboardInterrupt):
        defs.resolve_job_def("new_run").execute_in_process(
            instance=instance, run_config={"ops": {"evaluate_new_run": {"config": config}}}
        )

    statuses = {run.job_name: run.status for run in instance.get_runs()}
    assert statuses == {"new_run": dg.DagsterRunStatus.CANCELED, "evaluate": dg.DagsterRunStatus.CANCELED}
