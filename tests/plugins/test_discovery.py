"""What lies in a plugin folder is used like the project's own, and what is broken stops nothing else."""

import hashlib
import os
import re
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest
import yaml

from shaberi_dagster.cli.command import with_plugins
from shaberi_dagster.lake.catalog import open_catalog, run_query, write_catalog
from shaberi_dagster.lake.queries import QUERIES, find_query
from shaberi_dagster.lake.views import VIEWS
from shaberi_dagster.llm.endpoints import ENDPOINTS, default_max_tokens, request_body, resolve_endpoint
from shaberi_dagster.llm.request import ChatRequest
from shaberi_dagster.llm.types import Message, Sampling
from shaberi_dagster.plugins.discovery import PluginError, load_yaml
from shaberi_dagster.runs.planning import plan_run
from shaberi_dagster.runs.spec import RunRequest, RunSpec
from shaberi_dagster.runs.stored import differences, store_run
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.tasks.benchmarks.questions import load_question_set
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS, get_benchmark, parse_benchmarks
from shaberi_dagster.tasks.consensus.registry import STRATEGIES
from shaberi_dagster.tasks.judges.rule import RuleJudge
from shaberi_dagster.tasks.judges.rules.registry import GRADERS
from shaberi_dagster.tasks.passes.registry import PASSES, make_pass
from shaberi_dagster.tasks.prompts.library import (
    PromptError,
    fallback_prompt_hash,
    generation_messages,
    generation_prompt_hash,
    judge_prompt_hash,
)
from shaberi_dagster.util import folders
from shaberi_dagster.util.errors import ConfigurationError

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
        "from shaberi_dagster.tasks.benchmarks.upstream import Asked\n\n"
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
        (TRIVIA.replace("10", "ten"), r"trivia.yaml:5: scale_maximum: must be a valid integer"),
        (TRIVIA + "hub: {repository: a/b}\n", r"trivia.yaml:6: hub.split: Field required"),
        (TRIVIA + "columns:\n  question: [ask]\n  answer: [a]\n", r"trivia.yaml:8: columns.answer"),
        (TRIVIA + "title: [\n", r"trivia.yaml:7: is not valid YAML"),
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


@pytest.mark.parametrize("name", ["all", "with space", "9lives", "with-dash", "Capital"])
def test_a_file_whose_name_cannot_be_a_name_is_refused(folder, name):
    put(folder, f"benchmarks/{name}.yaml", TRIVIA)
    with pytest.raises(PluginError, match="cannot be the name of a benchmark"):
        get_benchmark(name)


def test_an_unknown_name_is_refused_with_the_known_ones_of_the_folder_too(folder):
    put(folder, "benchmarks/trivia.yaml", TRIVIA)
    with pytest.raises(ConfigurationError, match=r"unknown benchmark 'trivial'; did you mean trivia\?$"):
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


SHOUTING = """from shaberi_dagster.tasks.passes.base import Finding, Pass, PassConfig


class Settings(PassConfig):
    share: float = 0.5


class Shouting(Pass[Settings]):
    name, version, config_class = "shouting", "1", Settings

    def examine(self, answer):
        return Finding(self.config.share, "it shouts") if answer.text.isupper() else Finding()
"""
CONTAINS = """from shaberi_dagster.tasks.judges.rules.base import Grader


class Contains(Grader):
    name, version = "rule:contains", 1

    def extract(self, answer, item):
        return item.reference if item.reference in answer else None
"""
LONGEST = """from shaberi_dagster.tasks.consensus.base import Consensus, Strategy
from shaberi_dagster.llm.types import CallRange


class Longest(Strategy):
    name, minimum = "longest", 1

    def _n_calls(self, n):
        return CallRange(0, 0)

    async def _decide(self, question, candidates, ask):
        longest = max(candidates, key=lambda one: len(one.text))
        return Consensus("ok", longest.text, winner=longest.sample_index)
"""
CODE = [
    (PASSES, "passes/shouting.py", SHOUTING, "shouting"),
    (GRADERS, "judges/contains.py", CONTAINS, "rule:contains"),
    (STRATEGIES, "strategies/longest.py", LONGEST, "longest"),
]
EACH_KIND_OF_CODE = pytest.mark.parametrize(("kind", "file", "code", "name"), CODE, ids=[one[3] for one in CODE])


