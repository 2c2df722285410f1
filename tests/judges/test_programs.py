"""Operations of programs: patterns over long and hostile texts."""

import re
import time

import pytest

from shaberi_dagster.judges.programs import OPERATIONS, compiled

THINKING = r"<(think|reason)>.*?</(think|reason)>"
FLAGS = int(re.DOTALL | re.IGNORECASE)
TEXTS = [
    "",
    "<think>a</think>b",
    "<think>a</THINK>\nb<reason>\nc</think>d</reason>",
    "a</think>b<think>c",
    "<think></think></think><think>",
    "ab<think>c</think",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    "pattern",
    [THINKING, r"a.*?b", r"aa.*aba", r"\s+", r"^<think>.*$", r"(?=a).*b", r"a.*(b(?=a))", r"a.*?(b$)", r"x?.*y?"],
)
def test_a_substitution_is_that_of_python(pattern, text):
    for whole in (text, text + "aaababa", "abaaba" + text):
        assert OPERATIONS["sub"](pattern, "-", whole, FLAGS) == re.sub(pattern, "-", whole, flags=FLAGS)


def test_thousands_of_beginnings_without_an_end_take_no_time():
    text = "<think>" * 30_000
    before = time.perf_counter()
    assert OPERATIONS["sub"](THINKING, "", text, FLAGS) == text
    assert OPERATIONS["sub"](THINKING, "", f"a</think>{text}", FLAGS) == f"a</think>{text}"
    assert time.perf_counter() - before < 1


@pytest.mark.parametrize("pattern", [r"(a+)+b", r"(ab|c)*d", r"(?:x*)*y", "(", "a" * 2000])
def test_patterns_that_could_take_forever_are_refused(pattern):
    with pytest.raises(ValueError, match="pattern"):
        compiled(pattern)
