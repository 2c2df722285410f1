"""`shaberi adopt` on git repositories and folders, and runs with what it wrote."""

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from shaberi_dagster.benchmarks.questions import Question
from shaberi_dagster.benchmarks.registry import get_benchmark
from shaberi_dagster.exchange.suite.checkout import read_checkout
from shaberi_dagster.exchange.suite.writing import adopt
from shaberi_dagster.judges.adopted import AdoptedJudge
from shaberi_dagster.judges.sets import AdoptedSet, adopted_sets, answer_settings, first_call, judge_settings
from shaberi_dagster.judges.spec import JudgeSpec
from shaberi_dagster.llm.endpoints import request_body, resolve_endpoint
from shaberi_dagster.runs.adoption import adopted_defaults, with_preset
from shaberi_dagster.runs.spec import RunRequest
from tests.commands import run, run_without_dagster
from tests.exchange.trees.trees import LegacyTree, rows_of
from tests.mock_endpoint import running_mock

pytestmark = pytest.mark.integration

CONFIG = '''
import re
from calls import get_model_response

EXAMPLE = {"Question": "例の問い", "Answer": "例", "Criteria": "例の基準", "ModelAnswer": "例の答え"}
TENGU = """【問】{q}
【基準】{c}
【答】{a}
"""

def tengu_text(data):
    return TENGU.format(q=data["Question"], c=data["Criteria"], a=data["ModelAnswer"])

def tengu_judge(data, model_name):
    evaluation = get_model_response([
        {"role": "user", "content": tengu_text(EXAMPLE)},
        {"role": "assistant", "content": "評点＝3"},
        {"role": "user", "content": tengu_text(data)},
    ], model_name)
    try:
        return round(float(re.findall(r"評点＝([0-9.]+)", evaluation)[-1]))
    except (ValueError, IndexError):
        again = [{"role": "user", "content": f"点だけ：{evaluation.strip()}"}]
        return round(float(get_model_response(again, model_name)))

def rakuda_judge(row, model_name):
    prompt = f"問 {row['Question']}\\n答 {row['ModelAnswer']}"
    return int(get_model_response([{"role": "user", "content": prompt}], model_name))

SKIPPED = {"lightblue/tengu_bench": {2}}

CONFIGS = {
    "lightblue/tengu_bench": {"question_column": "Question", "evaluator_function": tengu_judge},
    "yuzuai/rakuda-questions": {"question_column": "text", "evaluator_function": rakuda_judge},
    "someone/other-questions": {"question_column": "text", "evaluator_function": rakuda_judge},
}
'''
CALLS = """
import os
from openai import OpenAI

penalty = 0.0

def get_model_response(messages, model_name):
    client = OpenAI()
    if model_name.startswith("gpt-5.1"):
        return client.responses.create(
            model=model_name, input=messages, temperature=0, max_output_tokens=50, reasoning={"effort": "none"}
        ).output_text
    name = {"judge-small": "served/small"}.get(model_name, model_name)
    response = client.chat.completions.create(model=name, messages=messages, temperature=0, max_tokens=50)
    return response.choices[0].message.content

def get_answer(question, model_name):
    limit = 300
    if model_name in ["lab/thinker"]:
        limit = 900
    extra = {"min_p": 0.1}
    if penalty:
        extra["frequency_penalty"] = penalty
    response = OpenAI(base_url=os.getenv("OPENAI_BASE_URL")).chat.completions.create(
        model=model_name,
        messages=[{"role": "system", "content": "丁寧に。"}, {"role": "user", "content": question}],
        temperature=0.3,
        max_tokens=limit,
        **extra,
    )
    return response.choices[0].message.content

def get_answerer(model_name):
    return get_answer
"""
GENERATE = """
import argparse
import calls
from datasets import load_dataset
from config import CONFIGS, SKIPPED

def load(dataset_name):
    rows = load_dataset(dataset_name)[CONFIGS[dataset_name].get("split", "test")]
    column = CONFIGS[dataset_name]["question_column"]
    if column != "Question":
        rows = rows.rename_column(column, "Question")
    return rows.map(lambda row, index: {"id": index + 1}, with_indices=True).filter(
        lambda row: int(row["id"]) not in SKIPPED.get(dataset_name, set())
    )

def everything(model_name):
    return [load(name) for name in CONFIGS]

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", "--model_name", required=True)
    parser.add_argument("-fp", "--frequency_penalty", type=float, default=0.5)
    args = parser.parse_args()
    calls.penalty = args.frequency_penalty
    everything(args.model_name)

if __name__ == "__main__":
    main()
"""


