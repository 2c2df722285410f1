import polars as pl
import pytest

from shaberi_dagster.exchange.trees.runs import judged_texts
from tests.exchange.trees.trees import LegacyTree, import_trees, rows_of

pytestmark = pytest.mark.unit

OPEN_JUDGES = ["llmjudge-athenev2", "llmjudge-llama33", "llmjudge-tulu405"]


@pytest.mark.parametrize(
    ("raw", "judged"),
    [
        ("答え", "答え"),
        ("", ""),
        ("<think>うん</think>答え", "答え"),
        ("<think>うん</think>\n\n答え", "\n\n答え"),
        ("<THINK>うん</thinking>\n\n答え", "答え"),
        ("<think>閉じない", "<think>閉じない"),
        ("うん</think>答え", "答え"),
        ("analysisうんassistantfinal答え", "答え"),
        ("analysisうんassistantfinal答え", "analysisうんassistantfinal答え"),
    ],
)
def test_a_judge_can_have_got_the_stored_text_or_one_without_thinking(raw, judged):
    assert judged in judged_texts(raw)


@pytest.mark.parametrize(("raw", "judged"), [("答え", "別の答え"), ("答え ", "答え"), ("<b>答え</b>", "答え")])
def test_other_texts_are_other_answers(raw, judged):
    assert judged not in judged_texts(raw)


@pytest.mark.parametrize("text", ["<think>", "</think>", "<think></think>", "<think><reason>"])
def test_many_tags_are_read_in_time(text):
    assert "答え" not in judged_texts(text * 200_000)  # quadratic would run into the test's timeout


def test_judgements_of_the_stored_answers_are_of_generation_one(tree):
    tree.answers("rakuda", rows_of("rakuda", ["一", "二", "三"]))
    for judge in OPEN_JUDGES:
        tree.judgements("rakuda", rows_of("rakuda", ["一", "二", "三"], [7, 8, 9]), judge)
    imported = import_trees(tree)
    assert imported.answers.height == 3
    assert set(imported.answers["run_tag"]) == {"legacy-tree"}
    assert imported.judgements["answer_link"].to_list() == ["stored"] * 9


def test_judgements_of_other_answers_are_a_generation_of_their_own(tree):
    tree.answers("rakuda", rows_of("rakuda", ["一", "二", "三"]))
    tree.judgements("rakuda", rows_of("rakuda", ["一", "古い二", "古い三"], [7, 8, 9]), "gpt-4-turbo-preview")
    tree.judgements("rakuda", rows_of("rakuda", ["一", "二", "三"], [4, 5, 6]), "gpt-4.1-2025-04-14")
    imported = import_trees(tree)
    old = imported.answers.filter(generation=2)
    assert set(old["run_tag"]) == {"legacy-tree-gen2"}
    assert old["run_id"][0] == "org%5F%5Fmodel@@legacy-tree-gen2"
    assert old["answer"].to_list() == ["一", "古い二", "古い三"]
    assert set(old["answer_origin"]) == {"judgement"}
    links = {judge: part["answer_link"].to_list() for (judge,), part in imported.judgements.group_by("judge")}
    assert links == {"gpt-4-turbo-preview": ["stored", "differs", "differs"], "gpt-4.1-2025-04-14": ["stored"] * 3}
    assert imported.answers.filter(generation=1)["answer"].to_list() == ["一", "二", "三"]


def test_judges_of_the_same_other_answers_share_a_generation(tree):
    tree.answers("tengu", rows_of("tengu", ["一", "二"]))
    for judge in OPEN_JUDGES:
        tree.judgements("tengu", rows_of("tengu", ["古い一", "古い二"], [7, 8]), judge)
    imported = import_trees(tree)
    assert imported.judgements["generation"].to_list() == [2] * 6
    assert imported.answers.height == 4


def test_three_generations_stay_apart(tree):
    tree.answers("tengu", rows_of("tengu", ["一", "二"]))
    tree.judgements("tengu", rows_of("tengu", ["古い一", "二"], [7, 8]), "gpt-4-turbo-preview")
    tree.judgements("tengu", rows_of("tengu", ["一番古い", "二"], [7, 8]), "llmjudge-athenev2")
    imported = import_trees(tree)
    assert sorted(imported.answers["generation"]) == [1, 1, 2, 2, 3, 3]


def test_answers_of_another_tree_are_never_those_that_were_judged(tree, tmp_path):
    other = LegacyTree(tmp_path / "other")
    tree.answers("rakuda", rows_of("rakuda", ["一", "二"]))
    tree.judgements("rakuda", rows_of("rakuda", ["古い一", "古い二"], [7, 8]))
    other.answers("rakuda", rows_of("rakuda", ["古い一", "古い二"]))
    imported = import_trees({"new": tree.root, "old": other.root})
    origins = imported.answers.group_by("run_tag").agg(pl.col("answer_origin").unique()).sort("run_tag").rows()
    assert origins == [("legacy-new", ["stored"]), ("legacy-new-gen2", ["judgement"]), ("legacy-old", ["stored"])]
    assert imported.judgements.select("run_tag", "answer_link").unique().rows() == [("legacy-new-gen2", "differs")]


def test_judgements_reach_further_than_an_incomplete_answer_file(tree):
    tree.answers("tengu", rows_of("tengu", ["一", "二", "三"]))
    tree.judgements("tengu", rows_of("tengu", ["一", "二", "三", "四", "五"], [5] * 5))
    imported = import_trees(tree)
    assert set(imported.answers["generation"]) == {1}
    assert set(imported.answers["question_set"]) == {"tengu@5"}
    assert imported.answers["answer_origin"].to_list() == ["stored"] * 3 + ["judgement"] * 2
    assert imported.judgements["answer_link"].to_list() == ["stored"] * 3 + ["no_stored"] * 2


