"""Two versions of a judge's prompt on the same answers, by the commands as a user types them."""

import json
import re
import shutil
from pathlib import Path

import pytest

from shaberi_dagster.util.folders import project_folder
from tests.e2e.conftest import Evaluated

pytestmark = [pytest.mark.e2e, pytest.mark.long]

_N_QUESTIONS = 21
_STRICT = ("--judge-prompt", "strict")


@pytest.fixture
def variants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's prompts with a stricter rule in all of them, and a variant of tengu's prompt only."""
    prompts = shutil.copytree(project_folder("prompts"), tmp_path / "prompts")
    for variant, template in (("strict", "answer_rule"), ("tengu-only", "tengu/primary")):
        copy = prompts / "variants" / variant / "judging" / f"{template}.jinja"
        copy.parent.mkdir(parents=True)
        rule = (prompts / "judging" / f"{template}.jinja").read_text(encoding="utf-8")
        copy.write_text(f"迷ったときは低い点数をつけてください。\n{rule}", encoding="utf-8")
    monkeypatch.setenv("SHABERI_PROMPTS", str(prompts))
    return prompts / "variants"


@pytest.mark.usefixtures("variants")
def test_two_prompts_of_one_judge_stand_side_by_side_on_the_same_answers(evaluated: Evaluated) -> None:
    first = evaluated.run_evals("--rejudge", *_STRICT, judges=("judge-a",), in_dagster=True).succeeded()
    assert evaluated.asked == ["judge-a"] * _N_QUESTIONS
    assert all("迷ったときは" in body["messages"][-1]["content"] for body in evaluated.mock.bodies)
    assert "judge-a+strict" in first.out
    assert "judge-b" not in first.out

    rows = evaluated.rows(
        "select judge, any_value(judge_model) as judge_model, count(*) as n, count(distinct answer_hash) as texts, "
        "bool_or(superseded) as old, count(distinct judge_prompt_hash) as prompts from judgements group by 1 order by 1"
    )
    same = {"n": _N_QUESTIONS, "old": False, "prompts": 4, "texts": rows[0]["texts"]}
    assert rows == [
        {"judge": "judge-a", "judge_model": None, **same},
        {"judge": "judge-a+strict", "judge_model": "judge-a", **same},
        {"judge": "judge-b", "judge_model": None, **same},
    ]
    board = evaluated.rows("select judge, n_scored, n_planned from leaderboard where benchmark = 'tengu' order by 1")
    assert board == [{"judge": row["judge"], "n_scored": 5, "n_planned": 5} for row in rows]
    assert evaluated.rows("select count(*) as n from stale") == [{"n": 0}]
    assert evaluated.rows("select status from runs") == [{"status": "complete"}]

    for again in (("--benchmark", "all"), (*_STRICT,)):
        assert evaluated.run_evals(*again, judges=("judge-a",)).succeeded().err.endswith("no call was made\n")
        assert evaluated.asked == []

    pair = ("--param", "judge_a=judge-a", "--param", "judge_b=judge-a+strict")
    compared = json.loads(evaluated.shaberi("sql", "prompt_ab", *pair, "--format", "json").succeeded().out)
    assert {row["benchmark"]: row["n"] for row in compared} == {
        "elyza": 5,
        "mt_bench": 6,
        "rakuda": 5,
        "tengu": 5,
        "overall": _N_QUESTIONS,
    }
    versions = evaluated.shaberi("sql", "prompt_versions", "--param", "benchmark=tengu", "--format", "json")
    listed = [(row["judge"], row["n_answers"], row["n_common"]) for row in json.loads(versions.succeeded().out)]
    assert listed == [("judge-a", 5, 5), ("judge-a+strict", 5, 5), ("judge-b", 5, 5)]


@pytest.mark.usefixtures("variants")
def test_a_variants_judge_is_rejudged_by_either_of_its_names(evaluated: Evaluated) -> None:
    options = ("--rejudge", "--benchmark", "tengu")
    evaluated.run_evals(*options, *_STRICT, judges=("judge-a",)).succeeded()
    for judge, prompt in (("judge-a", _STRICT), ("judge-a+strict", ())):
        evaluated.run_evals(*options, *prompt, judges=(judge,)).succeeded()
        assert evaluated.asked == ["judge-a"] * 5
    rows = evaluated.rows("select judge, count(*) as n from judgements where superseded group by 1")
    assert rows == [{"judge": "judge-a+strict", "n": 10}]


@pytest.mark.usefixtures("variants")
def test_where_a_variant_changes_nothing_it_is_said_and_not_paid_for(evaluated: Evaluated) -> None:
    options = ("--rejudge", "--judge-prompt", "tengu-only")
    finished = evaluated.run_evals(*options, judges=("judge-a",)).succeeded()
    assert evaluated.asked == ["judge-a"] * 5
    assert re.search(
        r"judge judge-a\+tengu-only gets the same prompt as judge-a in elyza, mt_bench, rakuda", finished.err
    )
