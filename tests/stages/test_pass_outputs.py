"""The pass_outputs stage, and the scores that come of it."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest

from shaberi_dagster.llm.request import Endpoint
from shaberi_dagster.runs.planning import add_pipeline
from shaberi_dagster.runs.results.manifest import manifest_of, read_records
from shaberi_dagster.runs.spec import CallOptions, PassSpec, RunSpec
from shaberi_dagster.runs.stages.evaluation import materialize
from shaberi_dagster.runs.stages.ordered import STAGE_NAMES, stage_named
from shaberi_dagster.runs.stored import store_run
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.tasks.passes.base import Answer, Finding
from shaberi_dagster.tasks.passes.lang_mixing import LangMixing
from shaberi_dagster.tasks.passes.repetition import Repetition
from shaberi_dagster.util.identity import sha256_text
from tests.commands import lake_of
from tests.example_runs import ask, asked_of, checks, materialized, own_engine, stored_run
from tests.mock_endpoint import MockEndpoint, Scripted, running_mock, web

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("engine")]

_CLEAN = "日本の首都は東京で、政治と経済の中心です。人口は千四百万人ほどで、世界有数の都市です。"
_LEAK = f"{_CLEAN}东京には大学や博物館も多くあります。"
_PASSED = ("pass_outputs", "scores", "metrics")
_GUARD = ["safety_check.model=guard", "safety_check.severity=0.3"]


def _scripted(
    guard: Callable[[dict[str, Any]], Scripted] | str = "SAFETY: clear", score: int = 7
) -> Callable[[dict[str, Any], int], Scripted]:
    """Every answer leaks; what the guard says may depend on the body."""

    def script(body: dict[str, Any], _: int) -> Scripted:
        if body["model"].startswith("guard"):
            return guard(body) if callable(guard) else guard
        if body["model"] != "mock-model":
            return f"FINAL SCORE: {score}"
        return _LEAK

    return script


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MockEndpoint, Path]]:
    """An endpoint, and a lake with a run of it that is judged, without passes."""
    own = Workspace(Settings.from_environment(lake_of(tmp_path_factory.mktemp("judged"))), environment={})
    with own_engine({}), running_mock(script=_scripted()) as running:
        _run(own, running, *STAGE_NAMES)
        yield running, own.settings.warehouse


@pytest.fixture
def mock(judged: tuple[MockEndpoint, Path], settings: Settings) -> MockEndpoint:
    """The endpoint of a run that is judged, in this test's lake; it has forgotten what it was asked."""
    endpoint, warehouse = judged
    shutil.copytree(warehouse, settings.warehouse)
    endpoint.bodies.clear()
    endpoint.options.script = _scripted()
    return endpoint


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many answers each pass has looked at."""
    counts = {"lang_mixing": 0, "repetition": 0}
    for one in (LangMixing, Repetition):

        def counted(self: Any, answer: Any, *, examine: Any = one.examine) -> Any:
            counts[self.name] += 1
            return examine(self, answer)

        monkeypatch.setattr(one, "examine", counted)
    return counts


def _run(workspace: Workspace, mock: MockEndpoint, *stages: str, **values: Any) -> RunSpec:
    """These stages of a run; if none is named, those that its passes change."""
    spec = stored_run(workspace, ask(mock, **values))
    materialized(spec, workspace, *(stages or _PASSED))
    return spec


def _scores(workspace: Workspace, pipeline: str) -> set[tuple[Any, ...]]:
    rows = workspace.lake.read("scores").filter(pipeline=pipeline)
    return set(rows.select("status", "error_class", "baseline_score", "score").rows())


def _named(workspace: Workspace, table: str = "scores") -> list[str]:
    return workspace.lake.read(table)["pipeline"].unique().sort().to_list()


def test_a_pass_lowers_the_scores_of_its_pipeline_and_says_why(workspace: Workspace, mock: MockEndpoint) -> None:
    spec = _run(workspace, mock, passes=["lang_mixing"], pass_options=["lang_mixing.minimum_severity=0.2"])
    outputs = workspace.lake.read("pass_outputs")
    assert outputs.height == 5
    found = outputs.row(0, named=True)
    assert (found["pass"], found["status"], found["pass_prompt_hash"], found["request_hash"]) == (
        "lang_mixing",
        "ok",
        None,
        None,
    )
    assert orjson.loads(found["pass_config"])["minimum_severity"] == 0.2
    assert orjson.loads(found["details"])["spans"]
    scores = workspace.lake.read("scores", {"pipeline": "lang_mixing"}).join(
        outputs.select("question_id", "severity", "reason"), on="question_id"
    )
    for row in scores.iter_rows(named=True):
        assert row["severity"] >= 0.2
        assert row["score"] == pytest.approx(7 - 10 * row["severity"])
        (delta,) = row["deltas"]
        assert (delta["pass"], delta["reason"]) == ("lang_mixing", row["reason"])
        assert row["baseline_score"] == 7.0
    (metric,) = workspace.lake.read("metrics").filter(pipeline="lang_mixing", null_policy="strict").to_dicts()
    assert metric["score"] == pytest.approx(scores["score"].mean())
    assert (metric["n_planned"], metric["n_scored"], metric["pipeline_hash"]) == (5, 5, scores["pipeline_hash"][0])
    assert workspace.lake.read("runs")["status"].to_list() == ["complete"]
    outcome = materialized(spec, workspace, "pass_outputs")["pass_outputs"]
    assert outcome.facts["found_by_pass"] == {"lang_mixing": 5}
    assert checks(outcome) == dict.fromkeys(stage_named("pass_outputs").checks, True)


def test_a_second_time_nothing_is_examined_and_nothing_is_written(
    workspace: Workspace, mock: MockEndpoint, examined: dict[str, int]
) -> None:
    spec = _run(workspace, mock, passes=["lang_mixing", "repetition"])
    before, versions, requests = dict(examined), workspace.lake.versions(), mock.stats()["requests"]
    assert before == {"lang_mixing": 5, "repetition": 5}
    outcome = materialized(stored_run(workspace, ask(mock)), workspace, *STAGE_NAMES)["pass_outputs"]
    assert (examined, workspace.lake.versions(), mock.stats()["requests"]) == (before, versions, requests)
    assert outcome.facts["already_there"] == outcome.facts["rows"] == 10
    assert spec.passes[0][0].name == "lang_mixing"


def test_findings_are_used_by_every_pipeline_and_order(
    workspace: Workspace, mock: MockEndpoint, examined: dict[str, int]
) -> None:
    _run(workspace, mock, passes=["lang_mixing", "repetition"])
    _run(workspace, mock, passes=["repetition", "lang_mixing"])
    _run(workspace, mock, "judgements", *_PASSED, passes=["repetition"], judge_models=["judge-b"])
    assert examined == {"lang_mixing": 5, "repetition": 5}
    names = ["baseline", "lang_mixing", "lang_mixing,repetition", "repetition", "repetition,lang_mixing"]
    assert _named(workspace) == _named(workspace, "metrics") == names
    counts = workspace.lake.read("scores").group_by("pipeline", "judge").len()["len"]
    assert counts.to_list() == [5] * 10


def test_other_settings_make_only_that_pass_work_again(
    workspace: Workspace, mock: MockEndpoint, examined: dict[str, int]
) -> None:
    both = {"passes": ["lang_mixing", "repetition"]}
    _run(workspace, mock, "pass_outputs", **both)
    before = workspace.lake.read("pass_outputs").filter(pl.col("pass") == "repetition").sort("question_id")
    stages = ("pass_outputs", "scores")
    _run(workspace, mock, *stages, **both, pass_options=["lang_mixing.minimum_severity=0.9"])
    assert examined == {"lang_mixing": 10, "repetition": 5}
    outputs = workspace.lake.read("pass_outputs")
    assert outputs.height == 10
    assert outputs.filter(pl.col("pass") == "repetition").sort("question_id").equals(before)
    assert set(outputs.filter(pl.col("pass") == "lang_mixing")["severity"]) == {0.9}
    assert _scores(workspace, "lang_mixing") == {("ok", None, 7.0, 0.0)}


def test_the_settings_that_were_asked_for_last_count_where_two_pipelines_have_one_name(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    _run(workspace, mock, "pass_outputs", passes=["lang_mixing"])
    _run(workspace, mock, "pass_outputs", passes=["lang_mixing", "repetition"])
    lower = {"passes": ["lang_mixing"], "pass_options": ["lang_mixing.minimum_severity=0.9"]}
    _run(workspace, mock, **lower)
    assert _scores(workspace, "lang_mixing") == {("ok", None, 7.0, 0.0)}
    assert _scores(workspace, "lang_mixing,repetition") != {("ok", None, 7.0, 0.0)}
    versions = workspace.lake.versions()
    _run(workspace, mock, **lower)
    assert workspace.lake.versions() == versions


def test_another_answer_text_is_examined_again(
    workspace: Workspace, mock: MockEndpoint, examined: dict[str, int]
) -> None:
    spec = _run(workspace, mock, "pass_outputs", passes=["lang_mixing"])
    answers = workspace.lake.read("answers").sort("question_id")
    first = pl.int_range(pl.len()) == 0
    answers = answers.with_columns(
        answer=pl.when(first).then(pl.lit(_CLEAN)).otherwise("answer"),
        answer_hash=pl.when(first).then(pl.lit(sha256_text(_CLEAN))).otherwise("answer_hash"),
    )
    workspace.lake.replace("answers", answers, {"run_id": spec.run_id})
    materialized(spec, workspace, "pass_outputs")
    assert examined["lang_mixing"] == 6
    outputs = workspace.lake.read("pass_outputs").sort("question_id")
    assert outputs.select("answer_hash", "severity").row(0) == (sha256_text(_CLEAN), 0.0)
    assert outputs.height == 5


def test_only_answers_with_a_text_are_examined(workspace: Workspace, examined: dict[str, int]) -> None:
    def script(body: dict[str, Any], number: int) -> Scripted:
        if body["model"] != "mock-model":
            return _scripted()(body, number)
        return [web.json_response({"error": {"message": "no"}}, status=400), " \n", _LEAK][min(number, 2)]

    with running_mock(script=script) as mock:
        asked = {"passes": ["lang_mixing", "safety_check"], "pass_options": _GUARD}
        spec = _run(workspace, mock, "answers", "judgements", "pass_outputs", "scores", **asked)
        assert (examined["lang_mixing"], asked_of(mock, "guard")) == (3, 3)
    found = workspace.lake.read("pass_outputs").filter(pl.col("pass") == "lang_mixing")
    assert min(found.select("status", "severity").rows()) == ("ok", 0.0), "an empty answer has no fault"
    assert found.height == 4
    scores = workspace.lake.read("scores").filter(pipeline="lang_mixing,safety_check")
    assert sorted(scores.group_by("status", "error_class").len().rows(), key=str) == [
        ("excluded", "empty_answer", 1),
        ("ok", None, 3),
        ("skipped", "no_answer", 1),
    ]
    assert checks(materialized(spec, workspace, "pass_outputs")["pass_outputs"])["complete"]


def test_a_pass_that_asks_a_model_asks_it_once_for_each_answer_where_the_judges_are(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    mock.options.script = _scripted(guard="Thinking of it.\nSAFETY: flagged fraud")
    _run(workspace, mock, passes=["safety_check"], pass_options=_GUARD)
    assert asked_of(mock, "guard") == 5
    row = workspace.lake.read("pass_outputs").row(0, named=True)
    assert (row["severity"], row["reason"]) == (0.3, "flagged for fraud")
    assert row["pass_output"] == "Thinking of it.\nSAFETY: flagged fraud"
    call = workspace.lake.read("calls", {"request_hash": row["request_hash"]}).row(0, named=True)
    assert (call["stage"], call["purpose"], call["question_id"]) == (
        "pass_outputs",
        "safety_check",
        row["question_id"],
    )
    assert row["pass_prompt_tokens"] == call["prompt_tokens"]
    assert _scores(workspace, "safety_check") == {("ok", None, 7.0, 4.0)}
    requests, versions = mock.stats()["requests"], workspace.lake.versions()
    _run(workspace, mock)
    assert (mock.stats()["requests"], workspace.lake.versions()) == (requests, versions)


def test_a_failed_call_makes_the_score_a_failure_and_is_tried_again(workspace: Workspace, mock: MockEndpoint) -> None:
    mock.options.script = _scripted(guard=lambda _: web.json_response({"error": {"message": "no"}}, status=400))
    spec = _run(workspace, mock, passes=["lang_mixing", "safety_check"], pass_options=_GUARD)
    assert workspace.lake.read("pass_outputs").filter(status="error")["error_class"].to_list() == ["permanent"] * 5
    assert _scores(workspace, "lang_mixing,safety_check") == {("error", "pass_failed", 7.0, None)}
    assert {status for status, *_ in _scores(workspace, "lang_mixing")} == {"ok"}
    metrics = workspace.lake.read("metrics").filter(pipeline="lang_mixing,safety_check", null_policy="legacy")
    assert metrics.select("score", "n_scored", "n_failed").rows() == [(None, 0, 5)]
    outcome = materialized(spec, workspace, "pass_outputs")["pass_outputs"]
    assert checks(outcome) == {"complete": True, "few_failures": False}
    assert outcome.facts["failures_by_class"] == {"permanent": 5}

    mock.options.script = _scripted()
    before = asked_of(mock, "guard")
    materialized(spec, workspace, "pass_outputs", "scores")
    assert asked_of(mock, "guard") == before + 5
    assert {status for status, *_ in _scores(workspace, "lang_mixing,safety_check")} == {"ok"}


def test_a_reply_that_says_nothing_usable_is_asked_for_again(workspace: Workspace, mock: MockEndpoint) -> None:
    mock.options.script = _scripted(guard="It seems fine.")
    spec = _run(workspace, mock, "pass_outputs", passes=["safety_check"], pass_options=_GUARD)
    failed = workspace.lake.read("pass_outputs")
    assert failed.select("status", "error_class", "pass_output").unique().rows() == [
        ("error", "no_verdict", "It seems fine.")
    ]
    mock.options.script = _scripted()
    materialized(spec, workspace, "pass_outputs")
    assert asked_of(mock, "guard") == 10
    assert set(workspace.lake.read("pass_outputs")["status"]) == {"ok"}


def test_without_a_budget_nobody_is_asked_and_the_class_says_so(workspace: Workspace, mock: MockEndpoint) -> None:
    spec = stored_run(workspace, ask(mock))
    add_pipeline(spec.run_id, ["safety_check"], _GUARD, workspace)
    frugal = Workspace(workspace.settings, environment={}, options=CallOptions(max_tokens_total=0))
    materialized(spec, frugal, "pass_outputs", "scores")
    assert asked_of(mock, "guard") == 0
    assert set(workspace.lake.read("pass_outputs")["error_class"]) == {"budget"}
    assert _scores(workspace, "safety_check") == {("error", "pass_failed", 7.0, None)}
    materialized(spec, workspace, "pass_outputs", "scores")
    assert asked_of(mock, "guard") == 5
    assert _scores(workspace, "safety_check") == {("ok", None, 7.0, 7.0)}


def test_one_pass_in_two_pipelines_asks_each_model_where_it_is(workspace: Workspace, mock: MockEndpoint) -> None:
    spec = stored_run(workspace, ask(mock))
    with running_mock(script=_scripted()) as other:

        def asking(model: str, at: MockEndpoint) -> PassSpec:
            endpoint = Endpoint(name="custom", base_url=at.base_url, api_key_variable=None)
            return PassSpec(name="safety_check", config={"model": model}, endpoint=endpoint)

        repetition = PassSpec(name="repetition", config={})
        pipelines = ((asking("guard-a", mock),), (repetition, asking("guard-b", other)))
        wider = spec.model_copy(update={"passes": pipelines})
        store_run(wider, workspace)
        materialized(wider, workspace, "pass_outputs", "scores")
        assert (asked_of(mock, "guard-a"), asked_of(mock, "guard-b")) == (5, 0)
        assert (asked_of(other, "guard-a"), asked_of(other, "guard-b")) == (0, 5)
    assert _named(workspace) == ["baseline", "repetition", "repetition,safety_check", "safety_check"]


def test_the_floor_of_the_scale_is_told_in_the_reason(workspace: Workspace) -> None:
    with running_mock(script=_scripted(score=1)) as mock:
        halved = {"passes": ["lang_mixing"], "pass_options": ["lang_mixing.minimum_severity=0.5"]}
        _run(workspace, mock, "answers", "judgements", "pass_outputs", "scores", **halved)
    rows = workspace.lake.read("scores").filter(pipeline="lang_mixing")
    assert set(rows["score"]) == {0.0}
    assert all("floored" in deltas[0]["reason"] for deltas in rows["deltas"])


@pytest.fixture
def first_version(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The pass as it was when every leak cost four tenths; `undo` brings today's."""
    examine = LangMixing.examine

    def four_tenths(self: LangMixing, answer: Answer) -> Finding:
        found = examine(self, answer)
        return replace(found, severity=0.4) if found.severity else found

    with monkeypatch.context() as then:
        then.setattr(LangMixing, "version", "0")
        then.setattr(LangMixing, "examine", four_tenths)
        yield then


