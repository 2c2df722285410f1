"""Which writing a character belongs to, and which parts of a text are not prose."""

import pytest

from shaberi_dagster.tasks.passes.scripts import (
    SIMPLIFIED,
    TRADITIONAL,
    chinese_runs,
    exempt_spans,
    foreign_runs,
    japanese_share,
    letter_count,
)

pytestmark = pytest.mark.unit


def texts(spans, text):
    return [text[start:end] for start, end, *_ in spans]


def test_simplified_only_characters_are_those_of_gb2312_that_no_japanese_set_has():
    assert len(SIMPLIFIED) == 2278
    assert set("这们对时为") <= SIMPLIFIED
    assert SIMPLIFIED.isdisjoint("国会学体区来点万与乱")


def test_traditional_characters_are_in_no_japanese_set_either():
    assert set("內歲說") <= TRADITIONAL
    assert TRADITIONAL.isdisjoint("國會學體區來點萬與亂")
    assert TRADITIONAL.isdisjoint(SIMPLIFIED)


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("はい안녕です", "hangul"),
        ("はいприветです", "cyrillic"),
        ("はいสวัสดีです", "thai"),
        ("はいمرحباです", "arabic"),
        ("はいनमस्तेです", "devanagari"),
        ("はいשלוםです", "hebrew"),
        ("はいবাংলাです", "other_script"),
    ],
)
def test_a_run_of_foreign_letters_is_named_by_its_script(text, script):
    assert list(foreign_runs(text)) == [(2, len(text) - 2, script)]


def test_letters_of_japanese_latin_and_mathematics_are_not_foreign():
    assert not list(foreign_runs("漢字かなカナｶﾅ々ー latin café αβγ Ａ１ ∑∞ 😀 (^_^)"))


def test_chinese_characters_are_told_apart_by_their_set():
    text = "会话と內容"
    assert list(chinese_runs(text)) == [(1, 2, "simplified_chinese"), (3, 4, "traditional_chinese")]


def test_japanese_punctuation_is_japanese_and_blanks_do_not_count():
    assert japanese_share("はい、そうです。\n\n　「え？」") == 1
    assert japanese_share("はい ok") == 0.5
    assert japanese_share("这は") == 0.5
    assert japanese_share(" \n") == 1


def test_letters_are_counted_in_any_script():
    assert letter_count("あa1한!д。") == 4


def test_fences_of_a_programming_language_hide_everything_and_fences_of_data_only_latin():
    code, table = "```python\nx = '这'\n```", "```csv\n县,市\n```"
    text = f"前\n{code}\n中\n{table}\n後"
    everything, latin = exempt_spans(text)
    assert texts(everything, text) == [code]
    assert texts(latin, text) == [table]


def test_an_unclosed_fence_reaches_to_the_end():
    text = "例：\n```js\nlet x = 1"
    assert texts(exempt_spans(text)[0], text) == ["```js\nlet x = 1"]


def test_urls_and_inline_code_hide_everything():
    text = "https://example.org/a-b を `git commit` と www.example.org で"
    assert sorted(texts(exempt_spans(text)[0], text)) == ["`git commit`", "https://example.org/a-b", "www.example.org"]


@pytest.mark.parametrize("formula", ["$a + b$", "$$\nx\n$$", r"\[ x \]", r"\(x\)", "<div class='a'>", "me@example.org"])
def test_formulas_tags_and_addresses_hide_latin(formula):
    text = f"式 {formula} です"
    everything, latin = exempt_spans(text)
    assert not everything
    assert formula in texts(latin, text)


def test_single_dollars_on_different_lines_are_prices():
    assert exempt_spans("apples are $5\npears are $6") == ([], [])
