"""Pools: runs of different processes take turns at an endpoint, and nobody waits for the dead."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import dagster as dg
import pytest

from shaberi_dagster.defs import assets, pools
from shaberi_dagster.defs.execution import open_instance
from shaberi_dagster.defs.jobs import Materialization, run_in_process
from shaberi_dagster.defs.pools import pool_name, pools_of, try_claim
from shaberi_dagster.runs.planning import plan_run
from shaberi_dagster.runs.spec import RunRequest, RunSpec
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from tests.commands import Started, started
from tests.mock_endpoint import MockEndpoint, running_mock

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("results_left_out")]

_PATIENCE = 90.0


@pytest.fixture
def instance(request: pytest.FixtureRequest, settings: Settings) -> Iterator[dg.DagsterInstance]:
    """The instance that commands use as well; its parameter is the text of an older `dagster.yaml`."""
    if older := getattr(request, "param", None):
        settings.dagster_home.mkdir()
        (settings.dagster_home / "dagster.yaml").write_text(older, encoding="utf-8")
    with open_instance(settings.dagster_home) as opened:
        yield opened


@pytest.mark.parametrize(
    ("base_url", "name"),
    [
        ("https://api.openai.com/v1", "endpoint_api.openai.com_v1"),
        ("http://localhost:8000/v1", "endpoint_localhost_8000_v1"),
        ("http://[::1]:8000/v1", "endpoint__1_8000_v1"),
        ("http://評価.example/v1", "endpoint_評価.example_v1"),
    ],
)
def test_a_pool_is_named_after_its_endpoint_as_dagster_allows(base_url: str, name: str) -> None:
    assert pool_name(base_url) == name
    assert dg.op(name="some_op", pool=name)(lambda: None).pool == name


def test_a_judge_with_a_prompt_variant_needs_the_pool_of_its_model(workspace: Workspace) -> None:
    asked = RunRequest(model="model", benchmarks=["elyza"], base_url="http://z/v1", judge_models=["gpt-5", "gemini-3"])
    spec = plan_run(asked, workspace)
    variant = spec.judges[0].model_copy(update={"prompt": "strict"})
    settings = spec.benchmarks["elyza"]
    own = {"elyza": settings.model_copy(update={"judges": (*settings.judges, "gpt-5+strict")})}
    wider = spec.model_copy(update={"judges": (*spec.judges, variant), "benchmarks": own})

    assert pools_of("judgements", wider, ["gpt-5+strict"]) == ["endpoint_api.openai.com_v1"]


def test_a_stage_needs_only_the_pools_of_the_endpoints_that_it_calls(workspace: Workspace) -> None:
    request = RunRequest(model="model", base_url="http://z/v1", judge_models=["gpt-5", "gemini-3", "gpt-4"])
    spec = plan_run(request, workspace)
    google, openai = "endpoint_generativelanguage.googleapis.com_v1beta_openai", "endpoint_api.openai.com_v1"

    assert pools_of("answers", spec) == ["endpoint_z_v1"]
    assert pools_of("judgements", spec) == [openai, google]
    assert pools_of("judgements", spec, ["gemini-3"]) == [google]
    assert pools_of("scores", spec) == pools_of("metrics", spec) == []


def test_the_embedded_model_has_no_pool(workspace: Workspace) -> None:
    spec = plan_run(RunRequest(model="embedded/smollm2-135m"), workspace)

    assert pools_of("answers", spec) == pools_of("judgements", spec) == []


@pytest.mark.parametrize("instance", ["telemetry: {enabled: false}\n"], indirect=True)
def test_without_any_limit_nothing_is_claimed(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = registered(benchmarks=["elyza"])
    monkeypatch.setattr(pools, "try_claim", pytest.fail)

    run_in_process(Materialization(spec.run_id, ["elyza"], ["answers"]), instance)

    assert instance.event_log_storage.get_concurrency_keys() == set()
    assert [run.status for run in instance.get_runs()] == [dg.DagsterRunStatus.SUCCESS]


@pytest.mark.parametrize("end", [None, ValueError, KeyboardInterrupt])
def test_a_stage_has_a_slot_of_the_default_limit_while_it_works_however_it_ends(
    end: type[BaseException] | None,
    registered: Callable[..., RunSpec],
    mock: MockEndpoint,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = registered(benchmarks=["elyza"], limit=1)
    pool, storage = pool_name(mock.base_url), instance.event_log_storage
    seen: dict[str, list[str]] = {}

    def materialize(stage: str, *_: object, **__: object) -> list[object]:
        seen[stage] = [slot.step_key for slot in storage.get_concurrency_info(pool).claimed_slots]
        if end and stage == "judgements":
            raise end
        return original(stage, *_)

    original = assets.materialize
    monkeypatch.setattr(assets, "materialize", materialize)

    with pytest.raises(end) if end else contextlib.nullcontext():
        run_in_process(Materialization(spec.run_id, ["elyza"]), instance)

    after = {} if end else {"pass_outputs": [], "scores": [], "metrics": []}
    assert seen == {"answers": ["answers"], "consensus": [], "judgements": ["judgements"]} | after
    (limit,) = storage.get_pool_limits()
    assert (limit.name, limit.limit, limit.from_default) == (pool, 4, True)
    _assert_free(instance, pool)


def test_of_two_that_claim_the_last_slot_at_the_same_moment_one_gets_it(
    settings: Settings, instance: dg.DagsterInstance
) -> None:
    rounds, together = 25, threading.Barrier(2)
    instance.event_log_storage.set_concurrency_slots("pool", 1)

    def claims(name: str) -> list[bool]:
        with open_instance(settings.dagster_home) as own:
            storage, claimed = own.event_log_storage, []
            for number in range(rounds):
                together.wait(_PATIENCE)
                claimed.append(try_claim("pool", name, str(number), own))
                together.wait(_PATIENCE)
                storage.free_concurrency_slot_for_step(name, str(number))
            return claimed

    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(claims, ["one", "other"])

    assert [first + second for first, second in zip(one, other, strict=True)] == [1] * rounds


def test_a_slot_that_was_given_to_nobody_is_taken(instance: dg.DagsterInstance) -> None:
    storage = instance.event_log_storage
    storage.set_concurrency_slots("pool", 1)
    storage.add_pending_step("pool", "run", "step", should_assign=False)

    assert [try_claim("pool", "run", "step", instance) for _ in range(2)] == [False, True]


@pytest.mark.long
def test_runs_of_two_processes_never_overlap_at_an_endpoint_with_one_slot(
    mock: MockEndpoint, instance: dg.DagsterInstance
) -> None:
    mock.options.latency = 0.5  # one question and one judge: a run has one request at a time
    holder = _hold(instance, mock, limit=1)
    with _run_evals(mock, "one") as one, _run_evals(mock, "two") as two:
        for command in (one, two):
            command.wait_until_it_says(f"waiting for a slot of pool {pool_name(mock.base_url)} (1 of 1 taken, by ")
        assert mock.stats()["requests"] == 0

        instance.event_log_storage.free_concurrency_slots_for_run(holder)

        ended = [one.finished().succeeded(), two.finished().succeeded()]
    assert mock.stats()["answered"] == 4
    assert mock.stats()["most_in_flight"] == 1
    assert all(one.err.count("waiting for a slot") <= 2 for one in ended)  # once for each stage that waits
    _assert_free(instance, pool_name(mock.base_url))


@pytest.mark.long
def test_a_raised_limit_lets_a_waiting_run_work_beside_the_other(
    mock: MockEndpoint, instance: dg.DagsterInstance
) -> None:
    mock.options.p_hang = 1.0
    pool = pool_name(mock.base_url)
    instance.event_log_storage.set_concurrency_slots(pool, 1)
    with _run_evals(mock, "one") as one:
        one.wait_until(lambda: mock.stats()["in_flight"] == 1)
        with _run_evals(mock, "two") as two:
            two.wait_until_it_says(f"waiting for a slot of pool {pool} (1 of 1 taken, by Dagster run ")
            assert " of one@@default)" in two.err

            instance.event_log_storage.set_concurrency_slots(pool, 2)

            two.wait_until(lambda: mock.stats()["in_flight"] == 2)
            assert {body["model"] for body in mock.bodies} == {"one", "two"}


@pytest.mark.long
def test_a_run_on_another_endpoint_does_not_wait(mock: MockEndpoint, instance: dg.DagsterInstance) -> None:
    holder = _hold(instance, mock, limit=1)
    with running_mock() as elsewhere, _run_evals(elsewhere, "free") as command:
        assert "waiting" not in command.finished().succeeded().err
    assert instance.event_log_storage.get_concurrency_info(pool_name(mock.base_url)).active_run_ids == {holder}


@pytest.mark.long
@pytest.mark.parametrize("waits_already", [False, True], ids=["the next command", "a command that waits already"])
def test_the_slot_of_a_killed_process_goes_to(
    waits_already: bool, mock: MockEndpoint, instance: dg.DagsterInstance
) -> None:
    mock.options.p_hang = 1.0
    pool = pool_name(mock.base_url)
    instance.event_log_storage.set_concurrency_slots(pool, 1)
    with contextlib.ExitStack() as stack:
        killed = stack.enter_context(_run_evals(mock, "killed"))
        killed.wait_until(lambda: mock.stats()["in_flight"] == 1)
        if waits_already:
            command = stack.enter_context(_run_evals(mock, "next"))
            command.wait_until_it_says("waiting for a slot")
        killed.send(signal.SIGKILL)
        killed.finished()
        assert instance.event_log_storage.get_concurrency_info(pool).active_slot_count == 1
        mock.options.p_hang = 0.0
        if not waits_already:
            command = stack.enter_context(_run_evals(mock, "next"))

        assert ("waiting" in command.finished().succeeded().err) == waits_already
    statuses = {run.tags["dagster/partition"]: run.status for run in instance.get_runs()}
    assert statuses == {
        "killed@@default": dg.DagsterRunStatus.CANCELED,
        "next@@default": dg.DagsterRunStatus.SUCCESS,
    }
    _assert_free(instance, pool)


def test_a_slot_of_a_run_that_has_ended_is_free(
    registered: Callable[..., RunSpec], mock: MockEndpoint, instance: dg.DagsterInstance, monkeypatch
) -> None:
    monkeypatch.setattr(pools, "_POLL_SECONDS", 0.01)
    ended = instance.get_run_by_id(_hold(instance, mock, limit=1))
    instance.report_run_canceled(ended)
    spec = registered(benchmarks=["elyza"])

    run_in_process(Materialization(spec.run_id, ["elyza"], ["answers"]), instance)

    _assert_free(instance, pool_name(mock.base_url))


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_waiting_cancels_the_run_and_leaves_the_queue(
    stop: signal.Signals, mock: MockEndpoint, instance: dg.DagsterInstance
) -> None:
    holder = _hold(instance, mock, limit=1)
    with _run_evals(mock, "stopped") as command:
        command.wait_until_it_says("waiting for a slot")
        command.send(stop)

        stopped = command.finished()
    assert stopped.code == 130
    assert "Traceback" not in stopped.err
    info = instance.event_log_storage.get_concurrency_info(pool_name(mock.base_url))
    assert info.active_run_ids == {holder}
    assert [step.run_id for step in info.pending_steps] == [holder]
    (stopped,) = instance.get_runs(dg.RunsFilter(tags={"dagster/partition": "stopped@@default"}))
    assert stopped.status == dg.DagsterRunStatus.CANCELED
    assert mock.stats()["requests"] == 0


def _run_evals(mock: MockEndpoint, model: str) -> AbstractContextManager[Started]:
    """One question, one judge."""
    arguments = ["--model", model, "--judge-model", "judge", "--benchmark", "elyza", "--limit", "1"]
    return started("run-evals", *arguments, "--base-url", mock.base_url, "--judge-base-url", mock.base_url)


@dg.job
def _some_job() -> None:
    pass


def _hold(instance: dg.DagsterInstance, mock: MockEndpoint, *, limit: int) -> str:
    """Some other run has a slot of the endpoint's pool."""
    pool = pool_name(mock.base_url)
    instance.event_log_storage.set_concurrency_slots(pool, limit)
    run = instance.create_run_for_job(_some_job)
    assert try_claim(pool, run.run_id, "some_op", instance)
    return run.run_id


def _assert_free(instance: dg.DagsterInstance, pool: str) -> None:
    info = instance.event_log_storage.get_concurrency_info(pool)
    assert (info.claimed_slots, info.pending_steps) == ([], [])
