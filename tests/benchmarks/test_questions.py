import hashlib
import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shaberi_dagster.tasks.benchmarks.questions import (
    Question,
    content_sha256,
    known_sets,
    load_question_set,
    set_name_of,
)
from shaberi_dagster.tasks.benchmarks.registry import get_benchmark
from shaberi_dagster.util.errors import ConfigurationError, QuestionFileError

pytestmark = pytest.mark.unit

ARC, GSM8K, HLE, SIMPLEQA = (get_benchmark(name) for name in ("arc", "gsm8k", "hle", "simpleqa"))
RAKUDA, TENGU, ELYZA, MT_BENCH = (get_benchmark(name) for name in ("rakuda", "tengu", "elyza", "mt_bench"))


def write(folder: Path, name: str, rows: list[dict]) -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def row(question: str, **fields) -> dict:
    return {"question": question, "category": "歴史", **fields}


def test_a_question_is_identified_by_its_exact_text(tmp_path):
    text = "１９４５年\u2028㈱の「ｶﾀｶﾅ」は？\x00 "
    write(tmp_path, "rakuda.jsonl", [row(text)])
    question = load_question_set(RAKUDA, "folder", tmp_path).questions[0]
    assert question.question == text
    assert question.question_id == hashlib.sha256(text.encode()).hexdigest()