@EACH_KIND_OF_CODE
def test_a_class_in_a_file_of_its_name_is_one_more_and_is_told_apart_by_its_file(folder, kind, file, code, name):
    path = put(folder, file, code)
    assert list(kind)[-1] == name
    assert kind.use(name).file_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    own = next(iter(kind))
    assert kind.use(own).file_sha256 is None
    assert kind.file(own) is None


@pytest.mark.parametrize("written", CODE, ids=[one[3] for one in CODE])
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda code: f"{code}\nimport nothing_of_this_name\n", r":\d+: ModuleNotFoundError: No module named"),
        (lambda code: code.replace("class", "clas", 1), r":\d+: SyntaxError"),
        (lambda _: "1 / 0", r":1: ZeroDivisionError"),
        (
            lambda code: code.replace('"shouting"', '"other"').replace("ontains", "o").replace('"longest"', '"l"'),
            "has no subclass",
        ),
    ],
    ids=["import", "syntax", "error", "name"],
)
def test_broken_code_is_named_with_file_and_line_and_is_not_run_to_be_listed(folder, written, change, why):
    kind, file, code, name = written
    path = put(folder, file, change(code))
    assert name in list(kind)
    assert kind.use(next(iter(kind)))
    with pytest.raises(PluginError, match=f"{re.escape(str(path))}.*{why}"):
        kind.use(name)
    assert len(list(kind.problems(run_code=True))) == 1


def test_a_class_that_lacks_a_method_is_named(folder):
    put(folder, "passes/shouting.py", SHOUTING.replace("examine", "look_at"))
    with pytest.raises(PluginError, match=r"shouting.py:8: Shouting lacks examine"):
        make_pass("shouting", {})


def test_what_a_plugin_s_pass_or_rule_finds_is_of_its_file(folder, tmp_path, monkeypatch):
    put(folder, "passes/shouting.py", SHOUTING)
    put(tmp_path / "edited", "passes/shouting.py", SHOUTING.replace("isupper", "istitle"))
    put(folder, "judges/contains.py", CONTAINS)
    put(tmp_path / "edited", "judges/contains.py", f"{CONTAINS}\n")
    rated = replace(get_benchmark("simpleqa"), grader="rule:contains")
    library = Workspace(Settings.from_environment(), environment={}).prompts
    before = make_pass("shouting", {}).config_hash, RuleJudge(rated, library).config_hash
    assert before == (make_pass("shouting", {"share": 0.5}).config_hash, RuleJudge(rated, library).config_hash)
    monkeypatch.setenv("SHABERI_PLUGINS", str(tmp_path / "edited"))
    assert make_pass("shouting", {}).config_hash != before[0]
    assert RuleJudge(rated, library).config_hash != before[1]


def graded_run(folder: Path, **asked: object) -> tuple[RunRequest, Workspace]:
    """A request for a benchmark that uses one of each, and where it is planned."""
    put(folder, "benchmarks/trivia.yaml", TRIVIA.replace("10", "1") + "grader: rule:contains\n")
    put(folder, "benchmarks/trivia.jsonl", '{"question": "1+1?", "reference": "2"}\n')
    for _, file, code, _ in CODE:
        put(folder, file, code)
    request = RunRequest(
        **{"model": "m", "base_url": "http://localhost:1/v1", "benchmarks": ["trivia", "arc"], "samples": 3}
        | {"passes": ["shouting"], "strategies": ["longest", "plurality"]}
        | asked
    )
    return request, Workspace(Settings.from_environment(), environment={})


