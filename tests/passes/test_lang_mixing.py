"""Text of another language in an answer that should be Japanese."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from shaberi_dagster.tasks.passes.base import Answer
from shaberi_dagster.tasks.passes.lang_mixing import LangMixing, LangMixingConfig
from shaberi_dagster.tasks.prompts.library import PromptLibrary, boundary_of
from shaberi_dagster.util.folders import project_folder

pytestmark = pytest.mark.unit

QUESTION = "朝ごはんについて短く教えてください。"
ENGLISH = "It is a good idea to eat something warm in the morning."


def answer(text, question=QUESTION, reference=None, criteria=None):
    return Answer("b", "0" * 64, question, None, reference, criteria, text, None)


def examine(text, question=QUESTION, config=None, **given_with):
    return LangMixing(config or LangMixingConfig()).examine(answer(text, question, **given_with))


def found(text, question=QUESTION, **given_with):
    return [(text[start:end], kind) for start, end, kind in examine(text, question, **given_with).details["spans"]]


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("朝の会话を楽しみます。", [("话", "simplified_chinese")]),
        ("ご飯が好きです。这是我们的早饭，很好吃。", [("这是我们的早饭", "simplified_chinese")]),
        ("学校の內容です。", [("內", "traditional_chinese")]),
        ("朝は좋은 아침です。", [("좋은 아침", "hangul")]),
        ("シナриоを考えます。", [("рио", "cyrillic")]),
        ("パンと चाय です。", [("चाय", "devanagari")]),
        ("朝は食べます。" + ENGLISH, [(ENGLISH[:-1], "latin")]),
    ],
)
def test_a_leak_is_found_where_it_is(text, spans):
    assert found(text) == spans


@pytest.mark.parametrize(
    "text",
    [
        "朝はご飯と味噌汁を食べます。",
        "",
        "```python\n# 这是注释 it is a good idea to eat something warm\n```\nこれで動きます。",
        "詳しくは https://example.org/it-is-a-good-idea-to-eat-something-warm-in-the-morning を見ます。",
        r"式は $the sum of all of the things that we eat$ です。",
        "著者は John Ronald Reuel Tolkien Clive Staples Lewis George Orwell です。",
        "世界保健機関（World Health Organization）によると大切です。",
        "スープはボルシチ（борщ）がよいです。",
        "「김치」は漬物です。",
        "おいしい(゜Д゜)ですね。",
        "ここで α と β を使い、アルファは ἄλφα と書きます。",
        "朝はOKです。",
    ],
)
def test_what_is_no_leak_costs_nothing(text):
    finding = examine(text)
    assert (finding.severity, finding.reason, finding.details["spans"]) == (0, "", [])


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("次の文を英語にしてください。「朝です」", ENGLISH),
        ("英訳してください。「朝です」", ENGLISH + "と訳せます。"),
        ("「ありがとう」を中国語で何と言いますか。", "谢谢です。"),
        ("ハングルの成り立ちを教えてください。", "훈민정음 という本が始まりです。"),
        ("ロシア語の挨拶を教えてください。", "Привет と言います。"),
        ("いろいろな言語で挨拶してください。", "Привет と 안녕 です。"),
        ("「борщ」とは何ですか。", "борщ はスープです。"),
        ("「话」という字の意味は何ですか。", "话は話すという意味です。"),
        (f"次の文を和訳してください。\n{ENGLISH}", f"「{ENGLISH}」は朝の話です。"),
        ("What should I eat in the morning?", ENGLISH),
    ],
)
def test_what_the_question_asks_for_or_contains_is_no_leak(question, text):
    assert not found(text, question)


def test_what_the_reference_and_the_criteria_contain_is_no_leak():
    assert not found("正解は话です。", reference="话")
    assert not found("正解は话です。", criteria="话と答えている")


def test_a_mention_of_english_does_not_ask_for_it():
    assert found("点数です。" + ENGLISH, "数学と英語の点数を比べてください。")


def test_another_language_than_the_one_asked_for_is_a_leak():
    assert found("Good 아침 です。", "英語にしてください。「おはよう」") == [("아침", "hangul")]


def test_tables_in_fences_are_text_like_any_other():
    assert found("表です。\n```csv\n静冈,東京\n```") == [("冈", "simplified_chinese")]


@pytest.mark.parametrize(
    "text",
    [
        ENGLISH,
        "早餐可以吃面包和牛奶，也可以吃米，我是不会不吃的，有的是在家里吃的。",
        "早上好，我不是在想你的事，有人在和我的友人看他的本，也是的了。",
    ],
)
def test_an_answer_without_any_kana_is_one_leak(text):
    finding = examine(text)
    assert finding.details["spans"] == [[0, len(text), "no_japanese"]]
    assert finding.details["mixing_ratio"] == 1


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "switch", "state": true}',
        "1-A, 2-C",
        "[2, 5, 10]",
        "東京都、大阪府、京都府、北海道、神奈川県、愛知県、福岡県",
    ],
)
def test_data_without_kana_is_no_leak(text):
    assert not found(text)


def test_one_leak_in_data_without_kana_is_not_the_whole_answer():
    assert found("東京都,東京\n静冈県,静岡\n愛知県,名古屋") == [("冈", "simplified_chinese")]


def test_one_leak_in_an_answer_that_is_to_be_english_is_not_the_whole_answer():
    assert found(ENGLISH + " 아침", "英訳してください。「朝です」") == [("아침", "hangul")]


def test_scattered_words_are_a_leak_only_when_they_are_many():
    words = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliett"]
    many = "".join(f"朝{word}は" for word in words)
    few = "".join(f"朝{word}は" for word in words[:4])
    assert found(many) == [(word, "latin_words") for word in words]
    assert not found(few)


def test_the_mixing_ratio_is_the_share_of_letters_in_spans():
    details = examine("あいう한국어!").details
    assert details["mixing_ratio"] == 0.5
    assert details["ja_ratio"] == round(3 / 7, 6)


@pytest.mark.parametrize(("leaked", "severity"), [(1, 0.02), (5, 0.05), (20, 0.1), (50, 0.2), (90, 0.2)])
def test_the_default_curve_costs_more_the_more_is_mixed(leaked, severity):
    assert examine("あ" * (100 - leaked) + "한" * leaked).severity == pytest.approx(severity)


def test_a_curve_is_interpolated_and_the_minimum_holds():
    config = LangMixingConfig(severity_points=((0.0, 0.0), (0.5, 1.0)), minimum_severity=0.2)
    assert examine("あ" * 75 + "한" * 25, config=config).severity == pytest.approx(0.5)
    assert examine("あ" * 99 + "한", config=config).severity == pytest.approx(0.2)


def test_a_curve_may_begin_above_zero_and_stays_flat_outside():
    config = LangMixingConfig(severity_points=((0.2, 0.3), (0.4, 0.5)))
    assert examine("あ" * 99 + "한", config=config).severity == pytest.approx(0.3)
    assert examine("あ" + "한" * 99, config=config).severity == pytest.approx(0.5)


@pytest.mark.parametrize(
    "points", [(), ((0.5, 0.1), (0.1, 0.2)), ((0.1, 0.1), (0.1, 0.2)), ((0.0, 2.0),), ((-1.0, 0.5),)]
)
def test_a_curve_that_is_none_is_refused(points):
    with pytest.raises(ValidationError, match="severity_points"):
        LangMixingConfig(severity_points=points)


def test_the_reason_names_kinds_and_share_but_no_text():
    assert examine("あ" * 98 + "한这").reason == "other languages: hangul 1, simplified_chinese 1; 2.0% of the letters"


def test_settings_change_the_identity():
    assert LangMixing(LangMixingConfig()).config_hash != LangMixing(LangMixingConfig(latin_words=9)).config_hash


DOUBTFUL = "昔の本「红楼梦」と「三国」を读む。著書『水浒传』もあります。"
ASKING = LangMixing(LangMixingConfig(confirm_with="judge"))


def test_nobody_is_asked_by_default():
    item = answer(DOUBTFUL)
    silent = LangMixing(LangMixingConfig())
    assert silent.ask(item, silent.examine(item)) is None


def test_nobody_is_asked_when_nothing_is_doubtful():
    item = answer("朝の会话です。")
    assert ASKING.ask(item, ASKING.examine(item)) is None


def test_a_model_is_asked_about_what_stands_in_quotes():
    item = answer(DOUBTFUL)
    question = ASKING.ask(item, ASKING.examine(item))
    assert question is not None
    assert [(excerpt["number"], excerpt["text"]) for excerpt in question.variables["excerpts"]] == [
        (1, "红"),
        (2, "浒传"),
    ]
    library = PromptLibrary(project_folder("prompts"))
    prompt = library.render(question.template, boundary=boundary_of(item.text), **question.variables)
    assert "箇所：红" in prompt
    assert QUESTION in prompt
    assert prompt.count(boundary_of(item.text)) == 6


@pytest.mark.parametrize(
    ("output", "kept"),
    [
        ("LEAKS: 1, 2", ["红", "读", "浒传"]),
        ("書名です。\n**LEAKS: 2**", ["读", "浒传"]),
        ("LEAKS: 1\nいや、違います。\nLEAKS: none", ["读"]),
    ],
)
def test_the_last_statement_decides_which_doubtful_spans_stay(output, kept):
    item = answer(DOUBTFUL)
    read = ASKING.read(item, ASKING.examine(item), output)
    assert read is not None
    assert [DOUBTFUL[start:end] for start, end, _ in read.details["spans"]] == kept
    assert len(read.details["rejected"]) == 3 - len(kept)


def test_without_any_span_left_nothing_is_lost():
    item = answer("昔の本「红楼梦」です。")
    read = ASKING.read(item, ASKING.examine(item), "LEAKS: none")
    assert read is not None
    assert (read.severity, read.reason) == (0, "")


@pytest.mark.parametrize("output", ["", "混入はありません。", "LEAKS: 3", "LEAKS: 0", "LEAKS: many", "LEAKS: ,"])
def test_an_unusable_reply_is_none(output):
    item = answer(DOUBTFUL)
    assert ASKING.read(item, ASKING.examine(item), output) is None


@given(st.text(alphabet="あ漢话內aZ 한д。「」()`$\\<>\n\"'0,"))
def test_any_text_gives_spans_within_it_and_the_same_twice(text):
    finding = examine(text)
    assert finding == examine(text)
    assert 0 <= finding.severity <= 1
    assert 0 <= finding.details["mixing_ratio"] <= 1
    spans = finding.details["spans"]
    assert all(0 <= start < end <= len(text) for start, end, _ in spans)
    assert all(left[1] <= right[0] for left, right in pairwise(spans))
    assert bool(spans) == (finding.severity > 0)
