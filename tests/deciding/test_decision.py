"""Decisions at a real endpoint and on a real lake."""

import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from shaberi_dagster.deciding.candidates import CandidateScores
from shaberi_dagster.deciding.decision import prepare
from shaberi_dagster.deciding.expected import expected
from shaberi_dagster.deciding.request import DecisionRequest
from shaberi_dagster.lake.catalog import open_catalog, write_catalog
from shaberi_dagster.reports.decision import decision_result, read_decision
from shaberi_dagster.runs.planning import plan_run
from shaberi_dagster.runs.spec import CallOptions, RunRequest
from shaberi_dagster.runs.stages.evaluation import materialize
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError
from tests.commands import lake_of
from tests.deciding.deciding import N_QUESTIONS, decided, judging, one_try, remember, request
from tests.ensembles import prompt_of, truth
from tests.example_runs import asked_of, frozen, own_engine, stored_run
from tests.mock_endpoint import MockEndpoint, running_mock
from tests.sizes import size

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("engine")]


def full_request(asked, model, **values):
    return asked.run_request(model, "default").model_copy(update=values)


def evaluate(asked, model, workspace):
    """The whole evaluation."""
    spec = stored_run(workspace, full_request(asked, model))
    for stage in ("answers", "judgements", "scores", "metrics"):
        materialize(stage, spec.run_id, ["rakuda"], workspace)
    return spec


@dataclass(frozen=True)
class Decided:
    """A decision that was made, its lake, and how often each model was called."""

    asked: DecisionRequest
    row: dict[str, Any]
    curve: pl.DataFrame
    calls: Counter[str]
    warehouse: Path
    mock: MockEndpoint


@pytest.fixture(scope="module")
def clear_pair(tmp_path_factory):
    """A decision between `weak` and `strong`, and its endpoint, which still answers."""
    folder = tmp_path_factory.mktemp("clear_pair")
    own = Workspace(Settings.from_environment(lake_of(folder)), environment={})
    with own_engine({}), running_mock(script=judging({"strong": 3.0})) as mock:
        asked = request(mock, folder, "weak", "strong")
        row, curve = decided(asked, own)
        yield Decided(asked, row, curve, Counter(body["model"] for body in mock.bodies), own.settings.warehouse, mock)


@pytest.fixture
def pair(clear_pair, workspace):
    """The clear pair in this test's lake; its endpoint has forgotten what it was asked."""
    shutil.copytree(clear_pair.warehouse, workspace.settings.warehouse)
    clear_pair.mock.bodies.clear()
    return clear_pair


def test_a_clear_pair_is_decided_with_a_part_of_the_questions(pair):
    row, curve = pair.row, pair.curve
    assert (row["state"], row["best"]) == ("decided", ["strong@@default"])
    assert row["n_asked"] < N_QUESTIONS
    assert pair.calls["weak"] == pair.calls["strong"] == row["n_asked"]
    assert pair.calls.total() == row["calls"] == 4 * row["n_asked"]
    last = curve.row(-1, named=True)
    assert last["verdict"] == "B"
    assert last["upper"] < 0
    assert last["lower"] < -3 < last["upper"] + 2


@pytest.mark.long
def test_equal_models_are_called_equal(mock, workspace, tmp_path):
    mock.options.script = lambda body, _: "FINAL SCORE: 7" if "FINAL SCORE" in str(body) else "text"

    row, curve = decided(request(mock, tmp_path, "one", "other", margin=4.0), workspace)

    assert row["state"] == "decided"
    assert row["best"] == ["one@@default", "other@@default"]
    assert curve["verdict"][-1] == "equal"


def test_what_was_asked_is_in_no_leaderboard_and_its_run_says_that_it_is_a_part(pair, workspace):
    row = pair.row
    assert row["run_ids"] == ["weak@@decide-default", "strong@@decide-default"]
    assert all(
        materialize(stage, run_id, ["rakuda"], workspace) == []
        for run_id in row["run_ids"]
        for stage in ("scores", "metrics")
    )
    write_catalog(workspace.lake)
    with open_catalog(workspace.settings.warehouse) as catalog:
        assert catalog.sql("select count(*) from leaderboard").fetchall() == [(0,)]
        assert catalog.sql("select count(*) from judgements").fetchall() == [(2 * row["n_asked"],)]
        assert catalog.sql("select status from runs").fetchall() == [("decision",)] * 2


@pytest.mark.long
def test_a_full_evaluation_pays_only_for_the_rest(pair, workspace):
    evaluate(pair.asked, "weak", workspace)

    assert asked_of(pair.mock, "weak") == asked_of(pair.mock, "judge-a") == N_QUESTIONS - pair.row["n_asked"]
    assert workspace.lake.read("metrics", {"run_id": "weak@@default", "null_policy": "legacy"})[
        "n_scored"
    ].to_list() == [N_QUESTIONS]


