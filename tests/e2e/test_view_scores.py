"""`view-scores` as a user meets it: the numbers, their spread over runs, and what it refuses."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.commands import lake_of, run_anew, run_without_dagster
from tests.e2e.conftest import Evaluated, target
from tests.mock_endpoint import content_for, running_mock

pytestmark = pytest.mark.e2e

_RUNS, _BENCHMARKS, _JUDGE = 3, ("elyza", "rakuda"), "judge-a"


@pytest.fixture(scope="session")
def multi_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evaluated]:
    """Three runs of a model that answers differently each time."""
    folder = tmp_path_factory.mktemp("multi")

    def script(body: dict[str, Any], number: int) -> str:
        return content_for(body) if body["model"] == _JUDGE else f"{number}番目の答え"

    with running_mock(script=script) as mock:
        options = ["--runs", str(_RUNS), "--tag", "july", "--benchmark", ",".join(_BENCHMARKS), "--limit", "3"]
        finished = run_without_dagster("run-evals", *target(mock, (_JUDGE,)), *options, environment=lake_of(folder))
        yield Evaluated(finished, mock, folder)


@pytest.fixture(scope="session")
def scores_by_run(multi_run: Evaluated) -> dict[str, list[float]]:
    """Each benchmark's score in each run, from the single judgements, and each run's mean of them."""
    rows = multi_run.rows("select run_tag, benchmark, score from judgements")
    scores = {
        name: [
            float(np.mean([row["score"] for row in rows if (row["run_tag"], row["benchmark"]) == (tag, name)])) * factor
            for tag in (f"july-run{number}" for number in range(1, _RUNS + 1))
        ]
        for name, factor in zip(_BENCHMARKS, (2, 1), strict=True)
    }
    return scores | {"overall": list(np.mean([scores[name] for name in _BENCHMARKS], axis=0))}


@pytest.mark.parametrize("n_runs", [_RUNS, 2, 1])
def test_statistics_over_runs_are_those_of_scipy(
    n_runs: int, multi_run: Evaluated, scores_by_run: dict[str, list[float]]
) -> None:
    multi_run.first.succeeded()
    document = json.loads(
        multi_run.view_scores("--tag", "july", "--runs", str(n_runs), "--format", "json").succeeded().out
    )

    shown = {row["benchmark"]: row for row in document["statistics"]}
    assert shown.keys() == scores_by_run.keys()
    for name, all_values in scores_by_run.items():
        row, values = shown[name], np.array(all_values[:n_runs])
        assert row["values"] == pytest.approx(values)
        assert (row["n_runs"], row["mean"]) == (n_runs, pytest.approx(values.mean()))
        assert (row["minimum"], row["maximum"]) == pytest.approx((values.min(), values.max()))
        if n_runs == 1:
            assert (row["sd"], row["margin_of_error"]) == (None, None)
            continue
        assert row["sd"] == pytest.approx(values.std(ddof=1))
        # Not `stats.t.interval`, which has no answer where all runs score the same.
        margin = stats.t.ppf(0.975, n_runs - 1) * stats.sem(values)
        assert row["margin_of_error"] == pytest.approx(margin)
    assert len({row["run_tag"] for row in document["rows"]}) == n_runs
    spread = [row["sd"] for row in shown.values()]
    assert n_runs < _RUNS or max(spread) > 0  # else this would compare zeros


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--format", "xml"], "--format must be one of table, json, csv, md, not 'xml'"),
        (["--null-policy", "kind"], "--null-policy must be one of legacy, zero, strict, not 'kind'"),
        (["--tag", "defautl"], "no tag 'defautl'; did you mean default?"),
        (["--model", "model"], "no model 'model'; did you mean org/model?"),
        (["--judge", "judge-c"], "no judge 'judge-c'; did you mean judge-"),
        (["--question-set", "tengu@55"], "--question-set: no question set 'tengu@55'; did you mean tengu@5?"),
        (["--runs", "many"], "--runs: a whole number, please"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_shown_is_refused_in_one_line(options: list[str], expected: str, first_run: Evaluated) -> None:
    assert expected in first_run.view_scores(*options).complaint


def test_without_a_lake_it_names_the_folder_and_what_to_do(tmp_path: Path) -> None:
    complaint = run_anew("view-scores").complaint

    assert str(tmp_path / "warehouse") in complaint
    assert "run run-evals first" in complaint
    assert not (tmp_path / "warehouse").exists()
