"""Links at a real endpoint and on a real lake, of a tree that was imported."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache

import polars as pl
import pytest
from aiohttp import web

from shaberi_dagster.deciding import link as linking
from shaberi_dagster.deciding.link import expected_calls, measure, prepare, read_link, shares
from shaberi_dagster.lake.catalog import open_catalog, write_catalog
from shaberi_dagster.reports.comparison import compare
from shaberi_dagster.reports.ranking import remarks_on
from shaberi_dagster.reports.requests import ComparisonRequest, ScoreSelection
from shaberi_dagster.reports.scores import read_rankings
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError
from tests.commands import lake_of
from tests.deciding.linking import MODELS, SIZES, evaluated, imported, judging_again, request
from tests.example_runs import asked_of
from tests.mock_endpoint import running_mock

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("engine")]
N = 20 * len(MODELS)


@pytest.fixture(scope="module")
def endpoint():
    with running_mock() as running:
        yield running


@pytest.fixture
def mock(endpoint):
    """The endpoint of all tests, which has forgotten what it was asked; links that are copied are of its address."""
    endpoint.bodies.clear()
    endpoint.options.script = None
    return endpoint


@pytest.fixture(scope="module")
def made(tmp_path_factory, endpoint):
    """Makes a lake with an imported tree, and a variant of the prompts; with a script, a link that it answers, too.

    Each is made once: tests change copies.
    """
    prompts = tmp_path_factory.mktemp("variants") / "prompts"
    shutil.copytree(Settings.from_environment().prompts, prompts)
    for name in ("strict", "lenient"):
        variant = prompts / "variants" / name / "judging"
        variant.mkdir(parents=True)
        (variant / "answer_rule.jinja").write_text(f"{name}に採点してください。", encoding="utf-8")

    @cache
    def of(questions=0, **script):
        folder = tmp_path_factory.mktemp("made")
        own = Workspace(replace(Settings.from_environment(lake_of(folder)), prompts=prompts), environment={})
        if questions:
            shutil.copytree(of().settings.warehouse, own.settings.warehouse)
            endpoint.options.script = judging_again(**script)
            linked(request(endpoint, models=MODELS, questions=questions), own)
            endpoint.bodies.clear()
        else:
            imported(own, folder)
        return own

    return of


def copied(own, workspace):
    """The lake in the folder of this test."""
    shutil.copytree(own.settings.warehouse, workspace.settings.warehouse)
    return Workspace(replace(workspace.settings, prompts=own.settings.prompts), environment={})


@pytest.fixture
def tree(made, workspace):
    """A lake with an imported tree."""
    return copied(made(), workspace)


@pytest.fixture
def close(made, workspace, mock):
    """A lake with a link whose scores changed little."""
    mock.options.script = judging_again(share_changed=0.1)
    return copied(made(54, share_changed=0.1), workspace)


@pytest.fixture
def usual(made, workspace, mock):
    """A lake with a link of a part of the answers."""
    mock.options.script = judging_again()
    return copied(made(20), workspace)


@pytest.fixture
def moved(made, workspace, mock):
    """A lake with a link whose scores rose."""
    mock.options.script = judging_again(offset=0.6)
    return copied(made(20, offset=0.6), workspace)


def linked(asked, workspace):
    link = prepare(asked, workspace)
    measure(link, workspace)
    return rows_of(workspace, link_id=link.link_id)


def rows_of(workspace, **keys):
    """The rows of a link, by benchmark."""
    return {row["benchmark"]: row for row in workspace.lake.read("links", keys).iter_rows(named=True)}


def test_a_judge_that_repeats_itself_is_linked(close):
    rows = rows_of(close)

    assert list(rows) == ["rakuda", "tengu", "overall"]
    overall = rows["overall"]
    assert overall["granted"]
    assert overall["reason"] is None
    assert overall["lower"] < 0 < overall["upper"] < 0.2
    assert overall["n_answers"] == overall["n_scored"] == 54 * len(MODELS)
    assert (overall["judge"], overall["linked_judge"], overall["source"]) == ("judge-a", "judge-a+strict", "shisa")
    assert rows["tengu"]["judge_prompt_hash"] != rows["rakuda"]["judge_prompt_hash"]


def test_a_judge_whose_scores_moved_is_not_linked_and_it_says_why(moved):
    overall = rows_of(moved)["overall"]

    assert not overall["granted"]
    assert overall["lower"] < 0.6 < overall["upper"]
    assert "whatever the sample" in overall["reason"]


@pytest.mark.long
def test_a_sample_that_is_too_small_says_what_would_be_enough(mock, tree):
    mock.options.script = judging_again(share_changed=0.6)

    overall = linked(request(mock, models=MODELS[:5], questions=10), tree)["overall"]

    assert not overall["granted"]
    assert "answers of each model" in overall["reason"]


@pytest.mark.long
def test_nothing_is_paid_for_twice_and_a_larger_sample_pays_for_the_rest(mock, tree):
    mock.options.script = judging_again()
    asked, before = request(mock, models=MODELS), mock.stats()["requests"]
    small = prepare(asked, tree)

    plan = expected_calls(small, tree, datetime.now(UTC))
    assert sum(estimate.calls for estimate in plan) == N
    assert mock.stats()["requests"] == before

    measure(small, tree)
    measure(prepare(asked, tree), tree)
    assert asked_of(mock, "judge-a") == N

    large = prepare(asked.model_copy(update={"questions": 30}), tree)
    assert sum(estimate.calls for estimate in expected_calls(large, tree, datetime.now(UTC))) == N // 2
    measure(large, tree)
    assert asked_of(mock, "judge-a") == N * 3 // 2


@pytest.mark.long
def test_the_sample_is_random_stratified_and_has_its_probabilities(mock, usual):
    link = prepare(request(mock, models=MODELS), usual)

    sample = usual.lake.read("link_answers", {"link_id": link.link_id})

    counts = sample.group_by("model", "benchmark", "inclusion_probability").len()
    assert counts["len"].to_list() == [10] * 2 * len(MODELS)
    assert set(counts.select("benchmark", "inclusion_probability").rows()) == {
        (name, 10 / size) for name, size in SIZES.items()
    }
    assert sample["question_id"].n_unique() > 20, "each model has questions of its own"
    assert prepare(request(mock, models=MODELS), usual).link_id == link.link_id
    assert prepare(request(mock, models=MODELS, seed=1), usual).link_id != link.link_id
    assert not sample.filter(pl.col("new").is_null()).height


def test_what_was_judged_anew_is_in_no_leaderboard(usual):
    write_catalog(usual.lake)
    with open_catalog(usual.settings.warehouse) as catalog:
        assert catalog.sql("select distinct judge from leaderboard").fetchall() == [("judge-a",)]
        statuses = catalog.sql("select distinct status from runs where run_tag like 'link-%'").fetchall()
        assert statuses == [("decision",)]


@pytest.mark.long
def test_scores_that_were_imported_twice_are_the_judges_own_rounds(mock, tree, tmp_path):
    mock.options.script = judging_again(share_changed=0.1)
    imported(tree, tmp_path, rising=range(6))

    link = prepare(request(mock, models=MODELS), tree)
    measure(link, tree)

    rows = {row["benchmark"]: row for row in read_link(link.link_id, tree.lake)}
    assert link.spreads == pytest.approx({"rakuda": 0.5, "tengu": 0.2**0.5})
    assert rows["tengu"]["n_repeated"] == SIZES["tengu"] * len(MODELS)
    assert rows["tengu"]["repeat_share_equal"] == pytest.approx(0.8)
    assert rows["tengu"]["repeat_spread"] == pytest.approx(0.2**0.5)


def test_prompts_of_another_generation_are_refused_before_anything_is_paid_for(mock, tree, tmp_path, monkeypatch):
    imported(tree, tmp_path, judge="gpt-4.1-2025-04-14", source="fork")
    monkeypatch.setattr(linking, "generation_of", lambda _: "J3")
    before = mock.stats()["requests"]

    with pytest.raises(ConfigurationError, match=r"generation J3, and those .* of J2: no link could be granted"):
        prepare(request(mock, judge="gpt-4.1-2025-04-14", models=MODELS), tree)

    assert mock.stats()["requests"] == before


@pytest.mark.long
def test_two_prompt_sets_have_links_of_their_own(mock, usual):
    linked(request(mock, models=MODELS, preset="lenient"), usual)

    assert asked_of(mock, "judge-a") == N, "none is paid for by the other"
    assert usual.lake.read("links")["linked_judge"].unique().sort().to_list() == ["judge-a+lenient", "judge-a+strict"]


@pytest.mark.long
def test_answers_without_a_new_score_allow_no_link(mock, tree):
    script = judging_again()

    def failing(body, number):
        return web.Response(status=500) if "tengu" in str(body["messages"]) else script(body, number)

    mock.options.script = failing

    rows = linked(request(mock, models=MODELS), tree)

    assert not rows["tengu"]["granted"]
    assert "have no new score" in rows["tengu"]["reason"]
    assert not rows["overall"]["granted"]
    before = asked_of(mock, "judge-a")

    mock.options.script = script
    again = linked(request(mock, models=MODELS), tree)

    assert again["tengu"]["n_scored"] == again["tengu"]["n_answers"]
    assert asked_of(mock, "judge-a") - before == again["tengu"]["n_answers"], "only what had failed is tried again"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"judge": "judge-b"}, "no imported judge 'judge-b'"),
        ({"models": MODELS[:4]}, "5 or more models, and 4 are named"),
        ({"models": ["org__model-z"]}, "no model 'org__model-z'"),
        ({"benchmarks": ["elyza"], "models": MODELS}, "no model"),
    ],
)
def test_what_cannot_be_linked_is_refused_before_anything_is_asked(mock, tree, values, message):
    with pytest.raises(ConfigurationError, match=message):
        prepare(request(mock, **values), tree)


def test_a_judge_of_several_trees_is_linked_to_the_one_that_is_named(mock, tree, tmp_path):
    imported(tree, tmp_path, models=[f"other-{letter}" for letter in "abcde"], source="umiyuki")

    with pytest.raises(ConfigurationError, match="--source: shisa, umiyuki"):
        prepare(request(mock), tree)
    found = prepare(request(mock, source="umiyuki"), tree)
    assert sorted(found.models) == [f"other-{letter}" for letter in "abcde"]


# --- what a link allows ----------------------------------------------------------------------------------------------


def compared(workspace, a, b, **values):
    write_catalog(workspace.lake)
    with open_catalog(workspace.settings.warehouse) as catalog:
        return compare(catalog, ComparisonRequest(a, b, **values))


@pytest.mark.long
def test_a_new_score_compares_with_imported_ones_and_the_interval_has_the_links_uncertainty(mock, close):
    link = rows_of(close)["overall"]
    evaluated("strong-1", close, mock)

    report = compared(close, "strong-1", MODELS[0])

    (section,) = report.sections
    overall = section["rows"][-1]
    assert report.comparable
    assert (section["judges"], overall["verdict"]) == (["judge-a"], "better")
    assert overall["difference"] == pytest.approx(overall["mean_a"] - overall["mean_b"] - link["score_offset"])
    assert overall["lower"] < overall["difference"] < overall["upper"]
    assert any("linked with judge-a" in warning for warning in report.warnings)
    mirrored = compared(close, MODELS[0], "strong-1").sections[0]["rows"][-1]
    assert mirrored["difference"] == pytest.approx(-overall["difference"])
    assert mirrored["verdict"] == "worse"


@pytest.mark.long
def test_without_a_granted_link_there_is_no_verdict_and_it_says_why(mock, tree):
    mock.options.script = judging_again(offset=0.6)
    evaluated("strong-1", tree, mock)
    with pytest.raises(
        ConfigurationError, match="`shaberi link` measures whether scores of judge-a with other prompts compare"
    ):
        compared(tree, "strong-1", MODELS[0])

    linked(request(mock, models=MODELS), tree)
    report = compared(tree, "strong-1", MODELS[0])

    assert not report.comparable
    assert "is not linked with judge-a: the offset's interval" in report.caveat
    assert {row["verdict"] for row in report.sections[0]["rows"]} == {"withheld"}


@pytest.mark.long
def test_other_prompts_or_settings_than_the_links_do_not_compare(mock, close):
    linked(request(mock, models=MODELS, judge_max_tokens=900, questions=54, preset="lenient"), close)
    evaluated("strong-1", close, mock, prompt="lenient")

    report = compared(close, "strong-1", MODELS[0])

    assert "other prompts or settings than the link's" in report.caveat


def rankings(workspace):
    write_catalog(workspace.lake)
    with open_catalog(workspace.settings.warehouse) as catalog:
        return read_rankings(catalog, ScoreSelection()).rankings


@pytest.mark.long
def test_linked_scores_stand_in_one_leaderboard_with_the_links_uncertainty(mock, tree):
    mock.options.script = judging_again(share_changed=0.1)
    evaluated("strong-1", tree, mock)
    apart = {line["model"]: line for ranking in rankings(tree) for line in ranking["standings"]}
    link = linked(request(mock, models=MODELS, questions=54), tree)["overall"]

    (ranking,) = rankings(tree)

    lines = {line["model"]: line for line in ranking["standings"]}
    assert ranking["judges"] == ["judge-a"]
    assert ranking["standings"][0]["model"] == "strong-1"
    assert lines.keys() == {"strong-1", *MODELS}
    assert lines["strong-1"]["mean"] == apart["strong-1"]["mean"]
    before, now = (line["strong-1"]["estimates"]["overall"].standard_error for line in (apart, lines))
    assert now > before
    assert lines[MODELS[0]]["estimates"] == apart[MODELS[0]]["estimates"]
    tie = lines[MODELS[0]]
    assert tie["against_best"] == "below"
    means = lines[MODELS[0]]["mean"] - lines["strong-1"]["mean"]
    assert tie["difference"] == pytest.approx(means + link["score_offset"])
    assert any("is linked with judge-a" in remark for remark in remarks_on(ranking["standings"]))


@pytest.mark.long
def test_scores_that_are_not_linked_stand_apart(mock, moved):
    evaluated("strong-1", moved, mock)

    assert [len(ranking["standings"]) for ranking in rankings(moved)] == [len(MODELS), 1]


@pytest.mark.unit
def test_shares_are_even_and_what_one_cannot_take_goes_to_the_others():
    assert shares({"a": 100, "b": 100, "c": 10}, 60) == {"a": 25, "b": 25, "c": 10}
    assert shares({"a": 3, "b": 2}, 60) == {"a": 3, "b": 2}
