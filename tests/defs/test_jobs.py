"""The jobs as the UI and the daemon run them."""

from collections import Counter
from collections.abc import Callable

import dagster as dg
import pytest
from aiohttp import web

from shaberi_dagster.definitions import defs
from shaberi_dagster.defs.jobs import EVALUATE, RunRequestConfig
from shaberi_dagster.defs.partitions import RUNS_NAME
from shaberi_dagster.runs.spec import CallOptions, RunRequest, RunSpec
from shaberi_dagster.runs.stages.ordered import STAGE_NAMES
from shaberi_dagster.runs.workspace import Workspace
from tests.mock_endpoint import MockEndpoint

pytestmark = pytest.mark.integration


def _materialized(result: dg.ExecuteInProcessResult) -> dict[str, dict[str, object]]:
    """Metadata values by stage."""
    return {
        event.asset_key.to_user_string(): {name: value.value for name, value in event.materialization.metadata.items()}
        for event in result.get_asset_materialization_events()
    }


def _config(**stages: object) -> dict[str, object]:
    return {"ops": {stage: {"config": config} for stage, config in stages.items()}}


@pytest.mark.long
def test_evaluate_brings_all_stages_of_a_partition_up_to_date_and_notes_what_is_not_in_the_run(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance, workspace: Workspace, mock: MockEndpoint
) -> None:
    spec = registered(benchmarks=["elyza", "mt_bench"])

    result = defs.resolve_job_def(EVALUATE).execute_in_process(instance=instance, partition_key=spec.run_id)

    assert result.success
    materialized = _materialized(result)
    assert set(materialized) == set(STAGE_NAMES)
    rows = {stage: value["dagster/row_count"] for stage, value in materialized.items() if stage != "metrics"}
    assert rows == {"answers": 6, "consensus": 0, "judgements": 6, "pass_outputs": 0, "scores": 6}
    noted = {stage for stage, value in materialized.items() if "nothing to do" in str(value.get("note"))}
    assert noted == {"consensus", "pass_outputs"}
    assert instance.get_materialized_partitions(dg.AssetKey("consensus")) == {spec.run_id}
    checks = result.get_asset_check_evaluations()
    assert {check.partition for check in checks} == {spec.run_id}
    assert {check.check_name for check in checks if check.passed} >= {"complete", "few_failures", "fresh", "all_scored"}
    (complete,) = (
        check for check in checks if check.asset_key == dg.AssetKey("answers") and check.check_name == "complete"
    )
    assert complete.description == "elyza: 3 of 3 planned rows; mt_bench: 3 of 3 planned rows"
    assert workspace.lake.read("runs", {"run_id": spec.run_id})["status"].to_list() == ["complete"]
    assert len(workspace.lake.read("scores", {"run_id": spec.run_id})) == 3 * len(spec.benchmarks)
    assert mock.stats()["answered"] == 2 * (3 + 3)


def test_one_asset_of_one_benchmark_makes_only_its_own_calls(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance, mock: MockEndpoint
) -> None:
    spec = registered()

    result = defs.resolve_job_def(EVALUATE).execute_in_process(
        instance=instance,
        partition_key=spec.run_id,
        asset_selection=[dg.AssetKey("answers")],
        run_config=_config(answers={"benchmarks": ["rakuda"]}),
    )

    assert list(_materialized(result)) == ["answers"]
    assert mock.stats()["answered"] == 3


def test_judgements_can_be_asked_of_one_judge_from_the_launchpad(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance, mock: MockEndpoint
) -> None:
    spec = registered(benchmarks=["elyza"], judge_models=["strict", "mild"])

    defs.resolve_job_def(EVALUATE).execute_in_process(
        instance=instance,
        partition_key=spec.run_id,
        asset_selection=[dg.AssetKey("answers"), dg.AssetKey("judgements")],
        run_config=_config(judgements={"judges": ["mild"]}),
    )

    assert {body["model"] for body in mock.bodies} == {"model", "mild"}


def test_failed_samples_are_rows_with_a_failing_check_and_stop_nothing(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance, mock: MockEndpoint
) -> None:
    spec = registered(benchmarks=["elyza"])
    refusal = {"error": {"message": "this content is not allowed"}}
    mock.options.script = lambda body, _: web.json_response(refusal, status=400) if body["model"] == "judge" else "はい"

    result = defs.resolve_job_def(EVALUATE).execute_in_process(
        instance=instance,
        partition_key=spec.run_id,
    )

    assert result.success
    failed = {
        (c.asset_key.to_user_string(), c.check_name) for c in result.get_asset_check_evaluations() if not c.passed
    }
    assert failed == {("judgements", "few_failures"), ("metrics", "all_scored")}
    judgements = _materialized(result)["judgements"]
    assert judgements["elyza: failed"] == 3
    assert sum(judgements["elyza: failures_by_class"].values()) == 3