def test_models_that_were_only_judged_or_only_answered_are_there(tree):
    tree.answers("elyza", rows_of("elyza", ["答え"] * 5), model="answered")
    tree.judgements("elyza", rows_of("elyza", ["答え"] * 5, [3] * 5), model="judged")
    imported = import_trees(tree)
    assert imported.answers.group_by("model").len().sort("model").rows() == [("answered", 5), ("judged", 5)]
    assert set(imported.judgements["answer_link"]) == {"no_stored"}


def test_the_judged_text_is_the_answer_and_the_stored_one_is_kept(tree):
    raw = "<think>考え</think>\n\n答え"
    tree.answers("rakuda", rows_of("rakuda", [raw, raw]))
    tree.judgements("rakuda", rows_of("rakuda", ["\n\n答え", "\n\n答え"], [7, 8]))
    imported = import_trees(tree)
    assert imported.answers.select("answer", "thinking", "raw_answer", "answer_form").unique().rows() == [
        ("\n\n答え", "考え", raw, "thinking_stripped")
    ]
    assert set(imported.judgements["answer_link"]) == {"stored_stripped"}


def test_thinking_that_was_judged_stays_in_the_answer(tree):
    raw = "<think>考え</think>答え"
    tree.answers("rakuda", rows_of("rakuda", [raw]))
    tree.judgements("rakuda", rows_of("rakuda", [raw], [7]))
    answer = import_trees(tree).answers
    assert answer.select("answer", "thinking", "raw_answer", "answer_form").row(0) == (raw, None, None, "as_stored")


def test_thinking_that_nobody_judged_is_split_off(tree):
    tree.answers("rakuda", rows_of("rakuda", ["<think>考え</think>答え", "<think>考えだけ"]))
    rows = import_trees(tree).answers.select("answer", "thinking", "status", "error_class").rows()
    assert rows == [("答え", "考え", "ok", None), ("", "考えだけ", "error", "empty_answer")]


def test_what_gpt_oss_thought_is_split_off_where_nobody_judged_it(tree):
    raw = "analysisうんassistantfinal答え"
    tree.answers("rakuda", rows_of("rakuda", [raw, raw, raw]))
    tree.judgements("rakuda", rows_of("rakuda", [raw, "答え"], [7, 8]))
    imported = import_trees(tree)
    assert imported.answers.select("answer", "thinking", "answer_form").rows() == [
        (raw, None, "as_stored"),
        *[("答え", "うん", "thinking_stripped")] * 2,
    ]
    assert set(imported.judgements["answer_link"]) == {"stored", "stored_stripped"}


def test_judges_that_saw_the_answer_with_and_without_thinking_judged_different_texts(tree):
    raw = "<think>考え</think>答え"
    tree.answers("rakuda", rows_of("rakuda", [raw]))
    tree.judgements("rakuda", rows_of("rakuda", [raw], [7]), "gpt-4-turbo-preview")
    tree.judgements("rakuda", rows_of("rakuda", ["答え"], [7]), "gpt-4.1-2025-04-14")
    imported = import_trees(tree)
    assert set(imported.answers.select("generation", "answer").rows()) == {(1, raw), (2, "答え")}
    assert set(imported.judgements.select("generation", "answer_link").rows()) == {
        (1, "stored"),
        (2, "stored_stripped"),
    }


def test_a_null_answer_that_was_judged_as_empty_is_the_same_answer(tree):
    tree.answers("tengu", rows_of("tengu", [None, "二"]))
    tree.judgements("tengu", rows_of("tengu", ["", "二"], [0, 5]))
    imported = import_trees(tree)
    first = imported.answers.row(0, named=True)
    assert (first["answer"], first["raw_answer"], first["answer_form"]) == ("", None, "null_as_empty")
    assert (first["status"], first["error_class"]) == ("error", "no_answer")
    assert imported.judgements["answer_link"].to_list() == ["stored_null", "stored"]


def test_a_repeated_question_is_a_further_sample(tree):
    rows = rows_of("elyza", ["一"] * 5)
    judged = rows_of("elyza", ["一"] * 5, [4, 3, 3, 3, 3])
    tree.answers("elyza", [rows[0], *rows])
    tree.judgements("elyza", [judged[0] | {"score": 5}, *judged])
    imported = import_trees(tree)
    assert imported.answers.height == imported.judgements.height == 6
    assert imported.answers["sample_index"].to_list() == [0, 1, 0, 0, 0, 0]
    assert set(imported.answers["question_set"]) == {"elyza@5"}
    assert imported.judgements["score"].to_list()[:2] == [5.0, 4.0]
    assert imported.judgements["score"].mean() == pytest.approx(21 / 6)


def test_every_judgement_finds_its_answer_by_its_hash(tree):
    tree.answers("rakuda", rows_of("rakuda", ["一", "<think>a</think>二", None, ""]))
    tree.judgements("rakuda", rows_of("rakuda", ["一", "二", "", ""], [1, 2, 3, 4]), "a")
    tree.judgements("rakuda", rows_of("rakuda", ["別", "二", "", ""], [1, 2, 3, 4]), "b")
    imported = import_trees(tree)
    keys = ["run_id", "benchmark", "question_id", "sample_index", "answer_hash"]
    assert imported.judgements.join(imported.answers, on=keys, how="anti").is_empty()
    assert imported.answers.select(pl.struct(keys[:4]).is_duplicated().any()).item() is False
