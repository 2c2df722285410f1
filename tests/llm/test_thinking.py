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


CODE = "```html\n<think>例</think>\n```\n説明。"
PLAIN = " \n 答え <b>太字</b> <thinker> <reasons>\r\n　"
PLACEHOLDER = "次の形で書いてください: <reason for refusal> <think about it>"


@pytest.mark.parametrize(
    ("text", "answer", "thinking", "state"),
    [
        (PLAIN, PLAIN, None, "none"),
        (PLACEHOLDER, PLACEHOLDER, None, "none"),
        # attributes
        ('<think type="deep">考え</think >答え', "答え", "考え", "closed"),
        ("<think a=1 b='2'>考え</think >答え", "答え", "考え", "closed"),
        ("<think\n x = y >考え</think >答え", "答え", "考え", "closed"),
        # blocks anywhere, nested, empty, closed by another name
        ("<think>一</think>前半。<thinking> 二\n</thinking>後半。<reason>三</reason>", "前半。後半。", "一\n\n二\n\n三", "closed"),
        ("<think>外<think>内</think>外</think>答え", "答え", "外<think>内</think>外", "closed"),
        ("<think>\n\n</think>\n\n答え", "答え", None, "closed"),
        ("<think/>答え", "答え", None, "closed"),
        ("<think>考え</thinking>答え", "答え", "考え", "closed"),
        (f"<think>考え</think>\n{CODE}", CODE, "考え", "closed"),
        # never closed
        ("前置き\n<think>考え\n\nまだ考え", "前置き", "考え\n\nまだ考え", "unclosed"),
        ("<think>一</think>答え<think>二", "答え", "一\n\n二", "unclosed"),
        # never opened: everything up to the last one
        ("考え\n</think>\n答え", "答え", "考え", "close_only"),
        ("考え</think>下書き</think>答え", "答え", "考え\n\n下書き", "close_only"),
        ("<think>考え</think>下書き</think>答え", "答え", "考え\n\n下書き", "close_only"),
        (f"考え</think>\n{CODE}", CODE, "考え", "close_only"),
        # a last one without a text behind it is stray if thinking had ended
        ("<think>考え</think>答え</think>\n", "答え", "考え", "closed"),
        ("考え</think>答え</think>\n</think>", "答え", "考え", "close_only"),
        # without an answer
        ("考えだけ</think>\n\n", "", "考えだけ", "close_only"),
        ("<think>考えだけ</think>", "", "考えだけ", "closed"),
    ],
)  # fmt: skip
def test_thinking_is_split_from_the_answer(text, answer, thinking, state):
    assert split_thinking(text) == Split(answer, thinking, state)


def test_a_tag_mentioned_in_thinking_does_not_swallow_the_answer():
    assert split_thinking("<think>質問は<think>タグについて。</think>答え").answer == "答え"
    assert split_thinking("<think>`</think>`で閉じる。</think>答え") == Split("答え", "`</think>`で閉じる。", "closed")
    text = "<think>`<think>` の説明だ。</think>`<think>` と `</think>` は対です。"
    assert split_thinking(text).answer == "`<think>` と `</think>` は対です。"


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