def git(folder: Path, *arguments: str) -> str:
    options = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *options, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Path:
    """Two commits of a suite; the folder beside it is where commands run."""
    folder = tmp_path / "old-suite"
    folder.mkdir()
    git(folder, "init")
    for name, text in {"config": CONFIG, "calls": CALLS, "generate": GENERATE}.items():
        (folder / f"{name}.py").write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-m", "first")
    (folder / "config.py").write_text(CONFIG.replace("【問】", "【問題】"))
    git(folder, "commit", "-am", "second")
    (folder / "config.py").write_text("not what was committed")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return folder


@pytest.mark.long
def test_a_commit_is_adopted_asked_and_judged_with(repository):
    first = git(repository, "rev-parse", "HEAD~1")
    adopted = run("shaberi", "adopt", repository, "--commit", "HEAD~1", "--name", "old")
    assert adopted.code == 3  # one of its data sets is none of ours
    assert f"old: old-suite at {first[:7]}, judge prompts of no known generation: tengu, rakuda, answers" in adopted.out
    assert "not adopted: config.py: someone/other-questions is none of this project's benchmarks" in adopted.err

    questions = [{"question": f"問{number}？", "criteria": f"基準{number}", "category": "甲"} for number in (1, 2)]
    Path("tengu.jsonl").write_bytes(b"\n".join(map(orjson.dumps, questions)))  # the second one is left out
    said = {"lab/thinker": "答え {x}", "gpt-4": "評点＝4.5 評点＝2.5"}
    with running_mock(script=lambda body, _: said[body["model"]]) as mock:
        where = ("--base-url", mock.base_url, "--judge-base-url", mock.base_url, "--questions", Path.cwd())
        chosen = ("--preset", "old", "--model", "lab/thinker", "--judge-model", "gpt-4", "--benchmark", "tengu")
        done = run_without_dagster("run-evals", *chosen, *where).succeeded()

    answer, judgement = mock.bodies
    assert answer == {
        "model": "lab/thinker",
        "messages": [{"role": "system", "content": "丁寧に。"}, {"role": "user", "content": "問1？"}],
        "temperature": 0.3,
        "max_tokens": 900,
        "min_p": 0.1,
        "frequency_penalty": 0.5,
    }
    assert judgement["messages"] == [
        {"role": "user", "content": "【問】例の問い\n【基準】例の基準\n【答】例の答え\n"},
        {"role": "assistant", "content": "評点＝3"},
        {"role": "user", "content": "【問】問1？\n【基準】基準1\n【答】答え {x}\n"},
    ]
    assert (judgement["temperature"], judgement["max_tokens"]) == (0, 50)
    assert "gpt-4+old" in done.out
    scores = run("shaberi", "sql", "select judge, score from judgements", "--format", "json").succeeded()
    assert orjson.loads(scores.out) == [{"judge": "gpt-4+old", "score": 2.0}]
    assert "adopted set old: old-suite at" in run("shaberi", "doctor").out.replace("  ", " ")


@pytest.fixture
def old(repository: Path) -> None:
    assert run("shaberi", "adopt", repository, "--name", "old").code == 3


def adopted_judge(model: str, benchmark: str = "tengu", base_url: str | None = None) -> AdoptedJudge:
    settings, endpoint = adopted_defaults("old", model, resolve_endpoint(model, base_url))
    spec = JudgeSpec(model=model, prompt="old", endpoint=endpoint, **settings)
    return AdoptedJudge(spec, get_benchmark(benchmark))


def question(text: str = "問？") -> Question:
    return Question("q" * 64, 1, None, None, text, None, "基準")


def scored(judge: AdoptedJudge, *replies: str) -> tuple[float | None, list[str]]:
    """The score, and what was asked beyond the first call."""
    asked: list[str] = []

    async def ask(messages: Any) -> str:
        asked.append(messages[0].content)
        return replies[len(asked)]

    return asyncio.run(judge.score(question(), "答", replies[0], ask)), asked


