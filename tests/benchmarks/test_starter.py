import re
from pathlib import Path

import pytest

import shaberi_dagster.benchmarks.questions as questions_module
from shaberi_dagster.benchmarks.questions import load_question_set
from shaberi_dagster.benchmarks.registry import ALL_BENCHMARKS, BENCHMARKS, ENSEMBLE_BENCHMARKS, get_benchmark
from shaberi_dagster.benchmarks.upstream import hallumix

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


def test_texts_are_short_enough_for_a_small_model():
    for each_set in SETS.values():
        for each in each_set.questions:
            assert len(each.question) <= 80
            assert len(each.reference or "") <= 150


def test_elyza_has_a_reference_and_deductions_for_each_question():
    for each in SETS["elyza"].questions:
        assert each.reference
        assert re.findall(r": (?:1つにつき)?\d点減点$", each.criteria, re.MULTILINE)


def test_the_points_of_a_tengu_rubric_sum_to_ten():
    scale = get_benchmark("tengu").scale_maximum
    for each in SETS["tengu"].questions:
        lines = each.criteria.split("\n")
        points = [re.fullmatch(r"- .+: (\d+)点", line) for line in lines]
        assert all(points), each.criteria
        assert sum(int(match[1]) for match in points) == scale
        assert each.category


def test_one_tengu_question_has_no_reference():
    assert [each.reference is None for each in SETS["tengu"].questions].count(True) == 1


def test_mt_bench_covers_its_six_categories():
    categories = [each.category for each in SETS["mt_bench"].questions]
    assert sorted(categories) == ["extraction", "humanities", "reasoning", "roleplay", "stem", "writing"]


def test_rakuda_covers_its_four_topics():
    assert {each.category for each in SETS["rakuda"].questions} == {"地理", "政治", "歴史", "社会"}


def test_a_starter_set_can_be_asked_for_by_name_only_if_it_is_the_one():
    assert load_question_set(get_benchmark("tengu"), "starter", set_name="tengu@5") == SETS["tengu"]
    with pytest.raises(questions_module.ConfigurationError, match=r"no question set tengu@120; it has tengu@5"):
        load_question_set(get_benchmark("tengu"), "starter", set_name="tengu@120")
