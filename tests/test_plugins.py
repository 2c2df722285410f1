"""What lies in a plugin folder is used like the project's own, and what is broken stops nothing else."""

import os
from pathlib import Path

import pytest

from shaberi_dagster.benchmarks.questions import load_question_set
from shaberi_dagster.benchmarks.registry import ALL_BENCHMARKS, get_benchmark, parse_benchmarks
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.plugins import PluginError
from shaberi_dagster.prompting import (
    PromptError,
    fallback_prompt_hash,
    generation_messages,
    generation_prompt_hash,
    judge_prompt_hash,
)
from shaberi_dagster.runs.planning import plan_run
from shaberi_dagster.runs.spec import RunRequest
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings

pytestmark = pytest.mark.unit
TRIVIA = """
title: Trivia
description: Short questions about nothing in particular.
scale_minimum: 0
scale_maximum: 10
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty plugin folder."""
    path = tmp_path / "mine"
    monkeypatch.setenv("SHABERI_PLUGINS", str(path))
    return path


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_yaml_file_with_questions_beside_it_is_a_benchmark(folder):
    put(folder, "benchmarks/trivia.yaml", TRIVIA)
    put(folder, "benchmarks/trivia.jsonl", '{"question": "1+1?"}\n{"question": "2+2?"}\n')
    trivia = get_benchmark("trivia")
    assert (trivia.title, trivia.scale_maximum, trivia.has_rule) == ("Trivia", 10, False)
    assert trivia.judging.primary_template == "judging/trivia/primary"
    assert [one.question for one in load_question_set(trivia, "starter").questions] == ["1+1?", "2+2?"]
    assert list(ALL_BENCHMARKS)[-2:] == ["hallumix", "trivia"]
    assert "trivia" not in [one.name for one in parse_benchmarks("all")]


def test_a_benchmark_without_questions_says_so(folder):
    put(folder, "benchmarks/trivia.yaml", TRIVIA)
    with pytest.raises(ConfigurationError, match="trivia comes without questions"):
        load_question_set(get_benchmark("trivia"), "starter")


def test_a_reader_beside_a_benchmark_reads_its_rows(folder):
    put(folder, "benchmarks/trivia.yaml", TRIVIA + "reader: quiz.read\n")
    put(folder, "benchmarks/trivia.csv", "ask,right\n1+1?,2\n")
    put(
        folder,
        "benchmarks/quiz.py",
        "from shaberi_dagster.benchmarks.upstream import Asked\n\n"
        "def read(row):\n    return Asked(row['ask'], row['right'])\n",
    )
    (question,) = load_question_set(get_benchmark("trivia"), "starter").questions
    assert (question.question, question.reference, question.upstream_id) == ("1+1?", "2", "trivia-0")


@pytest.mark.parametrize(
    ("reader", "why"), [("nobody.read", "no nobody.py beside it"), ("quiz.write", "no function 'write'")]
)
def test_a_reader_that_is_missing_is_named(folder, reader, why):
    put(folder, "benchmarks/trivia.yaml", TRIVIA + f"reader: {reader}\n")
    put(folder, "benchmarks/trivia.csv", "ask,right\n1+1?,2\n")
    put(folder, "benchmarks/quiz.py", "")
    with pytest.raises(PluginError, match=why):
        load_question_set(get_benchmark("trivia"), "starter")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (TRIVIA + "colour: red\n", r"trivia.yaml:6: colour: Unexpected"),
        (TRIVIA.replace("10", "ten"), r"trivia.yaml:5: scale_maximum: Input should be a valid integer"),
        (TRIVIA + "hub: {repository: a/b}\n", r"trivia.yaml:6: hub.split: Field required"),
        (TRIVIA + "columns:\n  question: [ask]\n  answer: [a]\n", r"trivia.yaml:8: columns.answer"),
        (TRIVIA + "title: [\n", r"trivia.yaml:7: is no YAML"),
        (TRIVIA + "name: other\n", r"trivia.yaml: name is what the file is called"),
        (TRIVIA.replace("10", "0"), "scale_minimum must be below"),
        ("- a\n", "must be a mapping"),
    ],
)
def test_a_broken_benchmark_is_named_with_file_and_line_and_stops_no_other(folder, text, why):
    put(folder, "benchmarks/trivia.yaml", text)
    put(folder, "benchmarks/fine.yaml", TRIVIA)
    assert "trivia" not in ALL_BENCHMARKS
    assert list(ALL_BENCHMARKS)[-1] == "fine"
    with pytest.raises(PluginError, match=why):
        get_benchmark("trivia")
    (problem,) = ALL_BENCHMARKS.problems()
    assert str(folder / "benchmarks/trivia.yaml") in str(problem)