def test_a_run_records_what_it_uses_of_plugin_folders_and_nothing_of_the_project_s(folder):
    request, workspace = graded_run(folder)
    spec = plan_run(request, workspace)
    assert {(one.kind, one.name, one.version) for one in spec.plugins} == {
        ("benchmark", "trivia", None),
        ("rule", "rule:contains", "1"),
        ("strategy", "longest", "1"),
        ("pass", "shouting", "1"),
    }
    assert all(one.sha256 for one in spec.plugins)
    assert spec.benchmarks["trivia"].entry.title == "Trivia"
    assert spec.benchmarks["arc"].entry is None
    assert RunSpec.read(spec.model_dump_json()) == spec
    plain = plan_run(RunRequest(model="m", base_url="http://localhost:1/v1", benchmarks=["arc"]), workspace)
    assert (plain.plugins, plain.benchmarks["arc"].entry) == ((), None)


def test_an_edited_plugin_is_recorded_anew_and_another_scale_is_another_run(folder):
    request, workspace = graded_run(folder)
    stored = plan_run(request, workspace)
    edited = stored.benchmarks["trivia"].entry.model_copy(update={"scale_maximum": 2, "title": "Trifles"})
    other = stored.model_copy(
        update={"benchmarks": {"trivia": stored.benchmarks["trivia"].model_copy(update={"entry": edited})}}
    )
    assert differences(stored, other) == ["trivia scale maximum 1, not 2"]


@pytest.mark.parametrize(
    ("gone", "what"),
    [
        ("benchmarks/trivia.yaml", "the benchmark trivia"),
        ("passes/shouting.py", "the pass shouting"),
        ("judges/contains.py", "the rule rule:contains"),
        ("strategies/longest.py", "the strategy longest"),
    ],
)
def test_a_run_whose_plugin_is_gone_is_not_continued_and_says_what_to_put_back(
    folder, tmp_path, monkeypatch, gone, what
):
    request, workspace = graded_run(folder)
    store_run(plan_run(request, workspace), workspace)
    shutil.copytree(folder, tmp_path / "rest", ignore=lambda *_: [Path(gone).name])
    monkeypatch.setenv("SHABERI_PLUGINS", str(tmp_path / "rest"))
    again = request.model_copy(update={"benchmarks": None, "passes": None, "strategies": None})
    with pytest.raises(ConfigurationError, match=f"run m@@default has {what} of a plugin that is not there now"):
        plan_run(again, workspace)
    if gone.startswith("benchmarks"):  # the others go on
        assert plan_run(again.model_copy(update={"benchmarks": ["arc"]}), workspace).benchmarks.keys() == {
            "trivia",
            "arc",
        }


SERVER = """
base_url: http://localhost:9/v1
api_key: MY_SERVER_KEY
models: ["gpt-local-*"]
rules:
  - {models: ["*"], max_tokens: n_predict, drop: [temperature]}
prices:
  - {model: gpt-local-*, input: 1, output: 2}
"""


def test_an_endpoint_says_where_its_models_are_what_they_are_sent_and_what_they_cost(folder):
    put(folder, "endpoints/my_server.yaml", SERVER)
    endpoint = resolve_endpoint("gpt-local-7b")
    assert (endpoint.name, endpoint.base_url) == ("my_server", "http://localhost:9/v1")
    assert endpoint.api_key_variable == "MY_SERVER_KEY"
    assert resolve_endpoint("gpt-5.1").name == "openai"
    body = request_body(ChatRequest(endpoint, "gpt-local-7b", (Message("user", "?"),), Sampling(0.5, 7)))
    assert (body["n_predict"], body.keys() & {"temperature", "max_tokens"}) == (7, set())
    (price,) = Workspace(Settings.from_environment(), environment={}).prices.history(
        "gpt-local-7b", "http://localhost:9/v1"
    )
    assert (price.input_usd_per_million, price.output_usd_per_million) == (1, 2)
    assert re.fullmatch(r"my_server.yaml [0-9a-f]{12}", price.source)


