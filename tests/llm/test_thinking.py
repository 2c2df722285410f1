import re
import unicodedata

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shaberi_dagster.llm.thinking import MARKS, Split, answer_state, split_thinking
from tests.sizes import size

pytestmark = pytest.mark.unit

HOSTILE = size(250_000, 1_000_000)
TAGS = [
    "<think>", "</think>", "<THINK>", "</Thinking>", "<thinking>", "<reason>", "</reason>", "<reasoning>", "</reasoning>",
    "<think/>", '<think lang="ja">', "`<think>`", "`</think>`", "```\n", "\n```", "```python\n", "~~~\n", "`", "\n", "\n\n", " ", "<", ">",
]  # fmt: skip
HARMONY = [
    "<|channel|>", "<|message|>", "<|start|>", "<|end|>", "assistant", "analysis", "commentary", "final", "assistantfinal", "答え", "We need.", " ",
]  # fmt: skip


@pytest.mark.parametrize("name", ["think", "thinking", "reason", "reasoning", "Think", "REASONING"])
def test_a_closed_block_of_any_name_is_removed(name):
    assert split_thinking(f"<{name}>\n考え中\n</{name}>\n\n答えは富士山です。\n") == Split(
        "答えは富士山です。", "考え中", "closed"
    )


def test_a_text_without_tags_stays_byte_identical():
    text = " \n 答え <b>太字</b> <thinker> <reasons>\r\n　"
    assert split_thinking(text) == Split(text, None, "none")


@pytest.mark.parametrize("tag", ['<think type="deep">', "<think a=1 b='2'>", "<think\n x = y >", "<think >"])
def test_attributes_are_tolerated(tag):
    assert split_thinking(f"{tag}考え</think >答え") == Split("答え", "考え", "closed")


@pytest.mark.parametrize(
    ("text", "answer", "thinking"),
    [
        ("analysisWe need the height.assistantfinal富士山は3776mです。\n", "富士山は3776mです。", "We need the height."),
        ("analysis高さを聞かれた。assistantfinal3776m", "3776m", "高さを聞かれた。"),
        ("analysis One. assistantanalysis Two.assistantcommentary Three.assistantfinal\n\n答え", "答え", "One.\n\nTwo.\n\nThree."),
        ("assistantfinal答え", "答え", None),
        ("analysisa`assistantfinal`bassistantfinal答え", "答え", "a`assistantfinal`b"),
        ("analysis一assistantfinal下書きassistantanalysis二assistantfinal答え", "答え", "一\n\n二\n\n下書き"),
        ("<|channel|>analysis<|message|>We need it.<|end|><|start|>assistant<|channel|>final<|message|>答え", "答え", "We need it."),
        ("<|start|>assistant<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>答え<|return|>", "答え", "a"),
        ("<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|><|start|>assistant<|channel|>final<|message|>答え", "答え", "{}"),
        ('<|channel|>analysis<|message|>a<|channel|>final <|constrain|>json<|message|>{"x": 1}', '{"x": 1}', "a"),
        ("<|channel|>final<|message|>答え<|return|><|start|>user<|message|>次<|channel|>final<|message|>別", "答え", "<|start|>user<|message|>次<|channel|>final<|message|>別"),
    ],
)  # fmt: skip
def test_the_last_final_message_of_harmony_is_the_answer(text, answer, thinking):
    assert split_thinking(text) == Split(answer, thinking, "closed")


@pytest.mark.parametrize(
    "text",
    [
        "We need the height.assistantfinal答え",
        "We need the height.<|end|><|start|>assistant<|channel|>final<|message|>答え",
    ],
)
def test_harmony_may_begin_within_its_first_message(text):
    assert split_thinking(text) == Split("答え", "We need the height.", "close_only")


@pytest.mark.parametrize(
    "text",
    [
        "analysisWe need the height",
        "analysis高さを聞かれた",
        "<|channel|>analysis<|message|>We need",
        "analysisWe need it.assistantfinal",
        "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>",
    ],
)
def test_harmony_without_a_final_message_has_no_answer(text):
    split = split_thinking(text)
    assert (split.answer, split.tag_state, bool(split.thinking)) == ("", "unclosed", True)


