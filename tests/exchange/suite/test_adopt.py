"""`shaberi adopt` on git repositories and folders, and runs with what it wrote."""

import ast
import asyncio
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from shaberi_dagster.exchange.suite import reading
from shaberi_dagster.exchange.suite.checkout import read_checkout
from shaberi_dagster.exchange.suite.structure import structure
from shaberi_dagster.exchange.suite.writing import Adoption, adopt
from shaberi_dagster.llm.endpoints import request_body, resolve_endpoint
from shaberi_dagster.runs.planning import adopted_defaults, with_preset
from shaberi_dagster.runs.spec import RunRequest
from shaberi_dagster.tasks.benchmarks.questions import Question
from shaberi_dagster.tasks.benchmarks.registry import get_benchmark
from shaberi_dagster.tasks.judges.adopted import AdoptedJudge
from shaberi_dagster.tasks.judges.sets import ADOPTED, AdoptedSet, answer_settings, judge_settings
from shaberi_dagster.tasks.judges.spec import JudgeSpec
from shaberi_dagster.util.errors import ConfigurationError
from tests.commands import run, run_without_dagster
from tests.exchange.trees.trees import LegacyTree, rows_of
from tests.mock_endpoint import running_mock

pytestmark = pytest.mark.integration

CONFIG = r'''
import re
from llm_functions import get_model_response

tengu_example_question_answer = {"Question": "例{の}問い", "Answer": None, "Criteria": "例の基準", "ModelAnswer": "例の答え"}
tengu_example_evaluation = "評点＝3"

def get_tengu_prompt(data):
    return "the last definition counts"

def get_tengu_prompt(data):
    """A prompt."""
    answer = data["Answer"]
    reference = f"【例】{answer}" if answer is not None else ""
    return f"【問】{data['Question']}\n{reference}【基準】{data['Criteria']}\n【答】{data['ModelAnswer']}\n"

def make_tengu_conversation(data):
    return [get_tengu_prompt(tengu_example_question_answer), tengu_example_evaluation, get_tengu_prompt(data)]

def get_tengu_eval_score(text):
    return len(text)

def _fallback_score_from_analysis(text, data, model_name, scale):
    question_text, answer_text, analysis_text, scale_description = data["Question"], data["ModelAnswer"], text, scale
    prompt = f"点だけ（{scale_description}）：{analysis_text}／{question_text}／{answer_text}"
    return get_model_response(prompt, model_name)

def tengu_bench_evaluator(data, model_name):
    return _fallback_score_from_analysis("", data, model_name, "0 から 10")

def get_rakuda_prompt(row):
    return f"問 {row['Question']}\n答 {row['ModelAnswer']}"

def rakuda_evaluator(row, model_name):
    return get_model_response(get_rakuda_prompt(row), model_name)

EXCLUDED_QUESTION_IDS_BY_DATASET: dict = {"lightblue/tengu_bench": {2}}

EVAL_MODEL_CONFIGS = {
    "lightblue/tengu_bench": {"question_column": "Question", "evaluator_function": tengu_bench_evaluator},
    "yuzuai/rakuda-questions": {"question_column": "text", "evaluator_function": rakuda_evaluator},
    "someone/other-questions": {"question_column": "text", "evaluator_function": rakuda_evaluator},
}
'''
CALLS = """
def get_response_func(model_name):
    return get_response_from_openai

def get_response_from_openai(messages, model_name):
    return "?"

def get_response_from_llmjudge(messages, model_name):
    return "!"

def get_answer(question, model_name):
    thinking_models = ["lab/thinker", "lab/thinker"]
    openai_prefixes = ["gpt-"]
    return ask([{"role": "system", "content": "丁寧に。"}, {"role": "user", "content": question}])
"""
GENERATE = """
def load_model_dataset(name):
    return name

def main():
    load_model_dataset("all")
"""
JUDGE = """
def evaluate(model_name):
    return model_name
"""
FILES = {
    "evaluation_datasets_config.py": CONFIG,
    "llm_functions.py": CALLS,
    "generate_answers.py": GENERATE,
    "judge_answers.py": JUDGE,
}
BEHAVIOURS = {
    "make_tengu_conversation": "example first",
    "get_tengu_eval_score": "S6",
    "tengu_bench_evaluator": "F1",
    "_fallback_score_from_analysis": "F1",
    "rakuda_evaluator": "S4",
    "get_response_func": "K5",
    "get_response_from_openai": "K5",
    "get_response_from_llmjudge": "K4 K5",
    "get_answer": "G12",
    "load_model_dataset": "R1",
    "main": "1.0",
    "evaluate": "H2",
}
"""What is to be known of these functions, as if they were those of a version of the suite."""


