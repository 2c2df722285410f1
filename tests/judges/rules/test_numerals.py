"""Kanji numerals as numbers, and words that are none."""

import pytest

from shaberi_dagster.tasks.judges.rules.base import GradedQuestion
from shaberi_dagster.tasks.judges.rules.maths import MathGrader
from shaberi_dagster.tasks.judges.rules.numerals import in_digits
from shaberi_dagster.tasks.judges.rules.numeric import NumericGrader

pytestmark = pytest.mark.unit

QUESTION = "いくつですか。"


@pytest.mark.parametrize(
    "form", ["{}", "答えは{}です。", "**{}**", "答え：{}", "よって、求める値は{}である。", "【答え】{}"]
)
@pytest.mark.parametrize(
    ("numeral", "number"),
    [
        ("三十二", "32"),
        ("百二十", "120"),
        ("千二百三十四", "1234"),
        ("一万二千三百四十五", "12345"),
        ("二億", "200000000"),
        ("一〇五", "105"),
        ("二分の一", "1/2"),
        ("三と二分の一", "3.5"),
        ("5分の3", "0.6"),
        ("三点一四", "3.14"),
        ("マイナス五", "-5"),
        ("七", "7"),
        ("十", "10"),
    ],
)
def test_a_kanji_numeral_is_its_number_for_both_graders(form, numeral, number):
    for grader in (NumericGrader(), MathGrader()):
        answer = form.format(numeral)
        assert grader.grade(answer, GradedQuestion(QUESTION, number)).correct is True, (grader.name, answer)
        assert grader.grade(answer, GradedQuestion(QUESTION, "6")).correct is False, (grader.name, answer)


def test_nothing_is_counted_as_nothing():
    assert in_digits("答えは〇です。残りは〇個です。") == "答えは0です。残りは0個です。"


WORDS = """一部の人が三角形を描いた 第一に考える 第三十二回 五十嵐さん 八百屋 もう一度 十分です 十二面体 三十二番目 一つずつ見る 万一の場合 千葉県
百貨店 一般に 二等辺三角形 九十九里浜 検算に〇 二三の例"""


@pytest.mark.parametrize("text", WORDS.split())
def test_words_with_such_signs_in_them_are_no_numbers(text):
    assert in_digits(text) == text
    for grader in (NumericGrader(), MathGrader()):
        assert grader.extract(text, GradedQuestion(QUESTION, "1")) is None
