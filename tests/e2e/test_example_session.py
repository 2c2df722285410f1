"""A session as the plan has it: two runs, another judge, a pass, and what `view-scores` says of them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.commands import Finished, lake_of, run_without_dagster
from tests.e2e.conftest import Evaluated, target
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