@pytest.mark.parametrize(
    "text",
    [
        "analysis of variance とは、分散分析のことです。",
        "analysis: 高い山です。",
        "Analysis高い山です。assistantfinal",
        "Harmony では `<|channel|>analysis<|message|>` のあとに考えを書き、assistantfinal が答えです。",
        "```\n<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b\n```\nが例です。",
        "<|channel|> は区切りです。",
        "<|channel|> は区切りです。<|channel|>final<|message|>答え",
        "final answer: 42",
        "印は「assistantfinal」です。assistantfinal と書かれます。",
        "順に `<|end|><|start|>assistant<|channel|>final<|message|>` と並びます。",
        "順に <|start|>assistant<|channel|>final<|message|> と並びます。",
    ],
)
def test_a_text_about_harmony_is_text(text):
    assert split_thinking(text) == Split(text, None, "none")


def test_a_placeholder_in_angle_brackets_is_text():
    text = "次の形で書いてください: <reason for refusal> <think about it>"
    assert split_thinking(text) == Split(text, None, "none")


def test_blocks_anywhere_are_joined_by_a_blank_line():
    split = split_thinking("<think>一</think>前半。<thinking> 二\n</thinking>後半。<reason>三</reason>")
    assert split == Split("前半。後半。", "一\n\n二\n\n三", "closed")


def test_an_unclosed_block_takes_everything_behind_it():
    assert split_thinking("前置き\n<think>考え\n\nまだ考え") == Split("前置き", "考え\n\nまだ考え", "unclosed")
    assert split_thinking("<think>一</think>答え<think>二") == Split("答え", "一\n\n二", "unclosed")


def test_everything_up_to_the_last_unmatched_close_is_thinking():
    assert split_thinking("考え\n</think>\n答え") == Split("答え", "考え", "close_only")
    assert split_thinking("考え</think>下書き</think>答え") == Split("答え", "考え\n\n下書き", "close_only")
    assert split_thinking("<think>考え</think>下書き</think>答え") == Split("答え", "考え\n\n下書き", "close_only")


def test_a_last_close_without_text_behind_it_is_stray_if_thinking_had_ended():
    assert split_thinking("<think>考え</think>答え</think>\n") == Split("答え", "考え", "closed")
    assert split_thinking("考え</think>答え</think>\n</think>") == Split("答え", "考え", "close_only")


def test_thinking_without_an_answer_leaves_an_empty_one():
    assert split_thinking("考えだけ</think>\n\n") == Split("", "考えだけ", "close_only")
    assert split_thinking("<think>考えだけ</think>") == Split("", "考えだけ", "closed")


def test_an_empty_block_is_removed_and_is_no_thinking():
    assert split_thinking("<think>\n\n</think>\n\n答え") == Split("答え", None, "closed")
    assert split_thinking("<think/>答え") == Split("答え", None, "closed")


def test_nested_blocks_end_with_the_outer_one():
    split = split_thinking("<think>外<think>内</think>外</think>答え")
    assert split == Split("答え", "外<think>内</think>外", "closed")


def test_a_tag_mentioned_in_thinking_does_not_swallow_the_answer():
    assert split_thinking("<think>質問は<think>タグについて。</think>答え").answer == "答え"
    assert split_thinking("<think>`</think>`で閉じる。</think>答え") == Split("答え", "`</think>`で閉じる。", "closed")
    text = "<think>`<think>` の説明だ。</think>`<think>` と `</think>` は対です。"
    assert split_thinking(text).answer == "`<think>` と `</think>` は対です。"


def test_a_block_may_be_closed_by_another_name_of_the_family():
    assert split_thinking("<think>考え</thinking>答え") == Split("答え", "考え", "closed")


@pytest.mark.parametrize(
    "text",
    [
        "例:\n```html\n<think>考え</think>\n```\n以上です。",
        "例:\n~~~\n<think>\n~~~\n以上です。",
        "1. 手順\n   ```xml\n   </think>\n   ```\n以上",
        "- ```\n  <think>\n  ```\n以上",
        "> ```\n> <think>\n> ```\n以上",
        "````\n```\n<think>\n```\n````\n以上",
        "```\n```python\n<think>\n```\n以上",
        "`<think>` は開始、``</think>`` は終了のタグです。",
        "`print('<think>')` を実行します。",
        "途中で切れた例:\n```html\n<think>考え</think>\n<think>",
    ],
)
def test_tags_in_code_are_text(text):
    assert split_thinking(text) == Split(text, None, "none")


