"""The ensemble evaluation's public question sets and what its caches asked, wherever `SHABERI_CORPUS` has them."""

import json
from collections import Counter

import pytest

from shaberi_dagster.tasks.benchmarks.questions import load_question_set
from shaberi_dagster.tasks.benchmarks.registry import get_benchmark
from shaberi_dagster.tasks.benchmarks.sampling import sample_questions, shuffled_indexes

pytestmark = pytest.mark.corpus

SETS = {
    "gsm8k": "gsm8k@1319",
    "math500": "math500@500-97b25d63",
    "simpleqa": "simpleqa@4326",
    "truthfulqa": "truthfulqa@817-unshuffled",
}
SIZES = {"gsm8k": 1319, "math500": 500, "truthfulqa": 817, "simpleqa": 4326, "hellaswag": 10_042}


@pytest.fixture
def folder(corpus):
    return corpus / "ensemble" / "public"


def cached(corpus, name: str) -> list[dict]:
    """The judged results of a cache, in its order."""
    (file,) = (corpus / "ensemble" / "caches" / "baselines").glob(f"*_{name}.json")
    return [entry["result"] for entry in json.loads(file.read_bytes())["entries"]]


@pytest.mark.parametrize("name", SETS)
def test_a_public_file_loads_as_it_is_and_asks_what_the_cache_asked(corpus, folder, name):
    loaded = load_question_set(get_benchmark(name), "folder", folder, f"{name}@unshuffled")
    assert loaded.name == SETS[name]
    asked = {each.upstream_id: (each.question, each.reference) for each in loaded.questions}
    assert list(asked) == [f"{name}-{row}" for row in range(SIZES[name])]
    results = cached(corpus, name)
    assert len(results) == 100
    assert {each["questionId"]: (each["prompt"], each["groundTruth"]) for each in results} == {
        each["questionId"]: asked[each["questionId"]] for each in results
    }


def test_the_layout_of_hellaswag_is_the_caches(corpus):
    hellaswag = get_benchmark("hellaswag")
    for result in cached(corpus, "hellaswag"):
        context, _, rest = result["prompt"].removeprefix("Complete the following:\n\n").partition("\n\nOptions:\nA. ")
        listed, _, _ = rest.rpartition("\n\n")
        endings = []
        for letter in "BCD":
            ending, _, listed = listed.partition(f"\n{letter}. ")
            endings.append(ending)
        label = "ABCD".index(result["groundTruth"])
        choices = hellaswag.read_row({"ctx": context, "endings": [*endings, listed], "label": str(label)}).question
        assert choices.text((0, 1, 2, 3)) == result["prompt"]
        assert choices.letter((0, 1, 2, 3)) == result["groundTruth"]


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("kind", ["baselines", "ensemble"])
def test_the_order_of_a_cache_is_that_of_the_seed(corpus, name, kind):
    (file,) = (corpus / "ensemble" / "caches" / kind).glob(f"*_{name}*.json")
    order = [entry["questionId"] for entry in json.loads(file.read_bytes())["entries"]]
    assert order == [f"{name}-{row}" for row in shuffled_indexes(SIZES[name])[:100]]


@pytest.mark.parametrize("name", SETS)
def test_a_sample_by_mulberry32_has_the_questions_of_the_cache_in_its_order(corpus, folder, name):
    loaded = load_question_set(get_benchmark(name), "folder", folder)
    sample = sample_questions(loaded, 30, seed=42, order="mulberry32")
    assert [each.upstream_id for each in sample.questions] == [each["questionId"] for each in cached(corpus, name)[:30]]


def test_the_right_option_of_truthfulqa_is_no_longer_the_first(folder):
    loaded = load_question_set(get_benchmark("truthfulqa"), "folder", folder)
    assert loaded.name == "truthfulqa@817"
    letters = Counter(each.reference for each in loaded.questions)
    # By chance 185 of 817: the mean of 1/options; its standard deviation is 12.
    assert abs(letters["A"] - 185) < 40
    whole = load_question_set(get_benchmark("truthfulqa"), "folder", folder, "truthfulqa@unshuffled")
    assert {each.reference for each in whole.questions} == {"A"}
    for shuffled, original in zip(loaded.questions, whole.questions, strict=True):
        assert shuffled.upstream_id == original.upstream_id
        assert shuffled.options == tuple(original.options[place] for place in shuffled.option_order)
        assert shuffled.option_order["ABCDEFGHIJKLM".index(shuffled.reference)] == 0