def written(folder: Path, files: Mapping[str, str] = FILES) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def known(monkeypatch) -> None:
    """The functions above are those of a known version."""
    definitions = {
        (file, node.name): {structure(node): BEHAVIOURS[node.name]}
        for file, text in FILES.items()
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.name in BEHAVIOURS
    }
    facts = reading.known
    monkeypatch.setattr(reading, "known", lambda part: {place: definitions.get(place, {}) for place in facts(part)})


def git(folder: Path, *arguments: str) -> str:
    options = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *options, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Path:
    """Two commits of a suite; the folder beside it is where commands run."""
    folder = written(tmp_path / "old-suite")
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "first")
    (folder / "evaluation_datasets_config.py").write_text(CONFIG.replace("【問】", "【問題】"))
    git(folder, "commit", "-am", "second")
    (folder / "evaluation_datasets_config.py").write_text("not what was committed")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return folder


@pytest.fixture
def old(repository: Path, known: None) -> Adoption:  # noqa: ARG001  (what it adopts is known)
    return adopt(repository, "HEAD~1", "old", Path("plugins"), ())


@pytest.mark.long
def test_a_commit_is_adopted_asked_and_judged_with(repository, old):
    first = git(repository, "rev-parse", "HEAD~1")
    said = f"old: old-suite at {first[:7]}, judge prompts of no known generation: tengu, rakuda, answers; 1 refused"
    assert old.sentences == [str(old.path), said]
    assert old.refusals == (
        "not adopted: evaluation_datasets_config.py: this project has no benchmark someone/other-questions"
    )

    questions = [{"question": f"問{number}？", "criteria": f"基準{number}", "category": "甲"} for number in (1, 2)]
    Path("tengu.jsonl").write_bytes(b"\n".join(map(orjson.dumps, questions)))  # the second one is left out
    said = {"lab/thinker": "答え {x}", "gpt-4": "FINAL SCORE: 4.5 FINAL SCORE: 2.5"}
    with running_mock(script=lambda body, _: said[body["model"]]) as mock:
        where = ("--base-url", mock.base_url, "--judge-base-url", mock.base_url, "--questions", Path.cwd())
        chosen = ("--preset", "old", "--model", "lab/thinker", "--judge-model", "gpt-4", "--benchmark", "tengu")
        done = run_without_dagster("run-evals", *chosen, *where).succeeded()

    answer, judgement = mock.bodies
    assert answer == {
        "model": "lab/thinker",
        "messages": [{"role": "system", "content": "丁寧に。"}, {"role": "user", "content": "問1？"}],
        "temperature": 0.2,
        "max_tokens": 30000,
        "min_p": 0.1,
        "frequency_penalty": 1.0,
    }
    assert judgement["messages"] == [
        {"role": "user", "content": "【問】例{の}問い\n【基準】例の基準\n【答】例の答え\n"},
        {"role": "assistant", "content": "評点＝3"},
        {"role": "user", "content": "【問】問1？\n【基準】基準1\n【答】答え {x}\n"},
    ]
    assert (judgement["temperature"], judgement["max_tokens"]) == (0, 1024)
    assert "gpt-4+old" in done.out
    scores = run("shaberi", "sql", "select judge, score from judgements", "--format", "json").succeeded()
    assert orjson.loads(scores.out) == [{"judge": "gpt-4+old", "score": 2.0}]
    assert "adopted set old: old-suite at" in run("shaberi", "doctor").out.replace("  ", " ")


