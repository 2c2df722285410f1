"""Question sets on their way through the lake."""

import pytest

from shaberi_dagster.runs.questions import store_question_set, stored_question_set
from shaberi_dagster.tasks.benchmarks.questions import load_question_set
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS, get_benchmark
from shaberi_dagster.tasks.benchmarks.sampling import sample_questions

pytestmark = pytest.mark.integration


def test_every_starter_set_comes_back_as_it_was_stored(workspace):
    sets = [load_question_set(benchmark, "starter") for benchmark in ALL_BENCHMARKS.values()]
    for each in sets:
        store_question_set(workspace.lake, each)
    assert [stored_question_set(workspace.lake, each.benchmark, sha256=each.sha256) for each in sets] == sets


def test_a_sample_is_stored_beside_its_whole_and_found_by_its_name(workspace):
    whole = load_question_set(get_benchmark("mmlu_pro"), "starter")
    sample = sample_questions(whole, 3)
    for each in (whole, sample):
        store_question_set(workspace.lake, each)
        assert stored_question_set(workspace.lake, "mmlu_pro", name=each.name) == each