def test_code_in_an_answer_survives_behind_real_thinking():
    answer = "```html\n<think>例</think>\n```\n説明。"
    assert split_thinking(f"<think>考え</think>\n{answer}") == Split(answer, "考え", "closed")
    assert split_thinking(f"考え</think>\n{answer}") == Split(answer, "考え", "close_only")


def test_thinking_that_breaks_off_in_a_code_fence_still_ends():
    assert split_thinking("考え\n```python\nprint(1)\n</think>\n答え").answer == "答え"
    assert split_thinking("<think>考え\n```python\nprint(1)\n</think>\n答え\n```\nx\n```").answer == "答え\n```\nx\n```"


def test_backticks_on_different_lines_do_not_make_inline_code():
    assert split_thinking("記号 ` です。\n<think>考え</think>記号 ` です。").answer == "記号 ` です。\n記号 ` です。"


@pytest.mark.acceptance
@pytest.mark.parametrize(
    "unit",
    [
        "<think>", "</think>", "<think></think>", "</think><think>", "<think ", "<think a=", "`", "`<think>", "``` ` `` ",
        "```a\n</think>\n", "~~~\n```\n", "<think>`</think>`", "\n", " ", "> ", "<", "```\n<think>\n", "- ", "<think a='",
        "` x `<think><think></think>`\n", "assistantfinal", "。assistantfinal ", "<|channel|>final<|message|>",
    ],
)  # fmt: skip
def test_long_hostile_text_is_split(unit):
    for text in (unit * (HOSTILE // len(unit)), "<think>" + unit * (HOSTILE // len(unit)) + "</think>"):
        split = split_thinking(text)
        assert len(split.answer) + len(split.thinking or "") <= len(text)


def test_fences_of_falling_length_take_linear_time():
    text = "\n".join("`" * n + "x\n</think>" for n in range(1400, 2, -1))
    assert split_thinking(text).tag_state == "close_only"


hostile = st.lists(st.sampled_from(TAGS) | st.text("考答え。表", min_size=1, max_size=3), max_size=40).map("".join)


def visible(text: str) -> list[str]:
    return sorted(char for char in text if unicodedata.category(char) == "Lo")


@given(hostile)
@example("<think>a<think></think>`</think>`</think>")
@example("x<think>考</think></think>")
def test_no_text_is_lost(text):
    split = split_thinking(text)
    assert visible(split.answer + (split.thinking or "")) == visible(text)
    if split.tag_state == "none":
        assert split == Split(text, None, "none")


@given(hostile | st.lists(st.sampled_from(HARMONY), max_size=12).map("".join))
def test_the_quick_look_finds_every_text_with_thinking_in_it_in_python_and_in_polars(text):
    if split_thinking(text).tag_state != "none":
        assert re.search(MARKS, text)
        assert pl.Series([text]).str.contains(MARKS).all()


@pytest.mark.parametrize("text", ["<b>答え</b>", "a < b, b > c", "x <- 1", "<table><tr></tr></table>"])
def test_the_quick_look_passes_over_other_tags(text):
    assert not re.search(MARKS, text)


@given(st.text())
def test_any_text_can_be_split(text):
    split = split_thinking(text)
    assert split.answer == text or split.tag_state != "none"


@given(st.text("考え\n `~答。", max_size=40).filter(str.strip), st.text("答え。\n", max_size=20).filter(str.strip))
def test_what_stands_behind_a_block_is_the_answer(thinking, answer):
    assert split_thinking(f"<think>{thinking}</think>{answer}") == Split(answer.strip(), thinking.strip(), "closed")


@pytest.mark.parametrize(
    "blank", [" ", "\n\t\r", "　", "\u200b\u200d\ufeff", "\x00\x1b", "\u2028\u00a0", "\u3164\u2800", "\ufe0f"]
)
def test_an_answer_without_glyphs_is_whitespace(blank):
    assert answer_state(blank) == "whitespace"


def test_an_answer_is_empty_or_text_otherwise():
    assert answer_state("") == "empty"
    assert answer_state("\u3000。") == "text"
    assert answer_state("\ue000") == "text"
