"""A session as the plan has it: two runs, another judge, a pass, and what `view-scores` says of them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

from shaberi_dagster.runs.workspace import Workspace
from tests.commands import Finished, lake_of, run, run_without_dagster
from tests.e2e.conftest import MODEL, Evaluated, target
from tests.example_runs import ask, materialized, own_engine, stored_run
from tests.mock_endpoint import content_for, running_mock

pytestmark = [pytest.mark.e2e, pytest.mark.long]

_FIRST, _OTHER, _PASS = "judge-a", "judge-b", "lang_mixing"
_BENCHMARKS, _LIMIT, _RUNS = {"elyza": 2.0, "tengu": 1.0}, 3, 2
_OPTIONS = ("--runs", str(_RUNS), "--benchmark", ",".join(_BENCHMARKS), "--limit", str(_LIMIT))
_N_ANSWERS = _RUNS * len(_BENCHMARKS) * _LIMIT
_LEAK = "们这样会说话吗"


@dataclass(frozen=True)
class Session:
    """The commands' ends, whom each of them asked, and the lake that they left."""

    evaluated: Evaluated
    ended: dict[str, Finished]
    asked: dict[str, list[str]]


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """The commands one after the other, in one lake."""
    folder = tmp_path_factory.mktemp("session")

    def script(body: dict[str, Any], number: int) -> str:
        if body["model"] in {_FIRST, _OTHER}:
            return content_for(body)
        return f"{number}番目の答えです。" + (_LEAK if number % 3 else "")

    commands = {
        "runs": ((_FIRST,), ()),
        "runs again": ((_FIRST,), ()),
        "rejudged": ((_OTHER,), ("--rejudge",)),
        "passes": ((), ("--passes", _PASS)),
        "passes again": ((), ("--passes", _PASS)),
    }
    ended, asked = {}, {}
    with running_mock(script=script) as mock:
        for name, (judges, options) in commands.items():
            mock.bodies.clear()
            arguments = [*target(mock, judges), *_OPTIONS, *options]
            ended[name] = run_without_dagster("run-evals", *arguments, environment=lake_of(folder)).succeeded()
            asked[name] = [body["model"] for body in mock.bodies]
        yield Session(Evaluated(ended["runs"], mock, folder), ended, asked)


def document(session: Session, *options: str) -> dict[str, Any]:
    """What `view-scores` says as JSON."""
    shown: dict[str, Any] = json.loads(session.evaluated.view_scores(*options, "--format", "json").succeeded().out)
    return shown


def means(session: Session, judge: str, pipeline: str = "baseline") -> dict[str, list[float]]:
    """Each benchmark's score in each run on the reported scale, from single scores; and overall."""
    rows = session.evaluated.rows(
        f"select run_tag, benchmark, score from scores where judge = '{judge}' and pipeline = '{pipeline}'"
    )
    tags = [f"default-run{number}" for number in range(1, _RUNS + 1)]
    by_benchmark = {
        name: [
            factor * float(np.mean([row["score"] for row in rows if (row["run_tag"], row["benchmark"]) == (tag, name)]))
            for tag in tags
        ]
        for name, factor in _BENCHMARKS.items()
    }
    return by_benchmark | {"overall": np.mean(list(by_benchmark.values()), axis=0).tolist()}


def test_each_command_asks_only_for_what_is_missing(session: Session) -> None:
    assert {name: len(models) for name, models in session.asked.items()} == {
        "runs": 2 * _N_ANSWERS,
        "runs again": 0,
        "rejudged": _N_ANSWERS,
        "passes": 0,
        "passes again": 0,
    }
    assert set(session.asked["rejudged"]) == {_OTHER}
    assert session.ended["runs again"].err.splitlines()[-1] == "nothing left to do: no call was made"
    for name in ("passes", "passes again"):
        assert session.ended[name].err.splitlines()[-1] == "no call was made"
    assert session.ended["runs again"].out == session.ended["runs"].out