def test_the_user_s_price_file_comes_before_the_price_of_an_endpoint(folder, tmp_path, monkeypatch):
    put(folder, "endpoints/my_server.yaml", SERVER)
    monkeypatch.setenv("SHABERI_PRICES", str(put(tmp_path, "prices.yaml", "- {model: '*', input: 5, output: 5}")))
    (price,) = Workspace(Settings.from_environment(), environment={}).prices.history(
        "gpt-local-7b", "http://localhost:9/v1"
    )
    assert price.input_usd_per_million == 5


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SERVER.replace("http://localhost:9/v1", "somewhere"), "my_server.yaml: base_url: .*must be like http"),
        (SERVER.replace("MY_SERVER_KEY", "sk-1234"), "api_key must be the name of an environment variable"),
        (SERVER.replace("input: 1", "input: -1"), r"my_server.yaml:8: prices.0.input"),
    ],
)
def test_a_broken_endpoint_is_named_and_serves_nothing(folder, text, why):
    put(folder, "endpoints/my_server.yaml", text)
    assert resolve_endpoint("gpt-local-7b").name == "openai"
    (problem,) = ENDPOINTS.problems()
    assert re.search(why, str(problem))


def test_a_run_at_an_endpoint_that_is_gone_is_refused_by_name(folder, monkeypatch):
    put(folder, "endpoints/my_server.yaml", SERVER)
    endpoint = resolve_endpoint("gpt-local-7b")
    monkeypatch.delenv("SHABERI_PLUGINS")
    with pytest.raises(ConfigurationError, match="unknown endpoint 'my_server'; known: embedded, openai"):
        default_max_tokens(endpoint)


@pytest.fixture
def lake(workspace: Workspace) -> Path:
    workspace.lake.widen("runs")
    write_catalog(workspace.lake)
    return workspace.lake.folder


def test_a_view_is_of_the_readers_own_connection_and_not_in_the_catalog(folder, lake):
    put(folder, "sql/views/long_answers.sql", "-- Answers.\ncreate view long_answers as\nselect answer from answers;\n")
    put(
        folder,
        "sql/queries/how_many.sql",
        "-- How many.\n-- $least = 0\nselect count(*) from long_answers having $least >= 0;",
    )
    with open_catalog(lake) as connection:
        assert run_query(connection, "from long_answers").fetchall() == []
        query = find_query("how_many")
        assert run_query(connection, query.sql, dict(query.bound({}))).fetchall() == [(0,)]
    assert find_query("long_answers").sql == "from long_answers"
    with duckdb.connect(str(lake / "catalog.duckdb"), read_only=True) as shared:
        assert shared.execute("select count(*) from duckdb_views() where view_name = 'long_answers'").fetchone() == (0,)


def test_a_query_says_which_parameters_are_names(folder, lake):
    put(folder, "sql/queries/who.sql", "-- Who.\n-- $m: models\nselect * from runs where model in ($m);")
    put(folder, "sql/queries/typo.sql", "-- Who.\n-- $m: modle = null\nselect * from runs where model = $m;")

    with open_catalog(lake) as connection, pytest.raises(ConfigurationError, match="--param m: no model 'a'; the lake"):
        find_query("who").check_known(connection, {"m": "a,b"})
    with pytest.raises(PluginError, match=r"typo\.sql: no kind of names 'modle'; did you mean model\?"):
        find_query("typo")


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("create view broken as select nothing from answers", r"broken.sql: Binder Error.*nothing"),
        ("create view other as select 1", "must be one statement: create view broken as"),
        ("create view broken as select 1; drop view broken", "must be one statement"),
        ("create view broken as selec 1", r"broken.sql: .*syntax error"),
    ],
)
def test_asking_a_broken_view_says_why_and_the_others_stand(folder, lake, sql, why):
    put(folder, "sql/views/broken.sql", sql)
    put(folder, "sql/views/fine.sql", "create view fine as select 1 as one")
    with open_catalog(lake) as connection:
        assert run_query(connection, "from fine").fetchall() == [(1,)]
        with pytest.raises(ConfigurationError, match=f"(?s){why}"):
            run_query(connection, "from broken").fetchall()