@pytest.mark.long
def test_the_set_says_where_it_is_from_without_telling_more(repository):
    address = "https://user:secret-token@example.com/somebody/suite-fork.git?key=secret"
    git(repository, "remote", "add", "origin", address)
    run("shaberi", "adopt", repository)
    (name,) = adopted_sets()
    adopted = adopted_sets()[name]
    commit = git(repository, "rev-parse", "HEAD")
    assert (name, adopted.source, adopted.commit) == (f"suite_fork_{commit[:7]}", "suite-fork", commit)
    text = Path(f"plugins/adopted/{name}.yaml").read_text()
    assert "secret" not in text
    assert str(repository.parent) not in text


def test_a_folder_without_git_is_read_as_it_lies_there(tmp_path):
    folder = tmp_path / "plain"
    folder.mkdir()
    for name, text in {"config": CONFIG, "calls": CALLS}.items():
        (folder / f"{name}.py").write_text(text)
    read = read_checkout(folder)
    assert (read.source, read.commit, sorted(read.files)) == ("plain", None, ["calls.py", "config.py"])
    assert "is not a git repository" in run("shaberi", "adopt", folder, "--commit", "HEAD").complaint


def test_the_working_tree_of_a_repository_does_not_count(repository):
    assert "【問題】" in read_checkout(repository).files["config.py"]
    assert "【問】" in read_checkout(repository, "HEAD~1").files["config.py"]
    assert "has no commit nowhere" in run("shaberi", "adopt", repository, "--commit", "nowhere").complaint
    assert "is not the name of a commit" in run("shaberi", "adopt", repository, "--commit=--help").complaint


def test_nothing_of_a_hostile_repository_is_run(repository, tmp_path):
    marker = tmp_path / "marker"
    hook = repository / ".git" / "hooks" / "post-index-change"
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    settings = (
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "diff.external",
        "filter.x.smudge",
        "diff.x.textconv",
    )
    for setting in settings:
        git(repository, "config", setting, f"touch {marker};")
    (repository / ".gitattributes").write_text("*.py filter=x diff=x\n")
    (repository / "sitecustomize.py").write_text(f"open({str(marker)!r}, 'w')\n")
    marker.unlink(missing_ok=True)
    assert read_checkout(repository).files
    assert not marker.exists()


def test_symbolic_links_lead_nowhere(tmp_path):
    secret = tmp_path / "secret.py"
    secret.write_text("KEY = 1")
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "config.py").write_text(CONFIG)
    (folder / "link.py").symlink_to(secret)
    assert list(read_checkout(folder).files) == ["config.py"]


@pytest.mark.usefixtures("old")
def test_a_judge_scores_as_the_suite_does():
    judge = adopted_judge("gpt-4")
    assert judge.most_calls == 2
    assert scored(judge, "評点＝4.5 評点＝2.5") == (2.0, [])  # half to even
    assert scored(judge, " なし ", "評点＝1") == (None, ["点だけ：なし"])  # an error that nobody catches writes no row
    assert scored(judge, " なし ", " 7.5 ") == (8.0, ["点だけ：なし"])


@pytest.mark.usefixtures("old")
def test_a_judge_is_asked_where_and_as_the_suite_asks_it():
    judge = adopted_judge("gpt-5.1-2025-11-13", "rakuda")
    body = request_body(judge.request_for(question(), "答{x}"))
    assert body == {
        "model": "gpt-5.1-2025-11-13",
        "input": [{"role": "user", "content": "問 問？\n答 答{x}"}],
        "store": False,
        "temperature": 0,
        "max_output_tokens": 50,
        "reasoning": {"effort": "none"},
    }
    renamed = adopted_judge("judge-small", base_url="http://localhost:1/v1")
    assert renamed.name == "judge-small+old"
    assert renamed.request_for(question(), "答").model == "served/small"


@pytest.mark.usefixtures("old")
def test_settings_follow_the_name_of_the_model():
    local = "http://localhost:1/v1"
    limits = {
        name: answer_settings("old", name, resolve_endpoint(name, local)).max_tokens for name in ("m", "lab/thinker")
    }
    assert limits == {"m": 300, "lab/thinker": 900}
    assert judge_settings("old", "gpt-5.1-x", resolve_endpoint("gpt-5.1-x")).api == "responses"


@pytest.mark.usefixtures("old")
def test_what_the_request_says_itself_wins():
    request = RunRequest(
        model="m", base_url="http://localhost:1/v1", preset="old", temperature=0.9, parameters=["min_p=0.2"]
    )
    filled = with_preset(request)
    assert (filled.temperature, filled.max_tokens, filled.system_prompt) == (0.9, 300, "丁寧に。")
    assert filled.parameters == ["min_p=0.1", "min_p=0.2"]  # the last one wins
    assert (filled.benchmarks, filled.judge_prompt) == (["tengu", "rakuda"], None)
    assert with_preset(filled).max_tokens == 300


