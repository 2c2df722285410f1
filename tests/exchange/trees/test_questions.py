import pytest

from shaberi_dagster.exchange.trees.jsonl import Row
from shaberi_dagster.exchange.trees.questions import other_fields, question_from, question_set_of
from shaberi_dagster.tasks.benchmarks.registry import get_benchmark
from tests.exchange.trees.trees import FOLDERS, columns_of, import_trees, questions_of, rows_of

pytestmark = pytest.mark.unit


def row(columns):
    fields = dict(columns)
    return Row(1, fields.pop("Question"), "答え", None, None, fields, tuple(columns))


@pytest.mark.parametrize(
    ("benchmark", "name"), [("elyza", "elyza@5"), ("tengu", "tengu@5"), ("mt_bench", "mt_bench@6"), ("rakuda", "rakuda@5")]
)  # fmt: skip
def test_a_complete_file_is_a_registered_set_by_its_content(benchmark, name):
    entry = get_benchmark(benchmark)
    questions = [question_from(row(columns_of(benchmark, each)), entry, 1) for each in questions_of(benchmark)]
    assert question_set_of(benchmark, questions).name == name


def test_the_set_in_the_lake_is_the_one_of_the_tree(tree):
    tree.answers("tengu", rows_of("tengu", ["答え"] * 5))
    imported = import_trees(tree)
    assert imported.question_sets == ["tengu@5"]
    assert imported.answers["question_set"].unique().to_list() == ["tengu@5"]
    assert imported.answers["question_id"].to_list() == [each.question_id for each in questions_of("tengu")]
    assert imported.answers["legacy_fields"].null_count() == 5


def test_an_incomplete_file_is_a_part_of_the_registered_set(tree):
    tree.answers("tengu", rows_of("tengu", ["答え"] * 5), model="whole")
    tree.answers("tengu", rows_of("tengu", ["答え"] * 3), model="a-part")
    imported = import_trees(tree)
    assert set(imported.answers["question_set"]) == {"tengu@5"}
    assert imported.answers.filter(model="a-part").height == 3


def test_other_content_is_another_set(tree):
    rows = [
        *rows_of("elyza", ["答え"] * 5),
        {"Question": "新しい問い", "output": "o", "eval_aspect": "e", "ModelAnswer": "a"},
    ]
    tree.answers("elyza", rows)
    (name,) = set(import_trees(tree).answers["question_set"])
    assert name.startswith("elyza@6-")


def test_questions_in_a_wrong_folder_keep_their_benchmark(tree):
    tree.answers("rakuda", rows_of("rakuda", ["答え"] * 5), model="a")
    tree.answers("rakuda", rows_of("rakuda", ["別の答え"] * 5), model="b", folder=FOLDERS["elyza"])
    tree.answers("rakuda", rows_of("rakuda", ["三つ目"] * 5), model="c", folder="unknown_folder")
    imported = import_trees(tree)
    assert set(imported.answers["benchmark"]) == {"rakuda"}
    assert set(imported.answers["question_set"]) == {"rakuda@5"}


def test_rows_of_no_known_benchmark_are_set_aside(tree):
    tree.answers("rakuda", rows_of("rakuda", ["答え"] * 2), folder="unknown_folder")
    imported = import_trees(tree)
    assert imported.answers.is_empty()
    assert imported.quarantine["source_line"].to_list() == [1, 2]
    assert "'unknown_folder'" in imported.quarantine["reason"][0]
    assert "答え" in imported.quarantine["raw"][0]


def test_columns_that_contradict_the_question_are_kept():
    question = questions_of("tengu")[0]
    columns = columns_of("tengu", question) | {"Criteria": "別の基準"}
    assert other_fields(row(columns), "tengu", question) == {"Criteria": "別の基準"}


@pytest.mark.parametrize("spelling", ["category", "Category"])
def test_both_spellings_of_the_category_are_understood(spelling):
    question = questions_of("mt_bench")[0]
    columns = {"id": 11, spelling: question.category, "Question": question.question}
    found = question_from(row(columns), get_benchmark("mt_bench"), 1)
    assert (found.category, found.upstream_id) == (question.category, "11")
    assert other_fields(row(columns), "mt_bench", found) == {}
