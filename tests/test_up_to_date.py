"""`is_up_to_date`: true only where nothing would be called or written, whatever happened to the lake and the results."""

import shutil

import polars as pl
import pytest

from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.planning import plan_run
from shaberi_dagster.runs.stages.evaluation import is_up_to_date, materialize
from shaberi_dagster.runs.stages.ordered import STAGE_NAMES
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.folders import project_folder
from tests.commands import lake_of
from tests.ensembles import ask_ensemble, scripted
from tests.example_runs import ask, own_engine, stored_run
from tests.mock_endpoint import running_mock

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("engine")]


def bring_up_to_date(workspace, request, stages=STAGE_NAMES):
    spec = stored_run(workspace, request)
    for stage in stages:
        materialize(stage, spec.run_id, list(spec.benchmarks), workspace)
    workspace.publish()


def again(workspace, request, stages=STAGE_NAMES):
    """Whether a new process finds the run up to date; it must leave everything as it is."""
    fresh = Workspace(workspace.settings, environment={})
    before = fresh.lake.versions()
    spec = plan_run(request, fresh)
    found = is_up_to_date(spec, list(spec.benchmarks), stages, fresh)
    assert Lake(workspace.settings.warehouse).versions() == before
    assert not fresh.unpublished
    return found


def assert_no_stage_may_be_missing(workspace, request):
    """Make a run stage by stage: it is up to date after the last one, and before none."""
    stored_run(workspace, request)
    for stage in STAGE_NAMES:
        assert not again(workspace, request), stage
        bring_up_to_date(workspace, request, [stage])
    assert again(workspace, request)


@pytest.fixture(scope="module")
def mock():
    """One endpoint, since its address is part of the request."""
    with running_mock() as running:
        yield running


@pytest.fixture(scope="module")
def fulfilled(mock, tmp_path_factory):
    """A request that was fulfilled, and where."""
    folder = tmp_path_factory.mktemp("fulfilled")
    request = ask(mock, judge_models=["judge-a", "judge-b"], passes=["lang_mixing", "repetition"])
    with own_engine({}):
        bring_up_to_date(Workspace(Settings.from_environment(lake_of(folder)), environment={}), request)
    return request, folder


@pytest.fixture
def asked(fulfilled, tmp_path):
    """A request that was fulfilled."""
    request, folder = fulfilled
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return request


def test_a_complete_run_is_up_to_date_and_nobody_is_asked(workspace, mock, asked):
    requests = mock.stats()["requests"]

    assert again(workspace, asked)
    assert again(workspace, asked.model_copy(update={"judge_models": None, "passes": None}))
    assert mock.stats()["requests"] == requests


def test_a_run_that_does_not_exist_is_not(workspace, mock):
    assert not again(workspace, ask(mock))


@pytest.mark.long
def test_a_run_that_was_stopped_before_a_stage_is_not(workspace, mock):
    request = ask(mock, passes=["lang_mixing"])
    assert_no_stage_may_be_missing(workspace, request)


def test_a_run_whose_process_was_killed_before_its_results_were_written_is_not(workspace, mock):
    request = ask(mock)
    spec = stored_run(workspace, request)
    for stage in STAGE_NAMES:
        materialize(stage, spec.run_id, ["tengu"], workspace)

    assert not again(workspace, request)


@pytest.mark.parametrize(
    "change",
    [{"judge_models": ["judge-c"]}, {"benchmarks": ["tengu", "rakuda"]}, {"passes": ["repetition"]}, {"tag": "other"}],
)
def test_a_request_for_more_is_not(workspace, asked, change):
    assert not again(workspace, asked.model_copy(update=change))


@pytest.mark.parametrize("table", ["answers", "judgements", "pass_outputs", "scores", "metrics"])
def test_a_row_that_is_missing_is_to_be_made(workspace, asked, table):
    rows = workspace.lake.read(table)
    workspace.lake.replace(table, rows.head(rows.height - 1), {"run_id": rows["run_id"][0]})

    assert not again(workspace, asked)
    bring_up_to_date(workspace, asked, STAGE_NAMES[STAGE_NAMES.index(table) :])
    assert again(workspace, asked)


