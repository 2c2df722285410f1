from pathlib import Path

import pytest

import shaberi_dagster.tasks.benchmarks.questions as questions_module
from shaberi_dagster.tasks.benchmarks.questions import load_question_set
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS, BENCHMARKS, ENSEMBLE_BENCHMARKS, get_benchmark
from shaberi_dagster.tasks.benchmarks.upstream import hallumix

pytestmark = pytest.mark.unit

SETS = {name: load_question_set(benchmark, "starter") for name, benchmark in BENCHMARKS.items()}
ENSEMBLE = {name: load_question_set(benchmark, "starter") for name, benchmark in ENSEMBLE_BENCHMARKS.items()}


def test_every_benchmark_has_a_small_registered_starter_set():
    assert {name: each.name for name, each in SETS.items()} == {
        "elyza": "elyza@5",
        "tengu": "tengu@5",
        "mt_bench": "mt_bench@6",
        "rakuda": "rakuda@5",
    }
    assert {each.source for each in SETS.values()} == {"starter"}


def test_the_starter_files_are_those_of_the_benchmarks():
    files = (Path(questions_module.__file__).parent / "starter").iterdir()
    assert {path.stem for path in files} == set(ALL_BENCHMARKS)


def test_every_benchmark_of_the_ensemble_evaluation_has_five_registered_questions():
    assert {name: each.name for name, each in ENSEMBLE.items()} == {name: f"{name}@5" for name in ENSEMBLE_BENCHMARKS}


def test_a_starter_set_with_options_has_at_least_four_and_their_right_ones_at_several_letters():
    asked = {name: each.questions for name, each in ENSEMBLE.items() if ENSEMBLE_BENCHMARKS[name].has_options}
    assert set(asked) == {"truthfulqa", "gpqa", "mmlu_pro", "arc", "hellaswag"}
    for questions in asked.values():
        assert min(len(each.options) for each in questions) >= 4
        assert len({each.reference for each in questions}) > 1


def test_every_starter_question_of_hallumix_reads_as_the_dataset_does():
    example = hallumix({"documents": ["a"], "answer": "b", "hallucination_label": 0}).question
    first, last = example.split("\n\n")[0], example.split("\n\n")[-1]
    for each in ENSEMBLE["hallumix"].questions:
        assert each.question.startswith(f"{first}\n\n[Document 1]\n")
        assert each.question.endswith(f"\n\n{last}")
    assert {each.reference for each in ENSEMBLE["hallumix"].questions} == {"yes", "no"}


def test_a_starter_set_can_be_asked_for_by_name_only_if_it_is_the_one():
    assert load_question_set(get_benchmark("tengu"), "starter", set_name="tengu@5") == SETS["tengu"]
    with pytest.raises(questions_module.ConfigurationError, match=r"no question set tengu@120; it has tengu@5"):
        load_question_set(get_benchmark("tengu"), "starter", set_name="tengu@120")