@given(text=st.text(min_size=1).filter(str.strip))
def test_any_text_survives_the_way_through_a_file(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("set")
    write(folder, "rakuda.jsonl", [row(text)])
    assert load_question_set(RAKUDA, "folder", folder).questions[0].question == text


def test_the_upstream_columns_stand_for_ours(tmp_path):
    write(tmp_path, "elyza.jsonl", [{"input": "問", "output": "答", "eval_aspect": "観点"}])
    write(tmp_path, "tengu.jsonl", [{"Category": "日本", "Question": "問", "Answer": None, "Criteria": "- 可: 10点"}])
    write(tmp_path, "mt_bench.jsonl", [{"id": 11, "Category": "writing", "Question": "問"}])
    write(tmp_path, "rakuda.jsonl", [{"category": "地理", "question_id": "uid22", "text": "問"}])
    elyza, tengu, mt_bench, rakuda = (
        load_question_set(benchmark, "folder", tmp_path).questions[0] for benchmark in (ELYZA, TENGU, MT_BENCH, RAKUDA)
    )
    assert (elyza.question, elyza.reference, elyza.criteria, elyza.category) == ("問", "答", "観点", None)
    assert (tengu.reference, tengu.criteria, tengu.category) == (None, "- 可: 10点", "日本")
    assert (mt_bench.upstream_id, mt_bench.category) == ("11", "writing")
    assert (rakuda.question, rakuda.upstream_id, rakuda.category) == ("問", "uid22", "地理")


def test_our_own_column_wins_over_the_upstream_one(tmp_path):
    write(tmp_path, "rakuda.jsonl", [row("ours", text="upstream")])
    assert load_question_set(RAKUDA, "folder", tmp_path).questions[0].question == "ours"


def test_the_same_content_is_the_same_set_in_every_format_and_with_any_other_column(tmp_path):
    rows = [row("一", position=1), row("二", position=2)]
    for name in ("jsonl", "parquet", "csv", "more"):
        (tmp_path / name).mkdir()
    write(tmp_path / "jsonl", "rakuda.jsonl", rows)
    pl.DataFrame(rows).write_parquet(tmp_path / "parquet" / "rakuda.parquet")
    pl.DataFrame(rows).write_csv(tmp_path / "csv" / "rakuda.csv")
    write(tmp_path / "more", "rakuda.jsonl", [each | {"turns": 1, "upstream_id": "x"} for each in rows])
    sets = [load_question_set(RAKUDA, "folder", tmp_path / name) for name in ("jsonl", "parquet", "csv", "more")]
    assert len({each.sha256 for each in sets}) == len({each.name for each in sets}) == 1


@pytest.mark.parametrize(
    "changed",
    [
        [row("二"), row("一")],
        [row("一"), row("二"), row("三")],
        [row("一"), row("二", category="地理")],
        [row("一"), row("二", reference="答")],
        [row("一"), row("二", criteria="観点")],
        [row("一"), row("二。")],
    ],
    ids=["order", "one more", "category", "reference", "criteria", "text"],
)
def test_other_content_is_another_version(tmp_path, changed):
    write(tmp_path, "rakuda.jsonl", [row("一"), row("二")])
    before = load_question_set(RAKUDA, "folder", tmp_path)
    write(tmp_path, "rakuda.jsonl", changed)
    after = load_question_set(RAKUDA, "folder", tmp_path)
    assert before.sha256 != after.sha256
    assert before.name != after.name
    assert after.name == f"rakuda@{len(changed)}-{after.sha256[:8]}"


def test_a_registered_name_belongs_to_one_benchmark_and_one_content():
    sha256 = known_sets()["rakuda@40"].sha256
    assert set_name_of("rakuda", 40, sha256) == "rakuda@40"
    assert set_name_of("mt_bench", 40, sha256) == f"mt_bench@40-{sha256[:8]}"
    assert set_name_of("rakuda", 40, "0" * 64) == "rakuda@40-00000000"
    hashes = [known.sha256 for known in known_sets().values()]
    assert len(set(hashes)) == len(hashes)


def test_a_set_is_in_the_order_of_its_positions(tmp_path):
    write(tmp_path, "rakuda.jsonl", [row("二", position=2), row("一", position=1)])
    shuffled = load_question_set(RAKUDA, "folder", tmp_path)
    write(tmp_path, "rakuda.jsonl", [row("一"), row("二")])
    assert shuffled == load_question_set(RAKUDA, "folder", tmp_path)


def test_positions_come_from_the_file_or_from_the_order(tmp_path):
    write(tmp_path, "rakuda.jsonl", [row("一", position=7), row("二", position=9)])
    assert [each.position for each in load_question_set(RAKUDA, "folder", tmp_path).questions] == [7, 9]
    write(tmp_path, "rakuda.jsonl", [row("一"), row("二")])
    assert [each.position for each in load_question_set(RAKUDA, "folder", tmp_path).questions] == [1, 2]


@pytest.mark.parametrize(
    ("benchmark", "bad", "reason"),
    [
        (RAKUDA, {"category": "歴史"}, r"has no 'question' \(upstream 'text' or 'Question'\)"),
        (RAKUDA, {"question": "", "category": "歴史"}, "'question' is empty"),
        (RAKUDA, {"question": " \n", "category": "歴史"}, "'question' is empty"),
        (RAKUDA, {"question": None, "category": "歴史"}, "'question' is empty"),
        (RAKUDA, {"question": 5, "category": "歴史"}, "'question' must be text, not int"),
        (RAKUDA, {"question": ["二"], "category": "歴史"}, "'question' must be text, not list"),
        (RAKUDA, {"question": "二"}, "has no 'category'"),
        (RAKUDA, row("二", category=3), "'category' must be text, not int"),
        (RAKUDA, row("二", upstream_id=1.5), "'upstream_id' must be text or an integer, not float"),
        (RAKUDA, row("二", position=0), "'position' must be an integer from 1, not 0"),
        (RAKUDA, row("二", position=True), "'position' must be an integer from 1, not True"),
        (RAKUDA, row("二", position=1), "repeats position 1"),
        (RAKUDA, row("一"), r"repeats the question of rakuda\.jsonl:1"),
        (ELYZA, row("二", reference="答"), r"has no 'criteria' \(upstream 'eval_aspect'\)"),
        (ELYZA, row("二", reference=None, criteria="観点"), "'reference' is empty"),
        (TENGU, row("二", criteria=" "), "'criteria' is empty"),
        (GSM8K, {"question": "二", "reference": ""}, "'reference' is empty"),
        (GSM8K, {"question": "二", "answer": "5"}, "'answer' has no '#### ' with the number"),
        (SIMPLEQA, row("二", reference="答", aliases="a"), "'aliases' must be a list of texts"),
    ],
)
def test_a_row_that_is_no_question_is_named_with_file_line_and_reason(tmp_path, benchmark, bad, reason):
    good = row("一", reference="答", criteria="- 可: 10点")
    path = write(tmp_path, f"{benchmark.name}.jsonl", [good, bad])
    with pytest.raises(QuestionFileError, match=reason) as caught:
        load_question_set(benchmark, "folder", tmp_path)
    assert (caught.value.path, caught.value.line) == (path, 2)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"options": ["p", "q"], "reference": "C"}, "'reference' must be a letter of one of the 2 options, not 'C'"),
        ({"options": ["p", "q"], "reference": "p"}, "'reference' must be a letter of one of the 2 options, not 'p'"),
        ({"options": ["p"], "reference": "A"}, "has 1 options"),
        ({"options": ["p", 5], "reference": "A"}, "'options' must be a list of texts"),
        ({"reference": "A"}, "'options' must be a list of texts"),
    ],
)
def test_a_question_with_options_needs_them_and_the_letter_of_the_right_one(tmp_path, bad, reason):
    write(tmp_path, "arc.jsonl", [{"question": "Which?"} | bad])
    with pytest.raises(QuestionFileError, match=reason):
        load_question_set(ARC, "folder", tmp_path)


