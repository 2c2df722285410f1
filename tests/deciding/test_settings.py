"""Decisions between settings of one model: each value is a candidate of its own."""

import json
import re
import shlex
from collections import Counter
from typing import Any

import pytest

from tests.commands import run_without_dagster
from tests.mock_endpoint import MockEndpoint, running_mock

pytestmark = pytest.mark.integration


def _by_effort(body: dict[str, Any], _: int) -> str:
    """An answer that names its effort, and a judge who likes effort."""
    text = body["messages"][-1]["content"]
    if "FINAL SCORE" not in text:
        return f"答え effort {body['reasoning_effort']}"
    return f"よい。\nFINAL SCORE: {9 if 'effort high' in text else 3}"


def _efforts(mock: MockEndpoint) -> dict[str, int]:
    return dict(Counter(body["reasoning_effort"] for body in mock.bodies if body["model"] == "m"))


@pytest.mark.long
def test_settings_of_a_sweep_are_decided_between_and_a_full_evaluation_pays_only_for_the_rest() -> None:
    with running_mock(script=_by_effort) as mock:
        place = ("--base-url", mock.base_url, "--judge-base-url", mock.base_url)
        decide = ("shaberi", "decide", "m", "--judge", "j", "--benchmark", "tengu,rakuda", *place)
        decided = run_without_dagster(*decide, "--sweep", "reasoning_effort=low,high", "--json").succeeded()
        asked = _efforts(mock)
        again = run_without_dagster(*decide, "--sweep", "reasoning_effort=low,high", "--json").succeeded()
        too_few = run_without_dagster(*decide, "--sweep", "reasoning_effort=low")
        assert _efforts(mock) == asked
        full = run_without_dagster(*decide, "--sweep", "reasoning_effort=low,high").succeeded()
        (command,) = re.findall(r"run-evals .*?(?= About these)", " ".join(full.out.split()))
        completed = run_without_dagster(*shlex.split(command)).succeeded()
        whole = _efforts(mock)

    assert json.loads(decided.out)["decision_id"] == json.loads(again.out)["decision_id"]
    assert "m@@default-high is better" in full.out
    assert set(asked) == {"low", "high"}
    assert whole == {"low": 10, "high": 10}
    # Whoever paid for its answers, they are as long as they are.
    assert re.search(r"worse than the best: default-high \([0-9]+ completion tokens", " ".join(completed.out.split()))
    assert "settings of one model" in too_few.complaint


@pytest.mark.long
def test_runs_of_one_model_with_other_settings_are_asked_further_with_their_own() -> None:
    with running_mock(script=_by_effort) as mock:
        place = ("--base-url", mock.base_url, "--judge-base-url", mock.base_url)
        asked_of = ("--model", "m", "--judge-model", "j", "--benchmark", "tengu,rakuda", *place)
        made = ("run-evals", *asked_of, "--limit", "1")
        run_without_dagster(*made, "--sweep", "reasoning_effort=low,high").succeeded()
        begun = _efforts(mock)
        decided = run_without_dagster(
            "shaberi", "decide", "m@@default-low", "m@@default-high", "--judge", "j", *place
        ).succeeded()
        asked = _efforts(mock)

    assert begun == {"low": 2, "high": 2}
    assert "m@@default-high is better" in decided.out
    assert set(asked) == {"low", "high"}
    assert all(2 < number <= 10 for number in asked.values()), (asked, decided)
