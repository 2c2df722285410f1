"""Judgements by rules, and by a model where the rules cannot tell."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest

from shaberi_dagster.lake.catalog import connect
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.stages.base import StageResult
from shaberi_dagster.runs.stages.evaluation import materialize
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.tasks.judges import rule
from shaberi_dagster.tasks.judges.rule import read_verdict
from shaberi_dagster.tasks.judges.rules.base import Verdict
from shaberi_dagster.tasks.judges.rules.match import MatchGrader
from shaberi_dagster.util.identity import sha256_text
from tests.commands import lake_of
from tests.ensembles import GRADER, MODEL, ask_ensemble, ensemble_stages, prompt_of, question_in, scripted
from tests.example_runs import asked_of, checks, own_engine, stored_run
from tests.mock_endpoint import MockEndpoint, running_mock, web

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("engine")]

_RULE, _MODEL = "rule:match", f"rule:match+{GRADER}"
_ANSWERS = {
    "1912": "1912",
    "W": "It may or may not be Wolfram.",
    "Mary Shelley": "Percy, but not Mary.",
    "Canberra": "Sydney or Melbourne.",
    "Saturn": "Either the ringed one or another.",
}
"""By reference: the rule can tell only the first."""
_VERDICTS = {"W": "correct", "Mary Shelley": "incorrect", "Canberra": "no_answer", "Saturn": None}
_PER_QUESTION = 3 + 2  # samples, and the strategies single and plurality


def _says(body: dict[str, Any]) -> str:
    return _ANSWERS[question_in(body, "simpleqa").reference]


def _grades(body: dict[str, Any]) -> str:
    verdict = _VERDICTS[question_in(body, "simpleqa").reference]
    said = orjson.dumps({"extracted": "what it says", "verdict": verdict}).decode()
    return f"Here it is.\n```json\n{said}\n```" if verdict else said[:-9]


_SCRIPT = scripted(mock_model=_says, grader=_grades)


@pytest.fixture
def mock() -> Iterator[MockEndpoint]:
    with running_mock(script=_SCRIPT) as running:
        yield running


def _graded(workspace: Workspace, mock: MockEndpoint, **values: Any) -> tuple[RunSpec, StageResult]:
    """A run of two samples and plurality, after its judgements."""
    defaults = {"benchmarks": ["simpleqa"], "samples": 2, "strategies": ["plurality"], "sample": None}
    spec = stored_run(workspace, ask_ensemble(mock, **defaults | {"grader_model": GRADER} | values))
    return spec, ensemble_stages(spec, workspace, "answers", "consensus", "judgements")["judgements"]


@dataclass(frozen=True)
class _Graded:
    """A run after its judgements, the lake that has it, its endpoint, and what that was asked."""

    spec: RunSpec
    outcome: StageResult
    warehouse: Path
    mock: MockEndpoint
    bodies: list[dict[str, Any]]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Graded]:
    own = Workspace(Settings.from_environment(lake_of(tmp_path_factory.mktemp("kept"))), environment={})
    with running_mock(script=_SCRIPT) as mock:
        with own_engine({}):
            spec, outcome = _graded(own, mock)
        yield _Graded(spec, outcome, own.settings.warehouse, mock, list(mock.bodies))


@pytest.fixture
def graded(kept: _Graded, workspace: Workspace) -> _Graded:
    """The kept run in this test's lake; its endpoint has been asked for nothing else."""
    shutil.copytree(kept.warehouse, workspace.settings.warehouse)
    kept.mock.options.script = _SCRIPT
    kept.mock.bodies.clear()
    kept.mock.bodies.extend(kept.bodies)
    return kept


def _rows(workspace: Workspace) -> pl.DataFrame:
    """The judgements in force, with the reference of their question."""
    questions = workspace.lake.read("questions", {"benchmark": "simpleqa"}, ["question_id", "reference"])
    return workspace.lake.read("judgements").filter(~pl.col("superseded")).join(questions, on="question_id")


def _found(workspace: Workspace, judge: str) -> dict[str, set[tuple[Any, ...]]]:
    columns = ("status", "error_class", "score", "score_source")
    rows = _rows(workspace).filter(judge=judge)
    return {str(reference): set(part.select(columns).rows()) for (reference,), part in rows.group_by("reference")}