WHICH = {"question": "Which?", "options": ["p", "q", "r", "s"], "reference": "C"}


def test_options_are_put_in_an_order_of_the_questions_own(tmp_path):
    write(tmp_path, "arc.jsonl", [WHICH])
    question = load_question_set(ARC, "folder", tmp_path).questions[0]
    assert question.options == tuple(WHICH["options"][place] for place in question.option_order)
    assert question.options != tuple(WHICH["options"])
    assert question.options["ABCD".index(question.reference)] == "r"
    assert f"\n{question.reference}. r\n" in question.question
    assert question.question_id == hashlib.sha256(question.question.encode()).hexdigest()


def test_the_order_of_the_source_is_a_version_of_its_own(tmp_path):
    write(tmp_path, "arc.jsonl", [WHICH])
    shuffled = load_question_set(ARC, "folder", tmp_path)
    unshuffled = load_question_set(ARC, "folder", tmp_path, "arc@unshuffled")
    question = unshuffled.questions[0]
    assert (question.options, question.option_order, question.reference) == (("p", "q", "r", "s"), (0, 1, 2, 3), "C")
    assert unshuffled.name == f"arc@1-{unshuffled.sha256[:8]}-unshuffled"
    assert unshuffled.sha256 != shuffled.sha256
    assert load_question_set(ARC, "folder", tmp_path, unshuffled.name) == unshuffled
    assert load_question_set(ARC, "folder", tmp_path, shuffled.name) == shuffled


def test_without_options_the_order_of_the_source_is_no_other_version(tmp_path):
    write(tmp_path, "gsm8k.jsonl", [{"question": "How many?", "answer": "#### 5"}])
    unshuffled = load_question_set(GSM8K, "folder", tmp_path, "gsm8k@unshuffled")
    assert unshuffled == load_question_set(GSM8K, "folder", tmp_path)


def test_the_publishers_rows_are_named_by_dataset_and_row_and_ours_are_not(tmp_path):
    hle = {"question": "1", "answer": "a"}
    write(tmp_path, "hle.jsonl", [hle, hle | {"question": "2", "image": "data:"}, hle | {"question": "3"}])
    loaded = load_question_set(HLE, "folder", tmp_path).questions
    assert [(each.upstream_id, each.position) for each in loaded] == [("hle-0", 1), ("hle-2", 2)]
    write(tmp_path, "hle.jsonl", [{"question": "1", "reference": "a"}, row("2", reference="b", upstream_id="x")])
    loaded = load_question_set(HLE, "folder", tmp_path).questions
    assert [(each.upstream_id, each.category) for each in loaded] == [(None, None), ("x", "歴史")]


def test_a_publishers_repeat_is_left_out_and_its_position_stays_empty(tmp_path):
    write(tmp_path, "gsm8k.jsonl", [{"question": text, "answer": "#### 5"} for text in ("一", "一", "二")])
    loaded = load_question_set(GSM8K, "folder", tmp_path)
    assert [(each.question, each.position, each.upstream_id) for each in loaded.questions] == [
        ("一", 1, "gsm8k-0"),
        ("二", 3, "gsm8k-2"),
    ]


def test_further_right_answers_are_a_part_of_the_content(tmp_path):
    without = {"question": "Who?", "reference": "M"}
    write(tmp_path, "simpleqa.jsonl", [without])
    before = load_question_set(SIMPLEQA, "folder", tmp_path)
    write(tmp_path, "simpleqa.jsonl", [without | {"aliases": ["N"]}])
    after = load_question_set(SIMPLEQA, "folder", tmp_path)
    assert (before.questions[0].aliases, after.questions[0].aliases) == (None, ("N",))
    assert before.sha256 != after.sha256


def test_columns_of_other_benchmarks_change_nothing(tmp_path):
    write(tmp_path, "rakuda.jsonl", [row("一")])
    before = load_question_set(RAKUDA, "folder", tmp_path)
    write(tmp_path, "rakuda.jsonl", [row("一", aliases=5, options="x", option_order=[1])])
    assert load_question_set(RAKUDA, "folder", tmp_path) == before


