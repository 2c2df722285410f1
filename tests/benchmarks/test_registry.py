import pytest
import yaml

from shaberi_dagster.llm.types import Message
from shaberi_dagster.tasks.benchmarks.questions import load_question_set
from shaberi_dagster.tasks.benchmarks.registry import (
    BENCHMARKS,
    ENSEMBLE_BENCHMARKS,
    checked_benchmark,
    get_benchmark,
    parse_benchmarks,
)
from shaberi_dagster.tasks.prompts.library import generation_messages
from shaberi_dagster.util.errors import ConfigurationError

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("name", "minimum", "maximum", "multiplier"),
    [("elyza", 1, 5, 2), ("tengu", 0, 10, 1), ("mt_bench", 1, 10, 1), ("rakuda", 1, 10, 1)],
)
def test_the_scales_are_those_of_shaberi(name, minimum, maximum, multiplier):
    benchmark = get_benchmark(name)
    assert (benchmark.scale_minimum, benchmark.scale_maximum) == (minimum, maximum)
    assert benchmark.reported_multiplier == multiplier


def test_every_benchmark_is_generated_and_judged_with_the_agreed_sampling():
    for benchmark in BENCHMARKS.values():
        sampling = benchmark.generation.sampling
        assert (sampling.temperature, sampling.max_tokens, sampling.frequency_penalty) == (0.2, 6000, 0)
        assert (benchmark.judging.sampling.temperature, benchmark.judging.sampling.max_tokens) == (0, 4096)


def test_all_means_the_four_benchmarks_in_their_order():
    assert [each.name for each in parse_benchmarks("all")] == ["elyza", "tengu", "mt_bench", "rakuda"]


def test_an_answer_of_the_ensemble_evaluation_is_right_or_wrong_by_the_rules_of_its_type():
    graders = {each.name: each.grader for each in ENSEMBLE_BENCHMARKS.values()}
    assert graders == {
        "gsm8k": "rule:numeric",
        "math500": "rule:math",
        "simpleqa": "rule:match",
        "hle": "rule:match",
        "hallumix": "rule:yes_no",
        **dict.fromkeys(("truthfulqa", "gpqa", "mmlu_pro", "arc", "hellaswag"), "rule:mcq"),
    }
    for each in ENSEMBLE_BENCHMARKS.values():
        assert (each.scale_minimum, each.scale_maximum, each.reported_multiplier) == (0, 1, 1)


def test_a_question_of_the_ensemble_evaluation_is_all_that_a_model_gets(workspace):
    benchmark = get_benchmark("hellaswag")
    question = load_question_set(benchmark, "starter").questions[0]
    messages = generation_messages(workspace.prompts, benchmark, question)
    assert messages == (Message("user", question.question),)
    assert benchmark.generation.sampling.temperature == 0.7


@pytest.mark.parametrize("name", [*BENCHMARKS, *ENSEMBLE_BENCHMARKS])
def test_our_own_files_which_are_read_unchecked_stand_the_check_of_plugins(name):
    own = get_benchmark(name)
    values = {**yaml.safe_load(own.file.path.read_text(encoding="utf-8")), "name": name, "file": own.file}
    values |= {
        "questions": own.questions,
        "judging": {"primary_template": own.judging.primary_template} | values.get("judging", {}),
    }
    assert checked_benchmark()(values) == own


def test_a_list_keeps_its_order_and_names_each_benchmark_once():
    assert [each.name for each in parse_benchmarks(" rakuda,elyza ,rakuda")] == ["rakuda", "elyza"]


@pytest.mark.parametrize("text", ["elyza,tangu", "tangu", "all,tangu"])
def test_an_unknown_benchmark_is_refused_with_the_known_names(text):
    with pytest.raises(ConfigurationError, match=r"unknown benchmark '(tangu|all)'; did you mean (tengu|hallumix)"):
        parse_benchmarks(text)


@pytest.mark.parametrize("text", ["", " , "])
def test_an_empty_list_is_refused(text):
    with pytest.raises(ConfigurationError, match="no benchmark named"):
        parse_benchmarks(text)