def test_the_rule_is_one_judge_and_with_a_model_where_it_cannot_tell_another(
    workspace: Workspace, graded: _Graded
) -> None:
    mock, outcome = graded.mock, graded.outcome
    abstained = {("excluded", "abstained", None, None)}
    right_by_rule = {("ok", None, 1.0, "rule")}
    stored = set(_rows(workspace).filter(reference="1912", judge=_RULE)["judge_output"])
    assert stored == {"whole_reply [0:4]: 1912"}
    assert _found(workspace, _RULE) == {"1912": right_by_rule} | dict.fromkeys(_VERDICTS, abstained)
    assert _found(workspace, _MODEL) == {
        "1912": right_by_rule,
        "W": {("ok", None, 1.0, "model")},
        "Mary Shelley": {("ok", None, 0.0, "model")},
        "Canberra": abstained,
        "Saturn": {("error", "no_score", None, None)},
    }
    # Equal answers are one request, whoever gave them.
    assert asked_of(mock, GRADER) == outcome.facts["calls_made"] == 4
    assert outcome.facts["rows"] == outcome.facts["planned"] == 5 * _PER_QUESTION * 2
    assert outcome.facts["mean_score"] == pytest.approx(15 / 20)
    assert checks(outcome) == {"complete": True, "few_failures": False, "within_scale": True, "fresh": True}


@pytest.mark.usefixtures("graded")
def test_a_verdict_of_the_model_says_where_it_comes_from(workspace: Workspace) -> None:
    row = _rows(workspace).filter(judge=_MODEL, reference="W").row(0, named=True)
    assert row["extracted"] == "what it says"
    assert row["judge_output"].endswith('"correct"}\n```')
    call = workspace.lake.read("calls", {"request_hash": row["request_hash"]}).row(0, named=True)
    assert (call["stage"], call["purpose"], call["model"]) == ("judgements", "grade", GRADER)
    assert (row["judge_prompt_tokens"], row["finish_reason"]) == (call["prompt_tokens"], "stop")
    by_rule = _rows(workspace).filter(judge=_MODEL, reference="1912").row(0, named=True)
    assert (by_rule["extracted"], by_rule["request_hash"]) == ("1912", None)
    assert by_rule["judge_output"] == "whole_reply [0:4]: 1912"
    assert row["judge_prompt_hash"] == by_rule["judge_prompt_hash"] is not None
    assert row["judge_config_hash"] != _rows(workspace).filter(judge=_RULE)["judge_config_hash"][0]


def test_an_output_without_a_verdict_is_asked_for_again_and_the_rest_stands(
    workspace: Workspace, graded: _Graded
) -> None:
    spec, mock = graded.spec, graded.mock
    mock.options.script = scripted(mock_model=_says, grader='{"extracted": "Saturn", "verdict": "correct"}')
    outcome = ensemble_stages(spec, workspace, "judgements")["judgements"]
    assert asked_of(mock, GRADER) == 5
    assert _found(workspace, _MODEL)["Saturn"] == {("ok", None, 1.0, "model")}
    assert _found(workspace, _MODEL)["Canberra"] == {("excluded", "abstained", None, None)}
    assert (outcome.facts["failures_by_class"], outcome.facts["superseded_rows"]) == ({"abstained": 25}, 5)
    replaced = workspace.lake.read("judgements").filter("superseded")
    assert replaced.select("status", "error_class").unique().rows() == [("error", "no_score")]
    assert replaced["superseded_at"].null_count() == 0
    versions = workspace.lake.versions()
    ensemble_stages(spec, workspace, "judgements")
    assert (asked_of(mock, GRADER), workspace.lake.versions()) == (5, versions)


@pytest.fixture
def graded_by_version_1(workspace: Workspace, mock: MockEndpoint, monkeypatch: pytest.MonkeyPatch) -> RunSpec:
    """A run whose rule was another: it could not tell 1912, and took Percy for right."""
    with monkeypatch.context() as earlier:
        earlier.setattr(MatchGrader, "version", 1)
        earlier.setattr(
            MatchGrader, "grade", lambda _, answer, __: Verdict("Percy" in answer or None, answer, "earlier")
        )
        mock.options.script = scripted(mock_model=_says, grader='{"extracted": "1912", "verdict": "incorrect"}')
        spec, _ = _graded(workspace, mock)
    rule._graded.cache_clear()
    return spec