@pytest.mark.parametrize("table", ["answers", "judgements", "pass_outputs"])
def test_a_row_that_failed_is_to_be_made_again(workspace, asked, table):
    first = pl.int_range(pl.len()) == 0
    rows = workspace.lake.read(table)
    failed = rows.with_columns(status=pl.when(first).then(pl.lit("error")).otherwise("status"))
    workspace.lake.replace(table, failed, {"run_id": rows["run_id"][0]})

    assert not again(workspace, asked)


@pytest.mark.parametrize(
    ("table", "column"), [("judgements", "answer_hash"), ("pass_outputs", "answer_hash"), ("answers", "request_hash")]
)
def test_a_row_of_something_else_is_to_be_made_again(workspace, asked, table, column):
    first = pl.int_range(pl.len()) == 0
    rows = workspace.lake.read(table)
    stale = rows.with_columns(pl.when(first).then(pl.lit("0" * 64)).otherwise(column).alias(column))
    workspace.lake.replace(table, stale, {"run_id": rows["run_id"][0]})

    assert not again(workspace, asked)


@pytest.mark.parametrize(("table", "column"), [("scores", "score"), ("metrics", "score"), ("judgements", "score")])
def test_a_number_that_does_not_follow_from_the_others_is_derived_again(workspace, asked, table, column):
    rows = workspace.lake.read(table)
    workspace.lake.replace(table, rows.with_columns(pl.col(column) + 1), {"run_id": rows["run_id"][0]})

    assert not again(workspace, asked)
    bring_up_to_date(workspace, asked, ["scores", "metrics"])
    assert again(workspace, asked)


def test_another_judge_prompt_asks_the_judges_again(workspace, asked, tmp_path, monkeypatch):
    folder = tmp_path / "prompts"
    shutil.copytree(project_folder("prompts"), folder)
    for template in (folder / "judging").rglob("*.jinja"):
        template.write_text(template.read_text(encoding="utf-8") + "\n公平に。", encoding="utf-8")
    monkeypatch.setenv("SHABERI_PROMPTS", str(folder))
    changed = Workspace(type(workspace.settings).from_environment(), environment={})

    assert again(workspace, asked)
    assert not again(changed, asked)


@pytest.mark.parametrize("place", [".", "artifacts"])
def test_results_that_are_missing_are_to_be_written(workspace, asked, place):
    shutil.rmtree(workspace.settings.results / "mock-model" / "default" / place)

    assert not again(workspace, asked)
    bring_up_to_date(workspace, asked)
    assert again(workspace, asked)


def test_a_run_that_somebody_works_on_is_not(workspace, asked):
    run_id = workspace.lake.read("runs")["run_id"][0]
    with workspace.journals.open(run_id, "judgements"):
        assert not again(workspace, asked)


@pytest.mark.long
def test_an_ensemble_is_until_something_of_it_is_missing(workspace):
    with running_mock(script=scripted()) as mock:
        request = ask_ensemble(mock, samples=2, strategies=["standard", "plurality"], grader_model="grader")
        assert_no_stage_may_be_missing(workspace, request)
        assert not again(workspace, request.model_copy(update={"strategies": ["majority"]}))
        consensus = workspace.lake.read("consensus")
        workspace.lake.replace("consensus", consensus.head(3), {"run_id": consensus["run_id"][0]})
        assert not again(workspace, request)


def test_of_answers_alone_only_the_answers_count(workspace, mock):
    request = ask(mock)
    bring_up_to_date(workspace, request, ["answers"])

    assert not again(workspace, request, ["answers"])  # its state is not known yet
    bring_up_to_date(workspace, request)
    workspace.lake.replace("judgements", workspace.lake.read("judgements").head(1), {"run_id": "mock-model@@default"})
    assert again(workspace, request, ["answers"])
