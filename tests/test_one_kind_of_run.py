"""Samples, consensus, rules, LLM judges and passes in one run, whatever its benchmarks are."""

from collections.abc import Iterator

import polars as pl
import pytest

from shaberi_dagster.lake.catalog import open_catalog, run_query
from shaberi_dagster.runs.planning import judged_again
from shaberi_dagster.runs.stored import store_run
from shaberi_dagster.runs.workspace import Workspace
from tests.example_runs import ask, materialized, own_engine, stored_run
from tests.mock_endpoint import MockEndpoint, running_mock
from tests.results_tree import assert_valid_tree

pytestmark = pytest.mark.integration

_LLM, _RULE, _BOTH = "judge-a", "rule:numeric", "rule:numeric+judge-a"
_N, _SAMPLES = 2, 2
_ANSWERS = _SAMPLES + 2
"""To a question: the samples, single, and plurality."""


def _says(body: dict[str, object], _: int) -> str:
    if body["model"] == _LLM:
        return '{"extracted": "18", "verdict": "correct"}\nFINAL SCORE: 7'
    return "いろいろな数があって分からない"


@pytest.fixture
def mock() -> Iterator[MockEndpoint]:
    with own_engine({}), running_mock(script=_says) as running:
        yield running


def _counts(workspace: Workspace, table: str, *by: str) -> dict[tuple[object, ...], int]:
    rows = workspace.lake.read(table)
    if "superseded" in rows.columns:
        rows = rows.filter(~pl.col("superseded"))
    return {(*key,): n for *key, n in rows.group_by(by).len().iter_rows()}


def test_both_kinds_of_benchmark_with_samples_a_consensus_judges_and_passes(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    asked = {"benchmarks": ["tengu", "gsm8k"], "samples": _SAMPLES, "strategies": ["plurality"]}
    spec = stored_run(workspace, ask(mock, limit=_N, passes=["lang_mixing"], **asked))
    materialized(spec, workspace)

    assert workspace.lake.read("runs")["status"].to_list() == ["complete"]
    assert _counts(workspace, "answers", "benchmark") == dict.fromkeys([("tengu",), ("gsm8k",)], _N * _SAMPLES)
    assert _counts(workspace, "judgements", "benchmark", "judge") == {
        ("tengu", _LLM): _N * _ANSWERS,
        ("gsm8k", _RULE): _N * _ANSWERS,
        ("gsm8k", _BOTH): _N * _ANSWERS,
    }
    assert _counts(workspace, "pass_outputs", "benchmark") == dict.fromkeys([("tengu",), ("gsm8k",)], _N * _ANSWERS)
    with open_catalog(workspace.settings.warehouse) as catalog:
        shown = run_query(
            catalog, "select distinct benchmark, judge, strategy, pipeline, n_planned from leaderboard"
        ).fetchall()
    planned = {None: _N * _SAMPLES, "single": _N, "plurality": _N}
    assert set(shown) == {
        (benchmark, judge, strategy, pipeline, n)
        for benchmark, judge in (("tengu", _LLM), ("gsm8k", _RULE), ("gsm8k", _BOTH))
        for strategy, n in planned.items()
        for pipeline in ("baseline", "lang_mixing")
    }
    requests = mock.stats()["requests"]
    materialized(spec, workspace)
    assert mock.stats()["requests"] == requests


def test_each_benchmark_stands_in_the_folder_of_its_kind(workspace: Workspace, mock: MockEndpoint) -> None:
    once = stored_run(workspace, ask(mock, benchmarks=["gsm8k"], limit=_N))
    materialized(once, workspace)
    wider = stored_run(workspace, ask(mock, benchmarks=["tengu"], samples=_SAMPLES, limit=_N))
    materialized(wider, workspace)
    workspace.publish()

    (manifest,) = workspace.settings.results.glob("*/*/manifest.json")
    folder = manifest.parent / "artifacts"
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*.jsonl") if "normal" not in str(path)} == {
        "shaberi/answers/gsm8k.jsonl",
        "shaberi/judgements/judge_rule%3Anumeric/gsm8k.jsonl",
        "shaberi/judgements/judge_rule%3Anumeric%2Bjudge-a/gsm8k.jsonl",
        "ensemble/responses/tengu.jsonl",
        "ensemble/evaluations/tengu.jsonl",
    }
    counts = assert_valid_tree(workspace.settings.results)
    assert (counts["answer"], counts["metrics"]) == (_N + _N * _SAMPLES, 2)


def test_a_model_that_decides_what_rules_cannot_tell_judges_anew_in_its_next_round(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    spec = stored_run(workspace, ask(mock, benchmarks=["gsm8k"], limit=_N))
    materialized(spec, workspace)
    before = mock.stats()["requests"]

    again = judged_again(spec, [_LLM], ["gsm8k"])
    store_run(again, workspace)
    materialized(again, workspace, "judgements")

    assert mock.stats()["requests"] - before == _N
    stored = workspace.lake.read("judgements")
    assert stored.filter(pl.col("superseded")).select("judge", "judge_round").unique().rows() == [(_BOTH, 0)]
    assert stored.filter(~pl.col("superseded"), judge=_BOTH)["judge_round"].to_list() == [1] * _N