def test_a_model_whose_scores_are_there_is_neither_asked_nor_to_be_evaluated_in_full(mock, workspace, tmp_path):
    mock.options.script = judging({"strong": 3.0})
    asked = request(mock, tmp_path, "weak", "strong")
    evaluate(asked, "weak", workspace)
    before = asked_of(mock, "judge-a")

    row, _ = decided(asked, workspace)

    assert row["best"] == ["strong@@default"]
    assert asked_of(mock, "weak") == N_QUESTIONS
    assert asked_of(mock, "judge-a") - before == asked_of(mock, "strong") == row["n_asked"] < N_QUESTIONS
    decision = prepare(asked, workspace)
    rest = CandidateScores(decision.candidates, decision.pool, workspace).unevaluated()
    assert [one.name for one in rest] == ["strong@@default"]


@pytest.mark.long
def test_between_models_that_are_evaluated_nobody_is_asked(mock, workspace, tmp_path):
    mock.options.script = judging({"strong": 0.3})
    asked = request(mock, tmp_path, "weak", "strong")
    for model in ("weak", "strong"):
        evaluate(asked, model, workspace)
    mock.bodies.clear()

    row, curve = decided(asked, workspace)

    assert len(mock.bodies) == 0
    assert (row["best"], row["calls"], curve.height) == (["strong@@default"], 0, 1)


@pytest.mark.long
def test_a_decision_that_was_killed_goes_on_and_pays_nothing_twice(mock, workspace, tmp_path):
    mock.options.script = judging({"strong": 2.0})
    asked = request(mock, tmp_path, "weak", "strong")

    def killed(found):
        if found[0].n_asked == 16:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        decided(asked, workspace, killed)
    row, curve = decided(asked, workspace)

    assert row["state"] == "decided"
    assert row["n_asked"] > 16
    assert asked_of(mock, "weak") == row["n_asked"]
    assert mock.stats()["repeated"] == 0
    assert curve["n_asked"].to_list() == sorted(set(curve["n_asked"].to_list()))


@pytest.mark.long
def test_the_best_of_several_is_found_by_elimination(mock, workspace, tmp_path):
    mock.options.script = judging({"best": 3.0, "bad": -4.0, "good": 0.0})

    row, curve = decided(request(mock, tmp_path, "bad", "best", "good"), workspace)

    assert (row["state"], row["best"]) == ("decided", ["best@@default"])
    assert asked_of(mock, "bad") < asked_of(mock, "best")
    assert set(curve.filter(pl.col("verdict") != "open")["b"]) <= {"best@@default", "good@@default"}


def test_at_the_limit_of_what_may_be_spent_it_is_undecided(mock, workspace, tmp_path):
    mock.options.script = judging({"strong": 0.1})
    poor = Workspace(workspace.settings, environment={}, options=CallOptions(max_tokens_total=200))

    row, _ = decided(request(mock, tmp_path, "weak", "strong"), poor)

    assert (row["state"], row["best"]) == ("undecided", None)
    assert "budget of 200 tokens" in row["reason"]


def test_where_most_questions_fail_it_is_undecided_at_the_first_look(mock, workspace, tmp_path):
    mock.options.script = lambda body, _: "no score" if "FINAL SCORE" in str(body) else "text"

    row, _ = decided(request(mock, tmp_path, "weak", "strong"), workspace)

    assert (row["state"], row["n_asked"]) == ("undecided", 16)
    assert "only 0 have a score of both" in row["reason"]


@pytest.mark.long
def test_the_history_of_the_judge_is_used_where_it_suffices(mock, workspace, tmp_path):
    mock.options.script = judging({"strong": 3.0})
    remember(workspace)

    row, _ = decided(request(mock, tmp_path, "weak", "strong"), workspace)

    assert (row["boundary"], row["n_history"], row["best"]) == ("history", 79, ["strong@@default"])
    assert row["constant"] > 1
    stored = workspace.lake.read("decision_calibrations")
    assert stored["class"].to_list() == ["p<0.001", "p0.001-0.05", "p>0.05"]
    prepare(request(mock, tmp_path, "weak", "strong"), workspace)
    assert workspace.lake.read("decision_calibrations").height == 3


@pytest.mark.long
def test_a_candidate_outside_of_the_history_is_told_and_bets_decide(mock, workspace, tmp_path):
    mock.options.script = judging({"brilliant": 6.0})
    remember(workspace)

    row, _ = decided(request(mock, tmp_path, "usual", "brilliant"), workspace)

    assert (row["boundary"], row["best"]) == ("history", ["brilliant@@default"])
    assert row["outside"] == ["brilliant@@default: higher scores"]
    with open_catalog(workspace.settings.warehouse) as catalog:
        notes = decision_result(read_decision(catalog, row["decision_id"])).data()["notes"]
    assert notes[0].startswith("Outside of the history: brilliant@@default: higher scores than all 79 past models")