def test_what_an_earlier_version_of_a_rule_graded_stands_until_it_is_graded_anew(
    workspace: Workspace, mock: MockEndpoint, graded_by_version_1: RunSpec
) -> None:
    rows, requests, versions = _rows(workspace), mock.stats()["requests"], workspace.lake.versions()
    ensemble_stages(graded_by_version_1, workspace, "consensus", "judgements")
    assert workspace.lake.versions() == versions

    materialize("judgements", graded_by_version_1.run_id, ["simpleqa"], workspace, reprocess=True)

    assert mock.stats()["requests"] == requests
    assert _found(workspace, _RULE)["1912"] == _found(workspace, _MODEL)["1912"] == {("ok", None, 1.0, "rule")}
    assert _found(workspace, _RULE)["Mary Shelley"] == {("excluded", "abstained", None, None)}
    # The rule abstains now and no model was asked then: what there is stands, under the version that made it.
    assert _found(workspace, _MODEL)["Mary Shelley"] == {("ok", None, 1.0, "rule")}
    assert _found(workspace, _MODEL)["W"] == {("ok", None, 0.0, "model")}
    settings = ["judge", "judge_config_hash"]
    of_version_1 = _rows(workspace).join(rows, on=settings, how="semi")
    assert of_version_1.select("judge", "reference").unique().rows() == [(_MODEL, "Mary Shelley")]
    of_today = _rows(workspace).join(rows, on=settings, how="anti")
    assert of_today.select(settings).unique()["judge"].sort().to_list() == [_RULE, _MODEL]
    superseded = workspace.lake.read("judgements").filter("superseded")
    assert superseded.height == rows.height - _PER_QUESTION
    by_rule = _rows(workspace).filter(judge=_MODEL, reference="1912").row(0, named=True)
    assert (by_rule["judge_output"], by_rule["request_hash"], by_rule["judge_prompt_tokens"]) == (
        "whole_reply [0:4]: 1912",
        None,
        None,
    )


def test_the_leaderboard_tells_versions_of_a_rule_apart(
    workspace: Workspace, mock: MockEndpoint, graded_by_version_1: RunSpec
) -> None:
    later, _ = _graded(workspace, mock, tag="later")
    for spec in (graded_by_version_1, later):
        for stage in ("scores", "metrics"):
            materialize(stage, spec.run_id, ["simpleqa"], workspace)
    with connect(workspace.lake) as connection:
        rows = connection.sql(
            f"select distinct run_id, judge_config_hash from leaderboard where judge = '{_RULE}'"
        ).fetchall()
    assert {run_id for run_id, _ in rows} == {graded_by_version_1.run_id, later.run_id}
    assert len({config_hash for _, config_hash in rows}) == len(rows) == 2


def test_another_answer_supersedes_its_judgement(workspace: Workspace, graded: _Graded) -> None:
    spec = graded.spec
    answers = workspace.lake.read("answers")
    question_id = _rows(workspace).filter(reference="1912")["question_id"][0]
    here = (pl.col("question_id") == question_id) & (pl.col("sample_index") == 2)
    text = "I do not know."
    answers = answers.with_columns(
        answer=pl.when(here).then(pl.lit(text)).otherwise("answer"),
        answer_hash=pl.when(here).then(pl.lit(sha256_text(text))).otherwise("answer_hash"),
    )
    workspace.lake.replace("answers", answers, {"run_id": spec.run_id})
    outcome = ensemble_stages(spec, workspace, "judgements")["judgements"]
    assert outcome.facts["superseded_rows"] == 2 + 5, "the two of this answer, and failures that were tried again"
    assert checks(outcome)["fresh"]
    own = workspace.lake.read("judgements").filter(question_id=question_id, sample_index=2, judge=_RULE)
    assert sorted(own.select("superseded", "score").rows()) == [(False, 0.0), (True, 1.0)]
    assert own.filter(superseded=False)["answer_hash"].item() == sha256_text(text)