@pytest.mark.parametrize(
    "options", [("--tag", "default"), ("--runs", str(_RUNS)), ("--passes", _PASS, "--tag", "default")]
)
def test_statistics_are_those_of_the_single_scores(options: tuple[str, ...], session: Session) -> None:
    pipeline = _PASS if _PASS in options else "baseline"
    shown = document(session, *options)

    assert len(shown["rows"]) == _RUNS * len(_BENCHMARKS) * 2
    for judge in (_FIRST, _OTHER):
        statistics = {row["benchmark"]: row for row in shown["statistics"] if row["judge"] == judge}
        expected = means(session, judge, pipeline)
        assert statistics.keys() == expected.keys()
        for name, values in expected.items():
            row = statistics[name]
            assert (row["n_runs"], row["mean"], row["values"]) == (
                _RUNS,
                pytest.approx(np.mean(values)),
                pytest.approx(values),
            )
            margin = stats.t.ppf(0.975, _RUNS - 1) * np.std(values, ddof=1) / np.sqrt(_RUNS)
            assert row["margin_of_error"] == pytest.approx(margin)
            assert row["ci_questions_lower"] <= row["mean"] <= row["ci_questions_upper"]


def test_the_table_has_the_numbers_of_sql(session: Session) -> None:
    table = session.evaluated.view_scores("--tag", "default", "--by", "run", "--notes").succeeded().out

    statistics = session.evaluated.rows(
        "select judge, benchmark, mean, sd, n_runs from run_statistics"
        " where pipeline = 'baseline' and null_policy = 'legacy' and strategy is null"
    )
    assert len(statistics) == 2 * (len(_BENCHMARKS) + 1)
    for row in statistics:
        name = f"mean of {len(_BENCHMARKS)}" if row["benchmark"] == "overall" else row["benchmark"]
        (line,) = [
            one
            for one in table.splitlines()
            if one.startswith(f"{name} ") and f" {row['judge']} " in one and one.split()[-1] == str(_RUNS)
        ]
        cells = line.removeprefix(name).split()
        assert (cells[0], cells[1], cells[2], cells[-1]) == (
            row["judge"],
            f"{row['mean']:.2f}",
            f"{row['sd']:.2f}",
            str(_RUNS),
        )
    assert "±" not in table  # two runs say too little
    assert "95 % CI over questions" in table


def test_the_pass_stands_beside_its_baseline(session: Session) -> None:
    shown = document(session, "--tag", "default", "--passes", _PASS)

    baseline = {(row["run_tag"], row["judge"], row["benchmark"]): row["score"] for row in document(session)["rows"]}
    for row in shown["rows"]:
        assert row["baseline_score"] == baseline[row["run_tag"], row["judge"], row["benchmark"]]
        assert row["change"] == pytest.approx(row["score"] - row["baseline_score"])
    assert min(row["change"] for row in shown["rows"]) < 0
    assert (
        "run `shaberi reprocess --passes repetition --tag default`"
        in session.evaluated.view_scores("--tag", "default", "--passes", "repetition").complaint
    )


def test_the_judges_stand_beside_each_other(session: Session) -> None:
    shown = document(session, "--tag", "default")

    assert [(pair["judge_a"], pair["judge_b"], pair["n"]) for pair in shown["judge_pairs"]] == [
        (_FIRST, _OTHER, _N_ANSWERS)
    ]
    assert shown["unfinished"] == []


def test_a_run_with_other_settings_is_put_into_no_aggregate(workspace: Workspace) -> None:
    with running_mock() as mock, own_engine({}):
        for number, temperature in ((1, 0.2), (2, 0.7)):
            asked = {"model": MODEL, "tag": f"t-run{number}", "temperature": temperature, "limit": 2}
            materialized(stored_run(workspace, ask(mock, **asked)), workspace)

    refused = run("view-scores", "--runs", "2").complaint
    shown = run("view-scores", "--tag", "t", "--notes").succeeded().out

    difference = "tengu: temperature of answers: 0.2 (t-run1), 0.7 (t-run2)"
    assert refused == f"the runs of org/model t cannot be put into one aggregate: {difference}"
    assert f"which differ: {difference}." in " ".join(shown.split())