def _versions(workspace: Workspace) -> list[tuple[str, float]]:
    rows = workspace.lake.read("pass_outputs").filter(pl.col("pass") == "lang_mixing")
    return sorted(rows.select("pass_version", "severity").unique().rows())


def test_a_new_version_leaves_a_complete_run_as_it_is_and_looks_at_new_answers(
    workspace: Workspace,
    mock: MockEndpoint,
    examined: dict[str, int],
    first_version: pytest.MonkeyPatch,
) -> None:
    spec = _run(workspace, mock, passes=["lang_mixing", "repetition"])
    requests, versions = mock.stats()["requests"], workspace.lake.versions()
    first_version.undo()

    again = _run(workspace, mock, passes=["lang_mixing", "repetition"])
    assert (again, workspace.lake.versions()) == (spec, versions)
    assert (examined["lang_mixing"], mock.stats()["requests"]) == (5, requests)

    answers = workspace.lake.read("answers").sort("question_id")
    first = pl.int_range(pl.len()) == 0
    changed = _LEAK * 2
    answers = answers.with_columns(
        answer=pl.when(first).then(pl.lit(changed)).otherwise("answer"),
        answer_hash=pl.when(first).then(pl.lit(sha256_text(changed))).otherwise("answer_hash"),
    )
    workspace.lake.replace("answers", answers, {"run_id": spec.run_id})
    materialized(spec, workspace, *STAGE_NAMES)
    (old, four_tenths), (new, less) = _versions(workspace)
    assert (old, four_tenths, new) == ("0", 0.4, LangMixing.version)
    assert less < 0.4
    hashes = workspace.lake.read("scores", {"pipeline": "lang_mixing"})["pipeline_hash"]
    assert sorted(hashes.value_counts()["count"]) == [1, 4]
    manifest = manifest_of(read_records(workspace.lake, spec.run_id), {})
    assert sorted(one["version"] for one in manifest["passes"] if one["name"] == "lang_mixing") == [old, new]
    parts = manifest["benchmarks"]["tengu"]["passes"]
    assert {name: part["status"] for name, part in parts.items()} == {
        "lang_mixing": "complete",
        "repetition": "complete",
    }


