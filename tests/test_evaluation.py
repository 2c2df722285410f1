import json
from contextlib import nullcontext
from dataclasses import replace

import pytest

from shaberi_dagster.lake.catalog import open_catalog, run_query
from shaberi_dagster.runs.stages.evaluation import check_endpoints, materialize
from shaberi_dagster.runs.stages.ordered import STAGE_NAMES, stage_named
from shaberi_dagster.runs.stored import stored_spec
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.util.errors import ConfigurationError, EndpointError, PartitionBusyError
from tests.ensembles import ask_ensemble, scripted
from tests.example_runs import ask, materialized, stored_run
from tests.mock_endpoint import MockEndpoint, running_mock
from tests.results_tree import assert_valid_tree, problems

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("engine")]


def test_a_run_goes_from_its_spec_to_a_leaderboard_that_sql_shows(workspace: Workspace, mock: MockEndpoint) -> None:
    spec = stored_run(workspace, ask(mock, benchmarks=["all"], judge_models=["judge-a", "judge-b"]))
    for stage in STAGE_NAMES:
        outcomes = materialize(stage, spec.run_id, list(spec.benchmarks), workspace)
        assert [outcome.benchmark for outcome in outcomes] == ["elyza", "tengu", "mt_bench", "rakuda"]
        for outcome in outcomes:
            assert (outcome.run_id, outcome.stage) == (spec.run_id, stage)
            assert {check.name for check in outcome.checks} == set(stage_named(stage).checks)
            # The mock scores 1 to 10, and elyza ends at 5.
            assert {check.name for check in outcome.checks if not check.passed} <= {"within_scale"}
    judgements = workspace.lake.read("judgements")
    with open_catalog(workspace.settings.warehouse) as catalog:
        shown = run_query(catalog, "select benchmark, judge, score, n_planned, n_scored from leaderboard").fetchall()
        assert run_query(catalog, "select status, finished_at is not null from runs").fetchall() == [("complete", True)]
        assert run_query(catalog, "select count(*) from stale").fetchone() == (0,)
        assert run_query(catalog, "select count(*) from orphan").fetchone() == (0,)
    assert len(shown) == 8
    for benchmark, judge, score, planned, scored in shown:
        own = judgements.filter(benchmark=benchmark, judge=judge)["score"]
        assert score == pytest.approx(own.mean() * (2 if benchmark == "elyza" else 1))
        assert planned == scored == len(own)


def test_benchmarks_that_the_run_has_not_are_left_out(workspace: Workspace, mock: MockEndpoint) -> None:
    spec = stored_run(workspace, ask(mock))
    assert materialize("answers", spec.run_id, ["rakuda"], workspace) == []
    assert [each.benchmark for each in materialize("answers", spec.run_id, ["rakuda", "tengu"], workspace)] == ["tengu"]


@pytest.mark.parametrize("stage", STAGE_NAMES)
def test_a_run_that_nobody_registered_is_refused(stage: str, workspace: Workspace) -> None:
    with pytest.raises(ConfigurationError, match="run x@@y has no RunSpec"):
        materialize(stage, "x@@y", ["tengu"], workspace)
    with pytest.raises(ConfigurationError, match="run x@@y has no RunSpec"):
        stored_spec("x@@y", workspace)


