"""What the launchpad asks for, and how it reaches the calls."""

from collections.abc import Callable

import dagster as dg
import pytest

from shaberi_dagster.defs.jobs import run_in_process
from shaberi_dagster.defs.options import stage_config
from shaberi_dagster.runs.spec import CallOptions, RunSpec
from shaberi_dagster.runs.workspace import Workspace
from tests.mock_endpoint import MockEndpoint

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("results_left_out")]

_CALLING = ("answers", "judgements")


def test_options_reach_the_engine_and_limit_changes_the_lake(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance, workspace: Workspace, mock: MockEndpoint
) -> None:
    mock.options.latency = 0.05
    spec = registered(benchmarks=["elyza"])
    run_in_process(spec.run_id, stage_config(CallOptions(concurrency=2), _CALLING, ["elyza"]), instance, workspace)
    assert mock.stats()["most_in_flight"] == 2
    assert workspace.lake.read("limit_changes").is_empty()  # a fixed limit does not change

    other = registered(tag="other", benchmarks=["elyza"], temperature=0.5)
    options = CallOptions(max_concurrency=5)
    run_in_process(other.run_id, stage_config(options, _CALLING, ["elyza"]), instance, workspace)
    changes = workspace.lake.read("limit_changes", {"run_id": other.run_id})
    assert changes.select("stage", "base_url", "limit_before", "limit_after", "cause").rows()[0] == (
        "answers",
        mock.base_url,
        0,
        5,
        "start",
    )


def test_stages_of_one_run_share_a_budget_and_the_same_run_goes_on_without_one(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance, workspace: Workspace, mock: MockEndpoint
) -> None:
    spec = registered(benchmarks=["elyza", "tengu"])
    names, options = list(spec.benchmarks), CallOptions(max_tokens_total=1, concurrency=1)
    run_in_process(spec.run_id, stage_config(options, _CALLING, names), instance, workspace)
    answers = workspace.lake.read("answers", {"run_id": spec.run_id})
    assert answers["status"].to_list().count("ok") == mock.stats()["requests"] == 1
    assert set(answers.filter(status="error")["error_class"]) == {"budget"}
    judgements = workspace.lake.read("judgements", {"run_id": spec.run_id})
    assert set(judgements["error_class"]) <= {"budget", "no_answer"}

    run_in_process(spec.run_id, stage_config(CallOptions(), _CALLING, names), instance, Workspace(workspace.settings))
    for table in ("answers", "judgements"):
        assert set(workspace.lake.read(table, {"run_id": spec.run_id})["status"]) == {"ok"}
    assert mock.stats()["repeated"] == 0