def test_a_name_that_is_taken_is_an_error_that_names_both_files(folder, tmp_path, monkeypatch):
    mine = put(folder, "benchmarks/elyza.yaml", TRIVIA)
    with pytest.raises(PluginError, match=r"mine/benchmarks/elyza.yaml: elyza is the name of .*/benchmarks/elyza.yaml"):
        get_benchmark("elyza")
    assert ALL_BENCHMARKS["elyza"].title == "ELYZA-tasks-100"
    assert get_benchmark("tengu")
    other = put(tmp_path / "other", "benchmarks/trivia.yaml", TRIVIA)
    put(folder, "benchmarks/trivia.yaml", TRIVIA)
    monkeypatch.setenv("SHABERI_PLUGINS", os.pathsep.join([str(tmp_path / "other"), str(folder)]))
    problems = "\n".join(map(str, ALL_BENCHMARKS.problems()))
    assert str(mine) in problems
    assert f"{folder}/benchmarks/trivia.yaml: trivia is the name of {other}" in problems


@pytest.mark.parametrize("name", ["all", "with space", "9lives"])
def test_a_file_whose_name_cannot_be_a_name_is_refused(folder, name):
    put(folder, f"benchmarks/{name}.yaml", TRIVIA)
    with pytest.raises(PluginError, match="cannot be the name of a benchmark"):
        get_benchmark(name)


def test_an_unknown_name_is_refused_with_the_known_ones_of_the_folder_too(folder):
    put(folder, "benchmarks/trivia.yaml", TRIVIA)
    with pytest.raises(ConfigurationError, match=r"unknown benchmark 'trivial'; known: elyza, .*, trivia$"):
        get_benchmark("trivial")


def test_without_the_variable_plugins_are_in_the_working_directory(tmp_path, monkeypatch):
    put(tmp_path / "plugins", "benchmarks/trivia.yaml", TRIVIA)
    monkeypatch.chdir(tmp_path)
    assert get_benchmark("trivia").title == "Trivia"


def test_a_benchmark_says_who_judges_it(folder):
    put(folder, "benchmarks/trivia.yaml", TRIVIA + "judges: [gpt-5.1]\nsamples: 2\n")
    put(folder, "benchmarks/trivia.jsonl", '{"question": "1+1?"}\n')
    put(folder, "prompts/judging/trivia/primary.jinja", "{{ answer }}")
    workspace = Workspace(Settings.from_environment(), environment={})
    spec = plan_run(RunRequest(model="m", base_url="http://localhost:1/v1", benchmarks=["trivia"]), workspace)
    assert (spec.benchmarks["trivia"].judges, spec.benchmarks["trivia"].samples) == (("gpt-5.1",), 2)


def test_one_changed_template_is_enough_and_the_others_are_the_project_s(folder, tmp_path, monkeypatch):
    whole = Workspace(Settings.from_environment(), environment={}).prompts
    elyza, tengu = get_benchmark("elyza"), get_benchmark("tengu")
    put(tmp_path / "over", "judging/elyza/primary.jinja", "{{ question }} {{ answer }} FINAL SCORE: 1")
    monkeypatch.setenv("SHABERI_PROMPTS", str(tmp_path / "over"))
    changed = Workspace(Settings.from_environment(), environment={}).prompts
    assert judge_prompt_hash(changed, elyza) != judge_prompt_hash(whole, elyza)
    assert judge_prompt_hash(changed, tengu) == judge_prompt_hash(whole, tengu)
    # A plugin's template is below the user's, and above the project's.
    put(folder, "prompts/judging/elyza/primary.jinja", "another")
    put(folder, "prompts/judging/tengu/primary.jinja", "another")
    both = Workspace(Settings.from_environment(), environment={}).prompts
    assert judge_prompt_hash(both, elyza) == judge_prompt_hash(changed, elyza)
    assert judge_prompt_hash(both, tengu) != judge_prompt_hash(whole, tengu)


def test_a_benchmark_s_own_user_and_fallback_templates_are_taken_where_there_are_some(folder):
    def prompts():
        return Workspace(Settings.from_environment(), environment={}).prompts

    rakuda, elyza = get_benchmark("rakuda"), get_benchmark("elyza")
    versions = generation_prompt_hash, fallback_prompt_hash
    before = {(one, name): one(prompts(), name) for one in versions for name in (rakuda, elyza)}
    put(folder, "prompts/generation/rakuda/user.jinja", "In one line: {{ question }}")
    put(folder, "prompts/judging/rakuda/fallback.jinja", "Score? {{ judge_output }}")
    after, question = prompts(), load_question_set(rakuda, "starter").questions[0]
    assert generation_messages(after, rakuda, question)[-1].content == f"In one line: {question.question}"
    for version in versions:
        assert version(after, rakuda) != before[version, rakuda]
        assert version(after, elyza) == before[version, elyza]


def test_a_variant_lies_over_all_folders(folder, tmp_path, monkeypatch):
    put(folder, "prompts/variants/strict/judging/elyza/primary.jinja", "strict")
    put(tmp_path / "over", "judging/elyza/primary.jinja", "over")
    monkeypatch.setenv("SHABERI_PROMPTS", str(tmp_path / "over"))
    library = Workspace(Settings.from_environment(), environment={}).prompts
    assert library.variants == ["strict"]
    (template,) = library.variant("strict").templates("judging/elyza/primary")
    assert (template.source, template.file) == ("strict", "variants/strict/judging/elyza/primary.jinja")
    with pytest.raises(PromptError, match=r"no prompt variant 'lax'; variants in .*: strict"):
        library.variant("lax")
