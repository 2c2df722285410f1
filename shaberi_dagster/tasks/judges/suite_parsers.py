"""The score parsers of the old suite, by benchmark and id: `S1` is the oldest, `S6` the newest.

Each takes the text of a judge. It returns a score or None, raises `ValueError` where the text has none that it can
read, and `OverflowError` where the suite ends with one. No range is checked.
"""

import re
from collections.abc import Callable, Mapping

Parser = Callable[[str], int | None]

_DIGITS, _NUMBER = r"\d{1,2}", "[0-9.]+"
_OPENING, _CLOSING = r"(\[\[|\[|【)", r"(\]\]|\]|】)"
_LAST_LINE, _TAG = r"FINAL SCORE:\s*([0-9.]+)", "<score>({})</score>"
_MARK = re.compile(r"([0-9.]+)(\s*/\s*10)?")  # takes numbers without a "/10", too, so that long ones take no time


def _rounded(text: str) -> int:
    """Return a number as an integer, halves to even."""
    return round(float(text))


def _within(place: str, number: str, convert: Callable[[str], int], otherwise: Parser | None = None) -> Parser:
    """Parse the first number in the first match of a place."""

    def parse(text: str) -> int | None:
        found = re.search(place, text)
        inner = found and re.search(number, found.group())
        if inner:
            return convert(inner.group())
        return _no_score(text) if otherwise is None else otherwise(text)

    return parse


def _no_score(text: str) -> int:
    raise ValueError(f"no score in {text[:50]!r}")


def _tagged(number: str, convert: Callable[[str], int], otherwise: Parser) -> Parser:
    """Parse the first score tag."""

    def parse(text: str) -> int | None:
        found = re.search(_TAG.format(number), text)
        return convert(found.group(1)) if found else otherwise(text)

    return parse


def _last(patterns: tuple[str, ...], otherwise: Parser) -> Parser:
    """Parse the last match of the first pattern that matches."""

    def parse(text: str) -> int | None:
        for pattern in patterns:
            if found := re.findall(pattern, text):
                return _rounded(found[-1])
        return otherwise(text)

    return parse


def _mean_over_ten(text: str) -> int:
    """Return the mean of all marks out of ten."""
    marks = [float(number) for number, over_ten in _MARK.findall(text) if over_ten]
    return round(sum(marks) / len(marks)) if marks else _no_score(text)


def _newest(otherwise: Parser) -> Parser:
    return _last((_LAST_LINE, _TAG.format(_NUMBER)), otherwise)


_TENGU = _within(r"\[点数\]\n\d{1,2}点", _DIGITS, int)
_TENGU_NEVER = _within(r"\[点数\]\\n[0-9.]+点", _NUMBER, _rounded)  # asks for a backslash and an n
_MT_BENCH, _MT_BENCH_ROUNDED = r"評価：\[\[\d{1,2}\]\]", r"評価：\[\[[0-9.]+\]\]"
_BRACKETS = f"評価：{_OPENING}{_NUMBER}{_CLOSING}"

PARSERS: Mapping[str, Mapping[str, Parser]] = {
    "tengu": {
        "S1": _TENGU,
        "S1a": _TENGU,
        "S2u": _within(r"\[点数\]\n\d{1,2}点?", _DIGITS, int),
        "S3": _tagged(_DIGITS, int, _TENGU),
        "S4": _tagged(_NUMBER, _rounded, _within(r"\[点数\]\n[0-9.]+点", _NUMBER, _rounded)),
        "S5": _tagged(_NUMBER, _rounded, _TENGU_NEVER),
        "S6": _newest(_TENGU_NEVER),
    },
    "elyza": {
        "S1": int,
        "S3": _tagged(r"\d", int, int),
        "S4": _tagged(_NUMBER, _rounded, _rounded),
        "S6": _newest(_rounded),
    },
    "mt_bench": {
        "S1": _within(_MT_BENCH, _DIGITS, int),
        "S4": _within(_MT_BENCH_ROUNDED, _NUMBER, _rounded),
        "S6": _newest(_within(_MT_BENCH_ROUNDED, _NUMBER, _rounded, lambda _: None)),
    },
    "rakuda": {
        "S1": _within(_MT_BENCH, _DIGITS, int),
        "S2": _within(f"評価：{_OPENING}{_DIGITS}{_CLOSING}", _DIGITS, int),
        "S4": _within(_BRACKETS, _NUMBER, _rounded),
        "S6": _newest(_within(_BRACKETS, _NUMBER, _rounded, _mean_over_ten)),
    },
}
"""By benchmark, then by id."""

second_score: Parser = _last((_LAST_LINE,), _rounded)
"""Parses the reply to a second call."""