def test_an_error_becomes_the_state_of_the_run(
    workspace: Workspace, mock: MockEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = stored_run(workspace, ask(mock))
    for error, status, text in [
        (ConfigurationError("one clear line"), "error", '"error: one clear line"'),
        (ZeroDivisionError("may hold anything"), "error", '"error: ZeroDivisionError"'),
        (KeyboardInterrupt(), "partial", '"partial"'),
    ]:

        def fails(*_: object, error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr("shaberi_dagster.runs.stages.answers.Answers.materialize", fails)
        with pytest.raises(type(error)):
            materialize("answers", spec.run_id, ["tengu"], workspace)
        row = workspace.lake.read("runs").row(0, named=True)
        assert row["status"] == status
        assert text in row["status_by_benchmark"]


def test_a_busy_run_keeps_its_state(workspace: Workspace, mock: MockEndpoint) -> None:
    spec = stored_run(workspace, ask(mock))
    with workspace.journals.open(spec.run_id, "judgements"):
        with pytest.raises(PartitionBusyError):
            materialize("judgements", spec.run_id, ["tengu"], workspace)
        assert workspace.lake.read("runs")["status"].to_list() == ["running"]
        materialize("answers", spec.run_id, ["tengu"], workspace)
    assert workspace.lake.read("answers").height == 5


def test_endpoints_are_checked_before_anything_is_paid(workspace: Workspace) -> None:
    with running_mock(key="secret") as guarded, running_mock() as open_to_all:
        spec = stored_run(workspace, ask(open_to_all, judge_base_url=guarded.base_url))
        check_endpoints(spec, workspace, answers=[*spec.benchmarks], judges=[])
        with pytest.raises(EndpointError, match=guarded.base_url):
            check_endpoints(spec, workspace, answers=[], judges=["judge-a"])
        assert open_to_all.stats()["requests"] == guarded.stats()["requests"] == 0


def _told(workspace: Workspace) -> tuple[str, list[str]]:
    """Status and incomplete parts of the only manifest, which is valid."""
    (path,) = workspace.settings.results.glob("*/*/manifest.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    assert problems("manifest", content) == []
    (benchmark,) = content["benchmarks"].values()
    return content["status"], benchmark["incomplete_parts"]


def test_the_manifest_says_after_every_stage_what_is_missing(workspace: Workspace, mock: MockEndpoint) -> None:
    spec = stored_run(workspace, ask(mock, passes=["lang_mixing", "repetition"]))
    passes = ["passes lang_mixing", "passes repetition"]
    unjudged = ["judgements judge-a", *passes]
    missing = {"answers": unjudged, "consensus": unjudged, "judgements": passes}
    for stage in STAGE_NAMES:
        materialize(stage, spec.run_id, ["tengu"], workspace)
        assert _told(workspace) == ("running", missing.get(stage, []))
    workspace.publish()
    assert _told(workspace) == ("complete", [])
    counts = assert_valid_tree(workspace.settings.results)
    assert (counts["answer"], counts["judgement"], counts["pass"]) == (5, 5, 10)


def test_the_manifest_of_an_ensemble_is_valid_after_every_stage(workspace: Workspace) -> None:
    with running_mock(script=scripted()) as mock:
        spec = stored_run(workspace, ask_ensemble(mock, samples=2, strategies=["standard", "plurality"]))
        for stage in STAGE_NAMES:
            materialize(stage, spec.run_id, ["gsm8k"], workspace)
            missing = ["judgements rule:numeric"] if stage in {"answers", "consensus"} else []
            assert _told(workspace) == ("running", missing)
    workspace.publish()
    counts = assert_valid_tree(workspace.settings.results)
    assert (counts["answer"], counts["consensus"], counts["judgement"]) == (9, 9, 9 + 9)


def test_the_models_of_an_ensemble_and_the_run_itself_are_checked_before_anything_is_paid(workspace: Workspace) -> None:
    with running_mock(key="secret") as guarded, running_mock() as open_to_all:
        for single, refused in (("own", True), ("first", False)):
            asked = ask_ensemble(guarded, tag=single, single=single, strategies=["plurality"])
            spec = stored_run(workspace, asked)
            member = replace(spec.endpoint, base_url=open_to_all.base_url)
            members = (spec.itself.model_copy(update={"endpoint": member}),)
            elsewhere = spec.model_copy(update={"members": members})
            with pytest.raises(EndpointError) if refused else nullcontext():
                check_endpoints(elsewhere, workspace, answers=["gsm8k"], judges=[])


def test_a_run_with_failures_is_partial_and_becomes_complete(workspace: Workspace) -> None:
    with running_mock(p_500=1.0) as mock:
        spec = stored_run(workspace, ask(mock))
        outcomes = materialized(spec, workspace)
        assert outcomes["metrics"].facts["n_failed"] == 5
        assert workspace.lake.read("runs")["status"].to_list() == ["partial"]
        mock.options.p_500 = 0.0
        outcomes = materialized(spec, workspace)
        assert outcomes["metrics"].facts["n_failed"] == 0
    assert workspace.lake.read("runs")["status"].to_list() == ["complete"]


def test_a_key_variable_that_was_named_must_be_set(workspace: Workspace, mock: MockEndpoint) -> None:
    spec = stored_run(workspace, ask(mock, api_key_variable="MY_OWN_KEY"))
    bound = replace(workspace, environment={"SHABERI_KEY_HOSTS": "MY_OWN_KEY=127.0.0.1"})
    with pytest.raises(ConfigurationError, match="set MY_OWN_KEY to the API key for"):
        check_endpoints(spec, bound, answers=[*spec.benchmarks], judges=[])