def test_a_view_or_query_cannot_take_a_name_of_ours(folder, lake):
    put(folder, "sql/views/answers.sql", "create view answers as select 1 as one")
    put(folder, "sql/queries/failures.sql", "select 1")
    with open_catalog(lake) as connection:
        assert run_query(connection, "from answers").fetchall() == []
    for name, kind in (("answers", VIEWS), ("failures", QUERIES)):
        with pytest.raises(PluginError, match=f"{name} is the name of .* too"):
            kind.use(name)


def test_an_error_of_a_reader_or_a_rule_names_its_file_and_line(folder):
    put(folder, "benchmarks/trivia.yaml", TRIVIA + "reader: quiz.read\n")
    put(folder, "benchmarks/trivia.csv", "ask,right\n1+1?,2\n")
    put(folder, "benchmarks/quiz.py", "def read(row):\n    return row['nothing']\n")
    with pytest.raises(PluginError, match=r"benchmarks/quiz.py:2: KeyError: 'nothing'"):
        load_question_set(get_benchmark("trivia"), "starter")
    put(folder, "judges/contains.py", CONTAINS.replace("item.reference in answer", "item.nothing"))
    rated = replace(get_benchmark("simpleqa"), grader="rule:contains")
    question = load_question_set(rated, "starter").questions[0]
    rule = RuleJudge(rated, Workspace(Settings.from_environment(), environment={}).prompts)
    with pytest.raises(PluginError, match=r"judges/contains.py:8: AttributeError"):
        rule.case(question, {"answer": "?"})


def test_an_installed_package_brings_a_folder_and_nothing_of_it_is_run_to_find_it(tmp_path, monkeypatch):
    package = tmp_path / "site" / "my_evals"
    put(package, "plugins/benchmarks/trivia.yaml", TRIVIA)
    put(package, "__init__.py", "raise SystemExit('run')")
    put(tmp_path / "site" / "my_evals-1.dist-info", "METADATA", "Name: my-evals\nVersion: 1\n")
    put(tmp_path / "site" / "my_evals-1.dist-info", "entry_points.txt", "[shaberi]\nmine = my_evals.plugins\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    folders._installed_plugins.cache_clear()
    try:
        assert get_benchmark("trivia").title == "Trivia"
    finally:
        folders._installed_plugins.cache_clear()


def test_help_lists_what_plugin_folders_add(folder):
    assert with_plugins("Examples") == "Examples"
    put(folder, "benchmarks/trivia.yaml", TRIVIA)
    put(folder, "passes/shouting.py", "raise SystemExit('run')")
    assert with_plugins("Examples").startswith("From plugin folders:\n  benchmarks: trivia\n  passes: shouting\n")


@pytest.mark.parametrize(
    "text",
    [
        "day: 2026-02-31",
        "number: " + "9" * 10_000,
        "a: &a [*a]",
        "a: &a {b: *a}",
        "[" * 100_000,
        "[" * 5_000 + "]" * 5_000,
        "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
        + "".join(f"{b}: &{b} [{','.join(['*' + a] * 10)}]\n" for a, b in pairwise("abcdefgh")),
        "a: 1\na: 2",
        "a: !!python/object:os.system x",
        "a: [1",
        "\x00",
        "at: 2026-01-01T00:00:00+99:99",
    ],
    ids=range(12),
)
def test_whatever_a_yaml_file_holds_is_an_error_of_yaml(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        load_yaml(text)


def test_aliases_are_read() -> None:
    assert load_yaml("a: &a {b: 1}\nc: *a\nd: [*a, *a]") == {"a": {"b": 1}, "c": {"b": 1}, "d": [{"b": 1}, {"b": 1}]}