@pytest.mark.parametrize(
    ("changed", "to", "what", "name"),
    [
        ("return len(text)", "return 1", "tengu", "get_tengu_eval_score"),
        ("rakuda_evaluator(row, model_name):", "rakuda_evaluator(row, n):", "rakuda", "rakuda_evaluator"),
        ('return "?"', 'return ""', "judges", "get_response_from_openai"),
        ("return model_name", "return 1", "judges", "evaluate"),
        ("return ask([", "return say([", "answers", "get_answer"),
        ('"all"', '"one"', "answers", "main"),
    ],
)
@pytest.mark.usefixtures("known")
def test_what_is_not_known_is_refused_with_its_line_and_prompts_stay(tmp_path, changed, to, what, name):
    files = {file: text.replace(changed, to) for file, text in FILES.items()}
    (place,) = (
        f"{file}:{node.lineno}"
        for file in files
        if files[file] != FILES[file]
        for node in ast.parse(files[file]).body
        if getattr(node, "name", None) == name
    )
    adopted = adopt(written(tmp_path / "suite", files), None, "old", tmp_path / "plugins", ()).adopted
    (reason,) = (reason for reason in adopted.refused if "someone/other" not in reason)
    assert reason.startswith(f"{what}: {place}: {name} is not known")
    assert all(adopted.benchmarks[benchmark].messages for benchmark in ("tengu", "rakuda"))
    lost = {benchmark for benchmark in ("tengu", "rakuda") if not adopted.judges(benchmark)}
    assert lost == ({"tengu", "rakuda"} if what == "judges" else {what} - {"answers"})
    assert (adopted.answers is None) == (what == "answers")


@pytest.mark.parametrize(
    "body",
    [
        "return data['Question'].strip()",
        "return f'{data[\"Question\"]!r}'",
        "return data['Nothing']",
        'return f\'{data["ModelAnswer"] if data["Criteria"] is None else 1}\'',
        "x = 'no result'",
        "if data:\n        return 'text'",
    ],
)
@pytest.mark.usefixtures("known")
def test_a_prompt_that_is_made_otherwise_is_refused_with_its_line(tmp_path, body):
    config = f"{CONFIG}\ndef get_tengu_prompt(data):\n    {body}\n"
    files = {**FILES, "evaluation_datasets_config.py": config}
    adopted = adopt(written(tmp_path / "suite", files), None, "old", tmp_path / "plugins", ()).adopted
    assert list(adopted.benchmarks) == ["rakuda"]
    (reason,) = (reason for reason in adopted.refused if reason.startswith("tengu"))
    lines = CONFIG.count("\n")
    assert re.match(
        rf"tengu: evaluation_datasets_config.py:({lines + 2}|{lines + 3}): is not read as a prompt: ", reason
    )


FORMER = "source: shaberi\ncommit: 23ffa1e0000\nbenchmarks:\n  tengu: {dataset: a, judge: {return: 1}}\n"


@pytest.mark.usefixtures("known")
def test_a_set_of_an_earlier_version_is_refused_with_the_command_and_replaced(repository):
    file = Path("plugins/adopted/old.yaml")
    file.parent.mkdir(parents=True)
    file.write_text(FORMER)
    refused = run("run-evals", "--model", "m", "--base-url", "http://localhost:1/v1", "--preset", "old").complaint
    assert "`shaberi adopt PATH --commit 23ffa1e0000 --name old`" in refused
    adopt(repository, "HEAD~1", "old", Path("plugins"), ())
    assert "old" in ADOPTED


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
    adopt(repository, None, None, Path("plugins"), ())
    (name,) = ADOPTED
    adopted = ADOPTED[name]
    commit = git(repository, "rev-parse", "HEAD")
    assert (name, adopted.source, adopted.commit) == (f"suite_fork_{commit[:7]}", "suite-fork", commit)
    text = Path(f"plugins/adopted/{name}.yaml").read_text()
    assert "secret" not in text
    assert str(repository.parent) not in text


