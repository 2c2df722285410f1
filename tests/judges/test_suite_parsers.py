"""The score parsers of all generations of the old suite, on texts at their edges."""

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shaberi_dagster.tasks.judges.suite_calls import AdoptedJudging
from shaberi_dagster.tasks.judges.suite_parsers import PARSERS, second_score

NONE = "no score"


def parsed(benchmark: str, parser: str, text: str) -> int | str | None:
    try:
        return PARSERS[benchmark][parser](text)
    except ValueError:
        return NONE


@pytest.mark.parametrize(
    ("benchmark", "text", "scores"),
    [
        ("tengu", "[点数]\n7点", {"S1": 7, "S1a": 7, "S2u": 7, "S3": 7, "S4": 7, "S5": NONE, "S6": NONE}),
        ("tengu", "[点数]\n１０", {"S1": NONE, "S2u": 10, "S3": NONE, "S4": NONE}),
        ("tengu", "[点数]\n2.5点", {"S1": NONE, "S2u": 2, "S4": 2, "S5": NONE}),
        ("tengu", r"[点数]\n2.5点", {"S1": NONE, "S4": NONE, "S5": 2, "S6": 2}),
        ("tengu", "<score>3</score><score>4</score>", {"S1": NONE, "S3": 3, "S4": 3, "S5": 3, "S6": 4}),
        ("tengu", "<score>1.2.3</score>[点数]\n7点", {"S3": 7, "S4": NONE, "S6": NONE}),
        ("tengu", "<score>9</score>FINAL SCORE:\n3.5 FINAL SCORE: **4**", {"S5": 9, "S6": 4}),
        ("elyza", " +1_0\u3000", {"S1": 10, "S3": 10, "S4": 10, "S6": 10}),
        ("elyza", "2.5", {"S1": NONE, "S3": NONE, "S4": 2, "S6": 2}),
        ("elyza", "<score>10</score>", {"S1": NONE, "S3": NONE, "S4": 10, "S6": 10}),
        ("elyza", "nan", {"S1": NONE, "S3": NONE, "S4": NONE, "S6": NONE}),
        ("mt_bench", "評価：[[7]] 評価：[[8]]", {"S1": 7, "S4": 7, "S6": 7}),
        ("mt_bench", "評価：[7]", {"S1": NONE, "S4": NONE, "S6": None}),
        ("mt_bench", "評価：[[.]]", {"S1": NONE, "S4": NONE, "S6": NONE}),
        ("rakuda", "評価：[7】", {"S1": NONE, "S2": 7, "S4": 7, "S6": 7}),
        ("rakuda", "評価：[[3.5]]", {"S1": NONE, "S2": NONE, "S4": 4, "S6": 4}),
        ("rakuda", "7/100 と 4 / 10", {"S2": NONE, "S4": NONE, "S6": 6}),
        ("rakuda", "7/10 と ./10", {"S6": NONE}),
        ("rakuda", "3. 7/105/10、 .", {"S6": 6}),
    ],
)
def test_each_generation_parses_as_its_own(benchmark, text, scores):
    assert {parser: parsed(benchmark, parser, text) for parser in scores} == scores


@pytest.mark.parametrize(
    ("text", "score"), [("FINAL SCORE: 1 FINAL SCORE: 2.5", 2), (" 4.5 ", 4), ("<score>3</score>", NONE)]
)
def test_the_second_call_has_no_tags(text, score):
    try:
        assert second_score(text) == score
    except ValueError:
        assert score == NONE


PIECES = st.sampled_from(
    ["FINAL SCORE:", "<score>", "</score>", "[点数]\n", "点", "評価：[[", "]]", "/10", "..", "9" * 310, "7"]
)


@given(st.lists(PIECES, max_size=8).map("".join))
def test_no_text_ends_in_another_error(text):
    for benchmark, parsers in PARSERS.items():
        for parser in parsers:
            try:
                score = parsed(benchmark, parser, text)
            except OverflowError:
                assert "9" * 310 in text
            else:
                assert score in (None, NONE) or isinstance(score, int)


MOST = 50_000
LONG = ["1" * MOST, "<score>" + "1" * MOST, "評価：[[" + "1" * MOST, "FINAL SCORE:" + " " * MOST, "1 /" * (MOST // 3)]


@pytest.mark.parametrize("text", LONG)
def test_long_texts_take_no_time(text):
    began = time.perf_counter()
    for benchmark, parsers in PARSERS.items():
        for parser in parsers:
            with suppress(OverflowError):
                parsed(benchmark, parser, text)
    assert AdoptedJudging(removes_thinking=True, rules=()).judged("<think>" * MOST) == "<think>" * MOST
    assert time.perf_counter() - began < 5
