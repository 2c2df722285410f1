import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shaberi_dagster.reports.blocks import number, table_of, text
from shaberi_dagster.reports.write import Markdown, as_markdown, comment_table
from shaberi_dagster.util.text import csv_text, json_safe, pad, printable, truncate, truncate_apart, width_of

pytestmark = pytest.mark.unit

any_text = st.text(st.characters(exclude_categories=[]), max_size=40)


def test_escape_sequences_and_direction_changes_become_visible():
    assert printable("\x1b[2J\x1b]0;題\x07") == "␛[2J␛]0;題␇"
    assert printable("\x9b31m\x7f\x00") == "‹U+009B›31m␡␀"
    assert printable("abc\u202edcba\u2066\u200f") == "abc‹U+202E›dcba‹U+2066›‹U+200F›"


def test_newlines_and_tabs_are_kept_only_in_text_of_several_lines():
    assert printable("一\r\n二\t\r三") == "一␍␊二␉␍三"
    assert printable("一\r\n二\t\r三\x1b", multiline=True) == "一\n二\t\n三␛"


def test_separators_and_lone_surrogates_become_visible():
    assert printable("a\u2028b\u0085c\ud800d\U000e0041", multiline=True) == "a‹U+2028›b‹U+0085›c‹U+D800›d‹U+E0041›"


def test_ordinary_text_is_left_alone():
    text = "日本語 한국어 👩\u200d💻 ｶﾞ é \ue000 [bold]"
    assert printable(text) == text


@given(any_text, st.booleans())
def test_printable_text_can_be_encoded_and_holds_no_controls(text, multiline):
    shown = printable(text, multiline=multiline)
    shown.encode()
    assert not {unicodedata.category(c) for c in shown if c not in "\n\t"} & {"Cc", "Cs", "Zl", "Zp"}
    assert printable(shown, multiline=multiline) == shown


@given(any_text)
def test_a_safe_document_means_the_same_and_holds_nothing_unsafe(text):
    document = json_safe(json.dumps({"text": text}, ensure_ascii=False, indent=2))
    assert json.loads(document) == {"text": text}
    assert printable(document, multiline=True) == document


def test_wide_characters_take_two_columns():
    assert width_of("日本a") == 5
    assert width_of("ｱ！") == 3


def test_padding_counts_columns():
    assert pad("日本", 6) == "日本  "
    assert pad("日本", 6, "right") == "  日本"
    assert pad("日本語", 4) == "日本語"


def test_truncation_counts_columns_and_never_splits_a_character():
    assert truncate("日本語", 6) == "日本語"
    assert truncate("日本語", 5) == "日本…"
    assert truncate("日本語", 4) == "日…"
    assert truncate("日本語", 1) == "…"
    assert truncate("日本語", 0) == ""


@given(any_text.map(printable), st.integers(0, 20))
def test_truncated_text_fits(text, width):
    assert width_of(truncate(text, width)) <= width
    assert width_of(pad(truncate(text, width), width)) == width


@pytest.mark.parametrize("text", ["=1+1", " +1", "-1", "@SUM(A1)", "＝1"])
def test_a_cell_of_csv_is_no_formula(text):
    assert csv_text(text) == f"'{text}"
    assert csv_text(f"a{text}") == f"a{text}"


def test_markdown_cells_mean_nothing_and_columns_line_up():
    rows = [{"name": "a|b\n*c*", "score": 1.5}, {"name": "日本語", "score": None}, {"name": "\x1b", "score": 10.0}]
    table = as_markdown([table_of(rows, [text("name"), number("score")])])
    lines = table.splitlines()
    assert lines[1] == "| ---------- | ----: |"
    assert lines[2] == "| a\\|b \\*c\\* |   1.5 |"
    assert "\x1b" not in table
    assert {width_of(line) for line in lines} == {width_of(lines[0])}


def test_texts_in_a_comment_stand_in_code_spans_whatever_they_are():
    rows = [{"name": "@team `c` | #1\n<b>", "more": Markdown("**x**"), "score": 1.5}]
    columns = [text("name"), text("more"), number("score"), text("lines", lambda _: ("a", "*b*"))]
    table = comment_table(table_of(rows, columns, notes=["5 * 5"]))

    assert table.splitlines() == [
        "| name | more | score | lines |",
        "| :-- | :-- | --: | :-- |",
        "| `@team ˋcˋ ¦ #1 <b>` | **x** | 1.5 | `a`<br>`*b*` |",
        "",
        r"5 \* 5",
    ]


@given(st.lists(st.text("ab日/", max_size=12), unique=True), st.integers(6, 12), st.sampled_from(["middle", "end"]))
def test_texts_that_are_cut_stay_apart(texts, width, where):
    cut = truncate_apart(texts, width, where)
    assert len(set(cut)) == len(texts)
    assert all(width_of(text) <= width for text in cut)
