"""The hash of a definition's structure: what counts, and that it is the same on every Python."""

import ast

import pytest

from shaberi_dagster.exchange.suite.structure import structure

SAMPLE = '''
@retried
def scored(text: str, *, name="gpt-4", words=["a", "b"]) -> int | None:
    """A docstring."""
    log.info("nothing of this counts")
    prompt = f"採点 {text!r} {name:>3}"
    try:
        if "点 数" in text and text.split("\\n 点") and name not in {"x": [1, 2.5, None, b"z"]}["あ"]:
            return round(float(re.findall(r"点 ([0-9.]+)", text)[-1]))
    except (ValueError, IndexError) as error:
        raise ScoreError("no score") from error
    return [lambda x, /, *y, **z: (x if y else -z) for x in words if x] or ask(prompt)
'''
PINNED = "30fef44bea1017c4a094add42d9309094ca5f734efdef1abe9af6d2c5c08cb1c"


def hashed(text: str) -> str:
    return structure(ast.parse(text).body[0])


@pytest.mark.long
def test_it_is_the_same_on_every_python():
    assert hashed(SAMPLE) == PINNED


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("@retried\n", ""),
        (": str,", ","),
        ("A docstring.", "Another one."),
        ("log.info(", "self.logger.warning("),
        ("採点 {text", "評価: {text"),
        ('["a", "b"]', '["c"]'),
        ('"no score"', 'name, "x"'),
    ],
)
def test_prose_and_annotations_do_not_count(before, after):
    assert before in SAMPLE
    assert hashed(SAMPLE.replace(before, after)) == hashed(SAMPLE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("点 数", "点  数"),
        ("n 点", "n  点"),
        ("点 ([0-9.]+)", "点 ([0-9]+)"),
        ('["あ"]', '["い"]'),
        ("[-1]", "[0]"),
        ("ValueError, ", ""),
        ("gpt-4", "gpt-5"),
        ("round(", "int("),
        ("{text!r}", "{name!r}"),
        ("def scored", "def score"),
    ],
)
def test_what_decides_counts(before, after):
    assert before in SAMPLE
    assert hashed(SAMPLE.replace(before, after)) != hashed(SAMPLE)