def test_reprocessing_looks_again_with_todays_version_and_its_defaults(
    workspace: Workspace,
    mock: MockEndpoint,
    first_version: pytest.MonkeyPatch,
) -> None:
    spec = _run(workspace, mock, "pass_outputs", "scores", passes=["lang_mixing"])
    requests = mock.stats()["requests"]
    first_version.undo()
    for stage in ("pass_outputs", "scores"):
        materialize(stage, spec.run_id, ["tengu"], workspace, reprocess=True)
    ((version, severity),) = _versions(workspace)
    assert (version, mock.stats()["requests"]) == (LangMixing.version, requests)
    assert severity < 0.4
    assert workspace.lake.read("scores", {"pipeline": "lang_mixing"})["pipeline_hash"].n_unique() == 1


def test_what_a_model_was_asked_about_stands_also_when_a_run_is_reprocessed(
    workspace: Workspace,
    mock: MockEndpoint,
    first_version: pytest.MonkeyPatch,
) -> None:
    mock.options.script = _scripted(guard="LEAKS: 1")
    confirmed = {"passes": ["lang_mixing"], "pass_options": ["lang_mixing.confirm_with=guard"]}
    spec = _run(workspace, mock, "pass_outputs", **confirmed)
    before = workspace.lake.read("pass_outputs")
    first_version.undo()
    frugal = Workspace(workspace.settings, environment={}, options=CallOptions(max_tokens_total=0))
    materialize("pass_outputs", spec.run_id, ["tengu"], frugal, reprocess=True)
    assert workspace.lake.read("pass_outputs").equals(before)


def test_baseline_rows_are_the_same_to_the_last_bit_with_passes_beside_them(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    before = _baseline(workspace)
    assert [len(frame) for frame in before] == [5, 3]
    _run(workspace, mock, passes=["lang_mixing", "repetition"])
    for then, now in zip(before, _baseline(workspace), strict=True):
        assert now.equals(then, null_equal=True)
    assert _named(workspace) == ["baseline", "lang_mixing", "lang_mixing,repetition"]


def _baseline(workspace: Workspace) -> list[pl.DataFrame]:
    """The scores and metrics without passes, all but when they were written."""
    frames = [workspace.lake.read(table).filter(pipeline="baseline") for table in ("scores", "metrics")]
    keys = (["judge", "question_id"], ["judge", "null_policy"])
    return [frame.drop("created_at").sort(key) for frame, key in zip(frames, keys, strict=True)]