def test_a_folder_without_git_is_read_as_it_lies_there(tmp_path):
    folder = written(tmp_path / "plain")
    read = read_checkout(folder)
    assert (read.source, read.commit, sorted(read.files)) == ("plain", None, sorted(FILES))
    assert "is not a git repository" in run("shaberi", "adopt", folder, "--commit", "HEAD").complaint


def test_the_working_tree_of_a_repository_does_not_count(repository):
    assert "【問題】" in read_checkout(repository).files["evaluation_datasets_config.py"]
    assert "【問】" in read_checkout(repository, "HEAD~1").files["evaluation_datasets_config.py"]
    assert "has no commit nowhere" in run("shaberi", "adopt", repository, "--commit", "nowhere").complaint
    assert "is not the name of a commit" in run("shaberi", "adopt", repository, "--commit=--help").complaint


def test_nothing_of_a_hostile_repository_is_run(repository, tmp_path):
    marker = tmp_path / "marker"
    hook = repository / ".git" / "hooks" / "post-index-change"
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    programs = (
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "diff.external",
        "filter.x.smudge",
        "diff.x.textconv",
    )
    for setting in programs:
        git(repository, "config", setting, f"touch {marker};")
    (repository / ".gitattributes").write_text("*.py filter=x diff=x\n")
    (repository / "sitecustomize.py").write_text(f"open({str(marker)!r}, 'w')\n")
    marker.unlink(missing_ok=True)
    assert read_checkout(repository).files
    assert not marker.exists()


@pytest.mark.usefixtures("known")
def test_nothing_of_the_source_is_run(tmp_path):
    marker = tmp_path / "marker"
    bomb = f"open({str(marker)!r}, 'w').write('x')\n"
    prompt = f"def get_rakuda_prompt(row, x={bomb.strip()}):\n    {bomb}    return row['Question']\n"
    files = {name: f"{bomb}{text}" for name, text in FILES.items()}
    files["evaluation_datasets_config.py"] += prompt
    adopted = adopt(written(tmp_path / "suite", files), None, "old", tmp_path, ()).adopted
    assert list(adopted.benchmarks) == ["tengu"]
    assert not marker.exists()


def test_symbolic_links_lead_nowhere(tmp_path):
    secret = tmp_path / "secret.py"
    secret.write_text("KEY = 1")
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "llm_functions.py").write_text(CONFIG)
    (folder / "judge_answers.py").symlink_to(secret)
    assert list(read_checkout(folder).files) == ["llm_functions.py"]


@pytest.mark.usefixtures("old")
def test_a_judge_scores_as_the_suite_does():
    judge = adopted_judge("gpt-4")
    assert judge.most_calls == 2
    again = ["点だけ（0 から 10）：な{し}／問？／答"]
    assert scored(judge, "FINAL SCORE: 4.5 FINAL SCORE: 2.5") == (2.0, [])  # half to even
    assert scored(judge, " な{し} ", "<score>1</score>") == (None, again)
    assert scored(judge, " な{し} ", " 7.5 ") == (8.0, again)
    assert scored(judge, f"FINAL SCORE: {'9' * 310}") == (None, [])  # no row
    assert scored(judge, " ") == (None, [])


@pytest.mark.usefixtures("old")
def test_a_judge_is_asked_where_and_as_the_suite_asks_it():
    judge = adopted_judge("gpt-5.1-2025-11-13", "rakuda")
    body = request_body(judge.request_for(question(), "答{x}"))
    assert body == {
        "model": "gpt-5.1-2025-11-13",
        "input": [{"role": "user", "content": "問 問？\n答 答{x}"}],
        "store": False,
        "temperature": 0,
        "max_output_tokens": 1024,
        "reasoning": {"effort": "none"},
    }
    renamed = adopted_judge("llmjudge-athenev2", base_url="http://localhost:1/v1")
    assert renamed.name == "llmjudge-athenev2+old"
    assert renamed.request_for(question(), "答").model == "athene-v2"
    with pytest.raises(ConfigurationError, match="old does not ask some-judge"):
        adopted_judge("some-judge", base_url="http://localhost:1/v1")