def test_a_benchmarks_file_may_have_the_name_that_its_publisher_gave_it(tmp_path):
    write(tmp_path, "gsm8k_test.jsonl", [{"question": "一", "answer": "#### 5"}])
    assert load_question_set(GSM8K, "folder", tmp_path).questions[0].question == "一"
    write(tmp_path, "gsm8k.jsonl", [{"question": "二", "answer": "#### 5"}])
    with pytest.raises(ConfigurationError, match=r"has gsm8k\.jsonl and gsm8k_test\.jsonl"):
        load_question_set(GSM8K, "folder", tmp_path)


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_an_empty_file_is_refused(tmp_path, content):
    (tmp_path / "rakuda.jsonl").write_bytes(content)
    with pytest.raises(QuestionFileError, match=r"rakuda\.jsonl: has no question"):
        load_question_set(RAKUDA, "folder", tmp_path)


def test_an_absent_reference_may_be_null_blank_or_missing(tmp_path):
    criteria = {"criteria": "- 可: 10点", "category": "日本"}
    rows = [{"question": "一", "reference": None}, {"question": "二", "reference": ""}, {"question": "三"}]
    write(tmp_path, "tengu.jsonl", [each | criteria for each in rows])
    assert [each.reference for each in load_question_set(TENGU, "folder", tmp_path).questions] == [None] * 3


@pytest.fixture
def versions(tmp_path):
    write(tmp_path, "mt_bench.jsonl", [row("一")])
    write(tmp_path, "mt_bench_lb80.jsonl", [row("一"), row("二")])
    write(tmp_path, "mt_bench@old.jsonl", [row("三")])
    write(tmp_path, "mt_benchmark.jsonl", [row("四")])
    return tmp_path


def test_the_file_named_like_the_benchmark_is_its_default_version(versions):
    assert [each.question for each in load_question_set(MT_BENCH, "folder", versions).questions] == ["一"]


def test_a_further_version_is_found_by_its_set_name(versions):
    wanted = content_sha256(load_rows(["一", "二"]))
    chosen = load_question_set(MT_BENCH, "folder", versions, f"mt_bench@2-{wanted[:8]}")
    assert chosen.source == f"folder:{versions}"
    assert chosen.sha256 == wanted


def load_rows(texts: list[str]) -> list[Question]:
    return [
        Question(hashlib.sha256(text.encode()).hexdigest(), position, None, "歴史", text, None, None)
        for position, text in enumerate(texts, start=1)
    ]


def test_an_unknown_version_is_refused_with_those_there_are(versions):
    with pytest.raises(ConfigurationError) as caught:
        load_question_set(MT_BENCH, "folder", versions, "mt_bench@61")
    assert "has no question set mt_bench@61" in str(caught.value)
    assert "(mt_bench_lb80.jsonl)" in str(caught.value)
    assert "mt_benchmark" not in str(caught.value)


def test_without_the_default_file_the_versions_are_named(versions):
    (versions / "mt_bench.jsonl").unlink()
    with pytest.raises(ConfigurationError, match=r"has no question file mt_bench\.jsonl .*mt_bench_lb80\.jsonl"):
        load_question_set(MT_BENCH, "folder", versions)


def test_two_files_for_one_benchmark_are_refused(tmp_path):
    write(tmp_path, "rakuda.jsonl", [row("一")])
    pl.DataFrame([row("一")]).write_parquet(tmp_path / "rakuda.parquet")
    with pytest.raises(ConfigurationError, match=r"rakuda\.jsonl and rakuda\.parquet"):
        load_question_set(RAKUDA, "folder", tmp_path)


@pytest.mark.parametrize("folder", [None, Path("nowhere")])
def test_a_folder_that_is_none_is_refused(folder):
    with pytest.raises(ConfigurationError, match="SHABERI_DATASETS"):
        load_question_set(RAKUDA, "folder", folder)


def test_a_registered_part_of_a_set_is_cut_from_it(tmp_path, monkeypatch):
    write(tmp_path, "rakuda.jsonl", [row("一"), row("二"), row("三")])
    parts = load_rows(["一", "二", "三"])
    registry = tmp_path / "known.yaml"
    registry.write_text(
        f"rakuda@3: {{sha256: {content_sha256(parts)}}}\n"
        f"rakuda@2: {{sha256: {content_sha256([parts[0], parts[2]])}, subset_of: rakuda@3, without_positions: [2]}}\n"
    )
    monkeypatch.setattr("shaberi_dagster.tasks.benchmarks.questions._KNOWN_SETS", registry)
    known_sets.cache_clear()
    try:
        chosen = load_question_set(RAKUDA, "folder", tmp_path, "rakuda@2")
        assert (chosen.name, [each.position for each in chosen.questions]) == ("rakuda@2", [1, 3])
        assert chosen.sha256 == known_sets()["rakuda@2"].sha256
    finally:
        known_sets.cache_clear()


def test_an_unknown_source_is_refused():
    with pytest.raises(ConfigurationError, match="known: starter, hub, folder"):
        load_question_set(RAKUDA, "internet")