def test_a_failed_sample_is_a_skipped_judgement_and_an_empty_one_is_excluded(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    mock.options.script = scripted(
        mock_model=" \n", bad=lambda _: web.json_response({"error": {"message": "no"}}, status=400), good=_says
    )
    _graded(workspace, mock, grader_model=None, sample_models=["bad", "good"])
    rows = _rows(workspace).filter(reference="1912")
    found = {
        (strategy, sample): (status, error)
        for strategy, sample, status, error in rows.select(
            "strategy", "sample_index", "status", "error_class"
        ).iter_rows()
    }
    assert found == {
        (None, 0): ("excluded", "empty_answer"),
        (None, 1): ("skipped", "no_answer"),
        (None, 2): ("ok", None),
        ("plurality", 0): ("ok", None),
        ("single", 0): ("excluded", "empty_answer"),
    }


def test_metrics_count_samples_and_answers_of_strategies_each_by_their_own_number(
    workspace: Workspace, graded: _Graded
) -> None:
    spec, mock = graded.spec, graded.mock
    ensemble_stages(spec, workspace, "scores", "metrics")
    columns = ("judge", "null_policy", "score", "score_upper", "n_planned", "n_scored", "n_failed", "n_undecided")
    metrics = workspace.lake.read("metrics").filter(pl.col("null_policy") != "strict")
    for strategy, planned in ((None, 15), ("single", 5), ("plurality", 5)):
        own = metrics.filter(pl.col("strategy").eq_missing(pl.lit(strategy))).sort("judge", "null_policy")
        each = planned // 5
        assert own.select(columns).rows() == [
            (_RULE, "legacy", pytest.approx(1 / 5), 1.0, planned, each, 0, 4 * each),
            (_RULE, "zero", pytest.approx(1 / 5), 1.0, planned, each, 0, 4 * each),
            (_MODEL, "legacy", pytest.approx(2 / 4), pytest.approx(2 / 3), planned, 3 * each, each, each),
            (_MODEL, "zero", pytest.approx(2 / 5), pytest.approx(2 / 4), planned, 3 * each, each, each),
        ]
        assert set(own["n_excluded"]) == {0}
    assert workspace.lake.read("runs")["status"].to_list() == ["partial"]

    mock.options.script = scripted(mock_model=_says, grader='{"extracted": "Saturn", "verdict": "correct"}')
    ensemble_stages(spec, workspace)
    assert workspace.lake.read("runs")["status"].to_list() == ["complete"]


def test_a_server_that_is_not_known_to_take_a_schema_gets_none(graded: _Graded) -> None:
    mock = graded.mock
    assert [body for body in mock.bodies if "response_format" in body] == []
    prompts = [prompt_of(body) for body in mock.bodies if body["model"] == GRADER]
    assert all('"verdict"' in prompt for prompt in prompts)
    (frankenstein,) = (prompt for prompt in prompts if "Frankenstein" in prompt)
    assert "Mary Wollstonecraft Shelley" in frankenstein, "the grader knows what else is right"
    assert asked_of(mock, MODEL) == 15


@pytest.mark.parametrize(
    ("output", "verdict"),
    [
        ('{"extracted": "7", "verdict": "correct"}', ("7", "correct")),
        ('{"verdict": "incorrect"}', (None, "incorrect")),
        ('{"extracted": null, "verdict": "no_answer"}', (None, "no_answer")),
        ('{"extracted": 7, "verdict": "correct"}', ("7", "correct")),
        ('First {"verdict": "correct"} and then {"extracted": "x", "verdict": "correct"}.', ("x", "correct")),
        ('First {"verdict": "correct"} and then {"extracted": "x", "verdict": "no_answer"}.', None),
        ('{"extracted": "7", "verdict": "correct", "verdict": "incorrect"}', None),
        ('{"extracted": "the set {1, 2}", "verdict": "correct"}', ("the set {1, 2}", "correct")),
        ('{"extracted": "\\\\frac{1}{2}", "verdict": "correct"}', ("\\frac{1}{2}", "correct")),
        ('{"extracted": "}", "verdict": "correct"}', ("}", "correct")),
        ('{"extracted": "\\sqrt{2}", "verdict": "correct"}', ("\\sqrt{2}", "correct")),
        ('{"extracted": "two\nlines", "verdict": "correct"} {as asked}', ("two\nlines", "correct")),
        ('{"verdict": "right"}', None),
        ('{"verdict": true}', None),
        ('{"verdict": "correct"', None),
        ("}{", None),
        ("", None),
        ("correct", None),
        ("[]", None),
    ],
)
def test_the_verdict_is_the_last_json_object_of_the_output_if_none_contradicts_it(
    output: str, verdict: tuple[str, str] | None
) -> None:
    reply = read_verdict(output)
    assert (reply and (reply.extracted, reply.verdict)) == verdict


@pytest.mark.parametrize("unit", ["{", "}", '{"verdict":', '{"a":', "[{"])
def test_hostile_output_is_read_in_time_that_grows_with_its_length(unit: str) -> None:
    assert read_verdict(unit * 20_000) is None