@pytest.mark.usefixtures("old")
def test_settings_follow_the_name_of_the_model():
    limits = {name: answer_settings("old", name).max_tokens for name in ("m", "lab/thinker")}
    assert limits == {"m": 6000, "lab/thinker": 30000}
    penalties = {name: answer_settings("old", name).frequency_penalty for name in ("m", "gpt-4", "gemini-2")}
    assert penalties == {"m": 1.0, "gpt-4": 0.0, "gemini-2": 0.0}
    assert judge_settings("old", "gpt-5.1-x").api == "responses"


@pytest.mark.usefixtures("old")
def test_what_the_request_says_itself_wins():
    request = RunRequest(
        model="m", base_url="http://localhost:1/v1", preset="old", temperature=0.9, parameters=["min_p=0.2"]
    )
    filled = with_preset(request)
    assert (filled.temperature, filled.max_tokens, filled.system_prompt) == (0.9, 6000, "丁寧に。")
    assert filled.parameters == ["min_p=0.1", "min_p=0.2"]  # the last one wins
    assert (filled.benchmarks, filled.judge_prompt) == (["tengu", "rakuda"], None)
    assert with_preset(filled).max_tokens == 6000


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
    (tmp_path / "evaluation_datasets_config.py").write_text("def (:\n")
    complaint = run("shaberi", "adopt", tmp_path).complaint
    assert "nothing can be adopted: evaluation_datasets_config.py: no EVAL_MODEL_CONFIGS" in complaint
    assert "evaluation_datasets_config.py:1: does not parse" in complaint


def test_a_file_that_differs_is_not_overwritten(repository, old):
    assert adopt(repository, "HEAD~1", "old", Path("plugins"), ()) == old  # the same again
    with pytest.raises(ConfigurationError, match="is there and differs"):
        adopt(repository, "HEAD", "old", Path("plugins"), ())


ODD = [
    *("\n", "\n\n", " \n", "\n ", "  lead\n", "trail  \n\n\n", "\t\n\ttab\n"),
    *("a\r\nb\r", "\x85\u2028\ufeff\n", "\x07\n", "# no\n---\n"),
    *("null", "true", "1e3", "~", "", "- a\n- b", "{a: b}", "'", '"\n"', "&x *y\n"),
    *("\\n\n", "|\n>\n", "\u3000\n", "\U0001f600\n"),
]


@pytest.mark.parametrize("text", ODD)
@pytest.mark.usefixtures("known")
def test_a_text_comes_out_of_the_file_as_it_went_in(tmp_path, text):
    config = f"""{CONFIG}
def get_rakuda_prompt(row):
    odd = {text!a}
    return f"{{odd}}問\\n{{row['Question']}}{{odd}}"
"""
    adoption = adopt(
        written(tmp_path / "suite", {**FILES, "evaluation_datasets_config.py": config}), None, "odd", tmp_path, ()
    )
    stored = AdoptedSet.model_validate(yaml.safe_load(adoption.path.read_text()))
    assert stored == adoption.adopted
    (message,) = stored.benchmarks["rakuda"].first({"question": "{Q}", "answer": "A", "reference": None})
    assert message.content == f"{text}問\n{{Q}}{text}"


@pytest.mark.long
@pytest.mark.usefixtures("old")
def test_imported_answers_are_judged_with_the_set(tmp_path):
    tree = LegacyTree(tmp_path / "tree")
    answers = ["<think>う</think> 一", "二", "三"]
    tree.answers("rakuda", rows_of("rakuda", answers))
    tree.judgements("rakuda", rows_of("rakuda", answers, [3, 4, 5]))
    run("shaberi", "import-legacy", f"tree={tree.root}").succeeded()

    said = {"一": "評価：[7]", "二": "評価：[[99]]", "三": "なし"}
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
