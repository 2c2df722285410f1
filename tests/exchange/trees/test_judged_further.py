"""Runs that were imported, judged further here: new judges, judges of the tree again, and later imports."""

import shutil

import polars as pl
import pytest

from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.runs.planning import judged_again, plan_run
from shaberi_dagster.runs.spec import RunRequest
from shaberi_dagster.runs.stages.evaluation import is_up_to_date
from shaberi_dagster.runs.stored import store_run
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError
from tests.commands import lake_of
from tests.commands import run as command
from tests.example_runs import asked_of, materialized, stored_run
from tests.exchange.trees.trees import LegacyTree, rows_of

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("engine", "results_left_out")]

STAGES = ("judgements", "scores", "metrics")
PASSED = ("judgements", "pass_outputs", "scores", "metrics")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A tree of two answers with a judge `a`, whose second score is missing, and a lake into which it is imported."""
    folder = tmp_path_factory.mktemp("kept")
    tree = LegacyTree(folder / "tree")
    tree.answers("elyza", rows_of("elyza", ["一", "二"]))
    tree.judgements("elyza", rows_of("elyza", ["一", "二"], [3, None]), "a")
    workspace = Workspace(Settings.from_environment(lake_of(folder)), environment={})
    import_trees(ImportRequest({"tree": tree.root}), workspace)
    return folder


@pytest.fixture
def tree(kept, tmp_path) -> LegacyTree:
    return LegacyTree(shutil.copytree(kept / "tree", tmp_path / "tree"))


@pytest.fixture
def imported(kept, workspace) -> Workspace:
    shutil.copytree(kept / "warehouse", workspace.settings.warehouse)
    return workspace


def ask(mock, *judges, **values) -> RunRequest:
    settings = {"model": "org__model", "tag": "legacy", "judge_base_url": mock.base_url, "judge_models": list(judges)}
    return RunRequest(**settings | values)


def judgements(workspace, **wanted) -> pl.DataFrame:
    rows = Workspace(workspace.settings, environment={}).lake.read("judgements").filter(**wanted)
    return rows.sort("judge", "question_id", "created_at")


def scores(workspace) -> dict[str, tuple[int, int]]:
    metrics = workspace.lake.read("metrics", {"null_policy": "legacy"})
    return {
        judge: (scored, planned) for judge, scored, planned in metrics.select("judge", "n_scored", "n_planned").rows()
    }


def scored(workspace) -> set[tuple[str, str]]:
    return set(workspace.lake.read("metrics", {"null_policy": "legacy"}).select("judge", "pipeline").iter_rows())


def test_a_new_judge_judges_what_was_imported_and_the_others_stand(imported, mock):
    before = judgements(imported)
    spec = stored_run(imported, ask(mock, "judge-b"))
    materialized(spec, imported, *STAGES)
    assert asked_of(mock, "judge-b") == 2
    assert judgements(imported, judge="a").equals(before)
    assert scores(imported) == {"a": (1, 2), "judge-b": (2, 2)}
    row = imported.lake.read("runs").row(0, named=True)
    assert (row["status"], row["import_tag"], row["source"]) == ("complete", "legacy", "tree")
    assert is_up_to_date(plan_run(ask(mock, "judge-b"), imported), ["elyza"], STAGES, imported) is False  # not exported
    materialized(stored_run(imported, ask(mock, "judge-b")), imported, *STAGES)
    assert asked_of(mock, "judge-b") == 2


def test_a_judge_of_the_tree_gives_only_the_scores_that_are_missing(imported, mock):
    materialized(stored_run(imported, ask(mock, "a")), imported, *STAGES)
    assert asked_of(mock, "a") == 1
    assert scores(imported) == {"a": (2, 2)}
    assert judgements(imported, judge="a", superseded=False)["source_sha256"].is_null().sum() == 1


def test_rejudging_replaces_what_a_judge_of_the_tree_said_and_keeps_it(imported, mock, tree):
    before = plan_run(ask(mock, "a"), imported)
    spec = judged_again(before, ["a"], ["elyza"])
    store_run(spec, imported)
    materialized(spec, imported, *STAGES)
    assert asked_of(mock, "a") == 2
    assert scores(imported) == {"a": (2, 2)}
    assert judgements(imported, superseded=True)["recorded_score"].to_list().count("3") == 1

    tree.judgements("elyza", rows_of("elyza", ["一", "二"], [5, 5]), "c")
    import_trees(ImportRequest({"tree": tree.root}), imported)

    assert judgements(imported, judge="a", superseded=False)["source_sha256"].is_null().all()
    assert scores(imported) == {"a": (2, 2), "c": (2, 2)}
    assert asked_of(mock, "a") == 2
    assert plan_run(ask(mock, "a"), imported).judges == spec.judges


def test_judges_that_were_added_survive_an_import_of_more(imported, mock, tree):
    materialized(stored_run(imported, ask(mock, "judge-b")), imported, *STAGES)
    own = judgements(imported, judge="judge-b")
    tree.judgements("elyza", rows_of("elyza", ["一", "二"], [5, 5]), "c")
    import_trees(ImportRequest({"tree": tree.root}), imported)
    assert judgements(imported, judge="judge-b").equals(own)
    assert scores(imported) == {"a": (1, 2), "judge-b": (2, 2), "c": (2, 2)}
    spec = plan_run(ask(mock, "judge-b"), imported)
    assert spec.benchmarks["elyza"].all_judges == ("a", "c", "judge-b")
    materialized(stored_run(imported, ask(mock, "judge-b")), imported, *STAGES)
    assert asked_of(mock, "judge-b") == 2


def test_passes_of_an_imported_run_lower_all_its_scores_and_outlive_an_import(imported, mock, tree):
    both = ask(mock, "judge-b", passes=["repetition", "lang_mixing"])
    materialized(stored_run(imported, both), imported, *PASSED)
    pipelines = {"baseline", "repetition", "repetition,lang_mixing"}
    assert scored(imported) == {(judge, one) for judge in ("a", "judge-b") for one in pipelines}

    tree.judgements("elyza", rows_of("elyza", ["一", "二"], [5, 5]), "c")
    import_trees(ImportRequest({"tree": tree.root}), imported)

    assert scored(imported) == {(judge, one) for judge in ("a", "c", "judge-b") for one in pipelines}


def test_a_pass_of_an_imported_run_may_ask_a_model_where_the_judges_are(imported, mock):
    mock.options.script = lambda _body, _number: "SAFETY: clear"
    guarded = ask(mock, passes=["safety_check"], pass_options=["safety_check.model=guard"], judge_models=None)
    materialized(stored_run(imported, guarded), imported, *PASSED)
    assert asked_of(mock, "guard") == 2
    materialized(stored_run(imported, guarded), imported, *PASSED)
    assert asked_of(mock, "guard") == 2
    assert scored(imported) == {("a", "baseline"), ("a", "safety_check")}


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"temperature": 0.5}, "so temperature cannot be chosen"),
        ({"limit": 1}, "so limit cannot be chosen"),
        ({"benchmarks": ["tengu"]}, "was imported without tengu: it has elyza"),
        ({"judge_models": None}, "name who is to judge it with --judge-model, or passes with --passes"),
        ({"passes": ["telepathy"]}, "unknown pass 'telepathy'"),
    ],
)
def test_what_is_not_known_of_an_imported_run_cannot_be_chosen(imported, mock, values, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        plan_run(ask(mock, "judge-b", **values), imported)


@pytest.mark.long
@pytest.mark.e2e
@pytest.mark.usefixtures("imported")
def test_run_evals_judges_an_imported_run_and_a_second_time_has_nothing_to_do(mock):
    judged = ("run-evals", "--model", "org__model", "--tag", "legacy", "--judge-model", "judge-b")
    asked = (*judged, "--judge-base-url", mock.base_url)
    planned = command(*asked, "--dry-run")
    assert (planned.code, "2" in planned.out) == (0, True), planned.err
    assert not mock.bodies
    first = command(*asked)
    assert (first.code, asked_of(mock, "judge-b")) == (0, 2), first.err
    second = command(*asked)
    assert (second.code, asked_of(mock, "judge-b")) == (0, 2), second.err
    assert "nothing left to do" in second.err
    again = command(*asked, "--rejudge")
    assert (again.code, asked_of(mock, "judge-b")) == (0, 4), again.err
    shown = command("view-scores", "--tag", "legacy")
    assert "judge-b" in shown.out
