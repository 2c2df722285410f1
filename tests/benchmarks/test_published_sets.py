"""The published question sets, wherever `SHABERI_CORPUS` has them."""

import json

import pytest

from shaberi_dagster.tasks.benchmarks.questions import load_question_set
from shaberi_dagster.tasks.benchmarks.registry import BENCHMARKS, get_benchmark

pytestmark = pytest.mark.corpus

TENGU = get_benchmark("tengu")


@pytest.fixture
def folder(corpus):
    return corpus / "questions"


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("elyza@100", "elyza.jsonl"),
        ("tengu@120", "tengu.jsonl"),
        ("mt_bench@60", "mt_bench.jsonl"),
        ("mt_bench@80", "mt_bench_lb80.jsonl"),
        ("rakuda@40", "rakuda.jsonl"),
    ],
)
def test_a_published_set_loads_as_it_is_under_its_name(folder, name, file):
    benchmark = get_benchmark(name.split("@")[0])
    loaded = load_question_set(benchmark, "folder", folder, name)
    assert loaded.name == name
    expected = [json.loads(line) for line in (folder / file).read_bytes().split(b"\n") if line]
    assert len(loaded.questions) == len(expected) == int(name.split("@")[1])
    assert [each.question_id for each in loaded.questions] == [each["question_sha256"] for each in expected]
    for field in ("question", "reference", "criteria", "category", "position"):
        assert [getattr(each, field) for each in loaded.questions] == [each[field] for each in expected]


def test_the_default_sets_are_the_published_ones(folder):
    names = [load_question_set(benchmark, "folder", folder).name for benchmark in BENCHMARKS.values()]
    assert names == ["elyza@100", "tengu@120", "mt_bench@60", "rakuda@40"]


def test_tengu_without_the_ethics_items_is_cut_from_the_whole(folder):
    loaded = load_question_set(TENGU, "folder", folder, "tengu@115")
    assert len(loaded.questions) == 115
    assert "倫理的制御" not in {each.category for each in loaded.questions}