def test_the_error_is_shared_out_over_all_pairs(mock, workspace, tmp_path):
    levels = [
        prepare(request(mock, tmp_path, *"abcd"[:k], error=0.06), workspace).boundary.bets.level for k in (2, 3, 4)
    ]
    assert levels == [0.06, 0.02, 0.01]


@pytest.mark.parametrize("past", [{"judge": "judge-b"}, {"models": 40}])
def test_another_judges_history_or_a_short_one_is_not_used(mock, workspace, tmp_path, past):
    remember(workspace, **past)

    decision = prepare(request(mock, tmp_path, "weak", "strong"), workspace)

    assert decision.boundary.name == "anytime"


def test_between_strategies_the_history_of_models_is_not_used(mock, workspace, tmp_path):
    remember(workspace)

    decision = prepare(
        request(mock, tmp_path, "model", samples=3, strategies=["single", "majority"]),
        workspace,
    )

    assert (decision.boundary.name, decision.n_history) == ("anytime", 0)


@pytest.mark.usefixtures("pair")
def test_an_evaluation_cannot_be_mixed_with_what_decisions_asked(workspace):
    with pytest.raises(ConfigurationError, match="only what `shaberi decide` or `shaberi link` asked"):
        plan_run(RunRequest(model="weak", tag="decide-default"), workspace)


def test_a_plan_asks_nobody_and_changes_nothing(mock, workspace, tmp_path):
    remember(workspace)
    decision = prepare(request(mock, tmp_path, "weak", "strong"), workspace)

    found = expected(decision, workspace, decision.started_at)

    assert [one["pair"] for one in found][-1] == "at most"
    assert [one["n_questions"] for one in found] == sorted(one["n_questions"] for one in found)
    assert found[0]["n_questions"] < N_QUESTIONS
    assert all(one["calls"] == 4 * one["n_questions"] for one in found)
    assert len(mock.bodies) == 0
    assert workspace.lake.read("runs").is_empty()
    assert workspace.lake.read("decisions").is_empty()


def test_one_model_is_no_decision(mock, workspace, tmp_path):
    with pytest.raises(ConfigurationError, match="between two or more"):
        prepare(request(mock, tmp_path, "one"), workspace)


def test_benchmarks_of_unlike_scales_have_no_mean(mock, workspace, tmp_path):
    asked = request(mock, tmp_path, "weak", "strong", benchmarks=["rakuda", "gsm8k"], questions=None)

    with pytest.raises(ConfigurationError, match="unlike scales"):
        prepare(asked, workspace)


def test_only_the_benchmarks_that_are_named_count_although_the_runs_have_more(mock, workspace, tmp_path):
    both = request(mock, tmp_path, "weak", "strong", benchmarks=["rakuda", "gsm8k"], questions=None)
    for model in both.candidates:
        frozen(stored_run(workspace, full_request(both, model)), workspace)

    decision = prepare(both.model_copy(update={"benchmarks": ["rakuda"]}), workspace)

    assert decision.pool.names == ["rakuda"]


def test_the_same_decision_again_asks_nobody(pair, workspace):
    again, _curve = decided(pair.asked, workspace)

    assert len(pair.mock.bodies) == 0
    assert {name: again[name] for name in ("best", "seed", "calls", "started_at")} == {
        name: pair.row[name] for name in ("best", "seed", "calls", "started_at")
    }


def test_a_decision_with_another_candidate_asks_only_what_is_new(pair, workspace, tmp_path):
    other, _ = decided(request(pair.mock, tmp_path, "strong", "third", seed=pair.row["seed"]), workspace)

    new = max(other["n_asked"] - pair.row["n_asked"], 0)
    assert other["state"] == "decided"
    assert (asked_of(pair.mock, "strong"), asked_of(pair.mock, "third")) == (new, other["n_asked"])
    assert asked_of(pair.mock, "judge-a") == new + other["n_asked"]


def test_strategies_are_decided_between_where_a_rule_grades(mock, workspace, tmp_path):
    said = Counter()

    def script(body, _):
        said[prompt_of(body)] += 1
        return "The answer is 0." if said[prompt_of(body)] == 1 else truth(body)  # one of three samples is wrong

    mock.options.script = script
    asked = request(
        mock, tmp_path, "model", benchmarks=["gsm8k"], judge_models=None, questions=None, samples=3,
        strategies=["single", "plurality"],
    )  # fmt: skip

    row, curve = decided(asked, workspace)

    assert row["best"] == ["model@@default plurality"]
    assert (row["judges"], row["margin"]) == (["rule:numeric"], 0.02)
    assert curve["estimate"][-1] < 0
    assert mock.stats()["requests"] == 3 * row["n_asked"]


@pytest.mark.long
@pytest.mark.acceptance
@pytest.mark.parametrize("seed", range(size(1, 5)))
def test_a_model_that_is_half_a_point_better_is_found(tmp_path, seed):
    found = one_try(tmp_path, seed)

    assert found.is_right
    assert found.requests == found.calls == 4 * found.n_asked
    assert found.n_asked < 120