@pytest.mark.usefixtures("old")
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--preset", "odl"), "unknown adopted set 'odl'; did you mean old"),
        (("--preset", "old", "--benchmark", "elyza"), "the adopted set old has no elyza: it has tengu, rakuda"),
    ],
)
def test_what_a_set_has_not_is_said(options, complaint):
    refused = run("run-evals", "--model", "m", "--base-url", "http://localhost:1/v1", *options)
    assert complaint in refused.complaint


def test_a_checkout_without_a_table_is_refused(tmp_path):
    (tmp_path / "some.py").write_text("x = 1\n")
    (tmp_path / "broken.py").write_text("def (:\n")
    complaint = run("shaberi", "adopt", tmp_path).complaint
    assert "nothing can be adopted: the checkout: no table of data sets" in complaint
    assert "broken.py:1: does not parse" in complaint


@pytest.mark.usefixtures("old")
def test_a_file_that_differs_is_not_overwritten(repository):
    assert run("shaberi", "adopt", repository, "--name", "old").code == 3  # the same again
    assert (
        "is there and differs" in run("shaberi", "adopt", repository, "--name", "old", "--commit", "HEAD~1").complaint
    )


ODD = [
    *(
        "\n",
        "\n\n",
        " \n",
        "\n ",
        "  lead\n",
        "trail  \n\n\n",
        "\t\n\ttab\n",
        "a\r\nb\r",
        "\x85\u2028\ufeff\n",
        "\x07\n",
        "# no\n---\n",
    ),
    *(
        "null",
        "true",
        "1e3",
        "~",
        "",
        "- a\n- b",
        "{a: b}",
        "'",
        '"\n"',
        "&x *y\n",
        "\\n\n",
        "|\n>\n",
        "\u3000\n",
        "\U0001f600\n",
    ),
]


@pytest.mark.parametrize("text", ODD)
def test_a_text_comes_out_of_the_file_as_it_went_in(tmp_path, text):
    prompt = f"{text}問\n{text}"
    config = CONFIG.replace(
        "f\"問 {row['Question']}\\n答 {row['ModelAnswer']}\"", f"{prompt!a} + row['Question'] + {text!a}"
    )
    assert config != CONFIG
    folder = tmp_path / "suite"
    folder.mkdir()
    for name, source in {"config": config, "calls": CALLS}.items():
        (folder / f"{name}.py").write_text(source)
    adoption = adopt(folder, None, "odd", tmp_path / "plugins", ())
    stored = AdoptedSet.model_validate(yaml.safe_load(adoption.path.read_text()))
    call = first_call(stored.benchmarks["rakuda"].judge, {"question": "Q", "answer": "A", "model": "m"})
    assert call is not None
    assert call.messages == [{"role": "user", "content": f"{prompt}Q{text}"}]


@pytest.mark.long
@pytest.mark.usefixtures("old")
def test_imported_answers_are_judged_with_the_set(tmp_path):
    tree = LegacyTree(tmp_path / "tree")
    answers = ["<think>う</think> 一", "二", "三"]
    tree.answers("rakuda", rows_of("rakuda", answers))
    tree.judgements("rakuda", rows_of("rakuda", answers, [3, 4, 5]))
    run("shaberi", "import-legacy", f"tree={tree.root}").succeeded()

    said = {"一": "7", "二": "99", "三": "なし"}
    with running_mock(script=lambda body, _: said[body["messages"][0]["content"][-1]]) as mock:
        chosen = ("--preset", "old", "--model", "org__model", "--tag", "legacy", "--judge-model", "gpt-4")
        judged = run_without_dagster("run-evals", *chosen, "--judge-base-url", mock.base_url)

    assert judged.code == 3  # one judge's text has no score
    assert {body["messages"][0]["content"].partition("答 ")[2] for body in mock.bodies} >= {"二", "三"}
    question = "select score, out_of_scale, error_class from judgements where judge = 'gpt-4+old' order by score"
    rows = orjson.loads(run("shaberi", "sql", question, "--format", "json").succeeded().out)
    assert [(row["score"], row["out_of_scale"], row["error_class"]) for row in rows] == [
        (7.0, False, None),
        (99.0, True, None),
        (None, None, "no_score"),
    ]
