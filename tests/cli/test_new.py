import pytest

from shaberi_dagster.cli.new import new
from shaberi_dagster.plugins.new import ExampleKind
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.tasks.benchmarks.questions import load_question_set
from shaberi_dagster.tasks.benchmarks.registry import get_benchmark
from shaberi_dagster.tasks.consensus.registry import STRATEGIES
from shaberi_dagster.tasks.judges.rules.registry import GRADERS
from shaberi_dagster.tasks.passes.base import Answer
from shaberi_dagster.tasks.passes.registry import make_pass
from shaberi_dagster.tasks.prompts.library import judge_messages
from shaberi_dagster.util.errors import ConfigurationError

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "plugins"


def test_a_new_benchmark_has_questions_and_a_prompt_that_shows_them(folder, capsys):
    new(ExampleKind.BENCHMARK, "river_names")
    written = capsys.readouterr().out.split()
    files = ("benchmarks/river_names.yaml", "benchmarks/river_names.jsonl", "prompts/judging/river_names/primary.jinja")
    assert written == [f"{folder}/{file}" for file in files]

    benchmark = get_benchmark("river_names")
    assert benchmark.title == "RiverNames"
    question = load_question_set(benchmark, "starter").questions[0]
    (message,) = judge_messages(
        Workspace(Settings.from_environment(), environment={}).prompts, benchmark, question, "回答"
    )
    assert question.reference in message.content


def test_a_new_pass_rule_and_strategy_work_as_they_are():
    for kind in (ExampleKind.PASS, ExampleKind.JUDGE, ExampleKind.STRATEGY):
        new(kind, "mine")
    answer = Answer("b", "q", "?", None, None, None, "x" * 2001, None)
    assert make_pass("mine", {}).examine(answer).reason == "2001 characters"
    assert GRADERS.use("rule:mine").extract("first\nTokyo.", None) == "Tokyo."
    assert STRATEGIES.use("mine").name == "mine"


def test_nothing_is_written_over(folder):
    new(ExampleKind.PASS, "mine")
    (folder / "passes/mine.py").write_text("changed", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="there is a pass mine already"):
        new(ExampleKind.PASS, "mine")
    assert (folder / "passes/mine.py").read_text(encoding="utf-8") == "changed"
    (folder / "prompts/judging/quiz").mkdir(parents=True)
    (folder / "prompts/judging/quiz/primary.jinja").write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"quiz/primary.jinja is there already"):
        new(ExampleKind.BENCHMARK, "quiz")
    assert not (folder / "benchmarks").exists()


@pytest.mark.parametrize(
    ("name", "why"), [("Mine", "cannot be a name"), ("../x", "cannot be a name"), ("repetition", "a pass repetition")]
)
def test_a_name_that_is_none_or_is_taken_is_refused(folder, name, why):
    with pytest.raises(ConfigurationError, match=why):
        new(ExampleKind.PASS, name)
    assert not folder.exists()
