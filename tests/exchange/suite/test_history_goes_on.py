"""From a checkout of the old suite to a score that compares with its history: adopt, run, link."""

import os
import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.commands import run, run_without_dagster
from tests.deciding.linking import MODELS, SIZES, imported, old_score
from tests.mock_endpoint import running_mock

pytestmark = [pytest.mark.corpus, pytest.mark.integration]

JUDGE = "gpt-4.1-2025-04-14"
_QUESTION = re.compile(r"(rakuda|tengu)の質問(\d+)は")
_ANSWER = re.compile(r"(rakuda|tengu)への(\S+)の答え(\d+)です")


def _reply(body: dict[str, Any], _: int) -> str:
    """Answer as a model, and judge as the judge of the tree did, in the forms that the old suite's parsers read."""
    text = "\n".join(str(message["content"]) for message in body["messages"])
    if body["model"] != JUDGE:
        benchmark, number = _QUESTION.findall(text)[-1]
        return f"{benchmark}への{body['model']}の答え{number}です。"
    benchmark, model, number = _ANSWER.findall(text)[-1]
    score = old_score(model, benchmark, int(number))
    return f"よい。\n<score>{score}</score>\n評価：[[{score}]]"


def _rankings() -> list[dict[str, Any]]:
    rankings: list[dict[str, Any]] = orjson.loads(run("view-scores", "--format", "json").succeeded().out)["rankings"]
    return rankings


@pytest.mark.long
def test_three_commands_lead_to_a_score_that_stands_in_the_history(workspace, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHABERI_WAREHOUSE", str(workspace.settings.warehouse))
    imported(workspace, tmp_path, judge=JUDGE)
    sets = workspace.lake.read("questions", columns=["question_set"])["question_set"].unique().sort().to_list()
    checkout = Path(os.environ["SHABERI_CORPUS"]) / "suite" / "2025-07-06-23ffa1e"

    with running_mock(script=_reply) as mock:
        run("shaberi", "adopt", checkout, "--name", "old").succeeded()
        where = ("--base-url", mock.base_url, "--judge-base-url", mock.base_url)
        asked = ("--preset", "old", "--model", "new-model", "--judge-model", JUDGE, "--benchmark", ",".join(SIZES))
        run_without_dagster("run-evals", *asked, *(f"--question-set={name}" for name in sets), *where).succeeded()
        apart = [[line["model"] for line in ranking["standings"]] for ranking in _rankings()]
        link = ("--judge", JUDGE, "--preset", "old", "--models", ",".join(MODELS), "--judge-base-url", mock.base_url)
        linked = run_without_dagster("shaberi", "link", *link, "--format", "json").succeeded()

    assert sorted(map(sorted, apart)) == [["new-model"], MODELS]
    links = orjson.loads(linked.out)["rows"]
    assert [(row["benchmark"], row["granted"], row["score_offset"]) for row in links] == [
        ("rakuda", True, 0.0),
        ("tengu", True, 0.0),
        ("overall", True, 0.0),
    ]
    assert {row["new_generation"] for row in links} == {"J2"}
    (ranking,) = _rankings()
    assert {line["model"] for line in ranking["standings"]} == {*MODELS, "new-model"}
    compared = run("shaberi", "compare", "new-model", MODELS[0]).succeeded()
    assert f"{JUDGE}+old" in compared.out