def test_a_backfill_of_two_runs_is_one_dagster_run_with_facts_of_each(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance, workspace: Workspace
) -> None:
    runs = sorted(registered(tag=tag, benchmarks=["elyza"]).run_id for tag in ("first", "second"))
    tags = {"dagster/asset_partition_range_start": runs[0], "dagster/asset_partition_range_end": runs[1]}

    result = defs.resolve_job_def(EVALUATE).execute_in_process(instance=instance, tags=tags)

    assert result.success
    assert len(instance.get_runs()) == 1
    assert workspace.lake.read("runs")["status"].to_list() == ["complete", "complete"]
    answers = [e for e in result.get_asset_materialization_events() if e.asset_key == dg.AssetKey("answers")]
    assert sorted(event.partition for event in answers) == runs
    facts = answers[0].materialization.metadata["facts by run"].value
    assert all(run.partition("@@")[2] in facts for run in runs)


def test_new_run_registers_the_partition_materializes_it_and_publishes_it_once(
    instance: dg.DagsterInstance, workspace: Workspace, mock: MockEndpoint, written: Counter[str]
) -> None:
    config = {
        "model": "fresh",
        "tag": "july",
        "benchmarks": ["elyza", "tengu"],
        "judge_models": ["judge"],
        "base_url": mock.base_url,
        "judge_base_url": mock.base_url,
        "temperature": 0.5,
        "score_rounding": "legacy",
        "limit": 2,
    }

    result = defs.resolve_job_def("new_run").execute_in_process(
        instance=instance, run_config={"ops": {"evaluate_new_run": {"config": config}}}
    )

    assert result.success
    run_id = result.output_for_node("evaluate_new_run")
    assert instance.get_dynamic_partitions(RUNS_NAME) == [run_id]
    assert written == {"catalog": 1, run_id: 1}
    (evaluation,) = instance.get_runs(dg.RunsFilter(job_name=EVALUATE))
    logs = [entry.user_message for entry in instance.all_logs(evaluation.run_id)]
    assert any(line.startswith("answers elyza 2/2") for line in logs), "the progress is in the log of the evaluation"
    assert {body["temperature"] for body in mock.bodies if body["model"] == "fresh"} == {0.5}
    assert workspace.lake.read("metrics", {"run_id": run_id})["benchmark"].unique().sort().to_list() == [
        "elyza",
        "tengu",
    ]
    started = instance.get_runs(dg.RunsFilter(tags={"shaberi/started_by": result.run_id}))
    assert [run.tags["dagster/partition"] for run in started] == [run_id]
    (links,) = (event for event in result.all_events if event.event_type_value == "STEP_OUTPUT")
    metadata = links.step_output_data.metadata
    assert result.run_id in metadata["evaluation"].value
    assert "/assets/metrics?" in metadata["scores"].value


def test_new_run_with_a_wrong_name_fails_with_the_reason_before_anything_is_registered(
    instance: dg.DagsterInstance, mock: MockEndpoint
) -> None:
    config = {"model": "fresh", "benchmarks": ["ghost"], "base_url": mock.base_url}

    with pytest.raises(dg.DagsterInvalidConfigError, match="not in enum type benchmarks got ghost"):
        defs.resolve_job_def("new_run").execute_in_process(
            instance=instance, run_config={"ops": {"evaluate_new_run": {"config": config}}}
        )

    assert instance.get_dynamic_partitions(RUNS_NAME) == []
    assert mock.stats()["requests"] == 0


def test_the_launchpad_takes_what_the_command_line_takes() -> None:
    fields = RunRequestConfig.model_fields

    of_limiter = {"limiter", "max_concurrency"}
    of_files = {"settings"}
    assert set(fields) == (set(RunRequest.model_fields) - of_files) | (set(CallOptions.model_fields) - of_limiter)
    assert all(field.description for field in fields.values())


def test_the_launchpad_of_a_new_run_opens_with_an_example_that_can_be_launched() -> None:
    job = defs.resolve_job_def("new_run")

    example = job.run_config["ops"]["evaluate_new_run"]["config"]

    assert list(example)[:2] == ["model", "base_url"]
    RunRequest.model_validate(example)
    dg.validate_run_config(job, job.run_config)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"temperature": 3}, "temperature: must be less than or equal to 2"),
        ({"tag": "no spaces"}, "run tag 'no spaces' must be 1 to 100 characters"),
        ({"judge_models": ["nobody"]}, "no known endpoint serves model 'nobody'"),
    ],
)
def test_a_wrong_value_of_a_new_run_is_told_in_one_line(
    instance: dg.DagsterInstance, mock: MockEndpoint, wrong: dict[str, object], said: str
) -> None:
    config = {"model": "fresh", "benchmarks": ["elyza"], "judge_models": ["judge"], "base_url": mock.base_url} | wrong

    with pytest.raises(dg.Failure) as failure:
        defs.resolve_job_def("new_run").execute_in_process(
            instance=instance, run_config={"ops": {"evaluate_new_run": {"config": config}}}
        )

    assert said in failure.value.description
    assert "\n" not in failure.value.description
    assert failure.value.__cause__ is None
    assert mock.stats()["requests"] == 0


def test_compact_merges_files_and_keeps_all_rows(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance, workspace: Workspace
) -> None:
    for tag in ("one", "two", "three"):
        registered(tag=tag, benchmarks=["elyza"])
    files = len(workspace.lake.delta("runs").file_uris())
    assert files == 3

    assert defs.resolve_job_def("compact").execute_in_process(instance=instance).success

    assert len(workspace.lake.delta("runs").file_uris()) == 1
    assert sorted(workspace.lake.read("runs")["run_tag"]) == ["one", "three", "two"]
