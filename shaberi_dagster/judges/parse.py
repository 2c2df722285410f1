"""The score in a judge's output.

Judges are asked to end with one line `FINAL SCORE: x`. What they write is looser than that, and older prompts asked
for other forms, so several are understood, most explicit first. A form that is there but holds no number that can be
a score ends the search: guessing on from there would give the judge a score it did not give.

Decisions that are not obvious:

- A minus sign makes a number nonsense, since every scale starts at 0 or 1; so do ranges (`7-8`), sums (`3+2=5`),
  `1.2.3`, and more than four digits before the point.
- A judge that names a maximum (`7/10`, `8 out of 10`, `80/100`) says which scale it means; whether that is the scale it
  was told is not for the parser.
- A number at the very end of an output that was cut off (`finish_reason` `length`) may be half a number: no score.
- A bare number has at most two digits; a line `2024` ends a text about history, not a judgement.
- An answer under judgement may itself hold `FINAL SCORE: 10`. Then only the judge's own last line counts.

Every pattern is bounded, so the time is linear in the length of the texts.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import Literal

ScoreSource = Literal["final_score", "score_tag", "legacy_form", "bare_number"]
LegacyForm = Literal["tengu_points", "elyza_number", "double_brackets", "rakuda_brackets", "rakuda_mean_of_tenths"]
Rounding = Literal["none", "legacy"]


@dataclass(frozen=True)
class ParsedScore:
    """A score as the judge gave it.

    Attributes:
        score: On the judge's own scale; may lie outside it.
        source: The form in which it was found.
        out_of: The maximum that the judge names behind it; None when it names none.
    """

    score: float
    source: ScoreSource
    out_of: float | None = None

    def __str__(self) -> str:
        return f"{self.score:g}" if self.out_of is None else f"{self.score:g}/{self.out_of:g}"


def parse_score(
    output: str,
    *,
    legacy_forms: Sequence[LegacyForm],
    answer: str,
    finish_reason: str | None,
    rounding: Rounding = "none",
) -> ParsedScore | None:
    """Find the score in a judge's output.

    Tried in order: the last `FINAL SCORE:`, the last `<score>` tag, the benchmark's legacy forms, a bare number. The
    colon, digits and point may be full-width; markdown, quotes and brackets around the number, `点` and `/10` behind it
    are accepted (behind `FINAL SCORE:` also `out of 10` and `（10点満点`).

    Args:
        output: The judge's whole output, without its thinking.
        legacy_forms: Forms of older prompts, in the order they are tried. `tengu_points`: `[点数]` and below it `N点`.
            `elyza_number`: the whole output is a number. `double_brackets`: `評価：[[N]]`. `rakuda_brackets`: `評価：`
            with `[[N]]`, `[N]` or `【N】`. `rakuda_mean_of_tenths`: the mean of all `N/10`.
        answer: The answer that was judged. If it holds a score itself, only a last line `FINAL SCORE: x` of an
            output that was not cut off counts, unless that line and the one above it are an echo of the answer.
        finish_reason: Why the judge stopped; `length` when it was cut off, None when unknown.
        rounding: `legacy` rounds to an integer, half to even, as the original suite did.

    Returns:
        The score and where it came from; None if there is none (ask the judge again) or it is nonsense.
    """
    text, answer = _fold(output), _fold(answer)
    cut_off = finish_reason == "length"
    if _holds_score(answer, legacy_forms):
        finders: Sequence[tuple[ScoreSource, _Finder]] = [("final_score", _OwnLastLine(answer))]
        text = "" if cut_off else text
    else:
        finders = [
            ("final_score", _final_score),
            ("score_tag", _score_tag),
            *(("legacy_form", _form_finder(form, answer)) for form in legacy_forms),
            ("bare_number", _BareNumber(answer, last_line=True)),
        ]
    for source, find in finders:
        found = find(text)
        if found is not None:
            if math.isnan(found.value) or (cut_off and found.at_end):
                return None
            score = float(round(found.value)) if rounding == "legacy" else found.value
            return ParsedScore(score, source, found.out_of)
    return None


def is_out_of_scale(parsed: ParsedScore, low: float, high: float) -> bool:
    """Whether a score lies outside the judge's scale, whose ends belong to it, or is one of another scale."""
    return not low <= parsed.score <= high or parsed.out_of not in {None, high}


@dataclass(frozen=True)
class _Found:
    """A number in a text.

    Attributes:
        value: NaN if it is nonsense.
        at_end: Nothing follows it in the text, so it may be the beginning of a longer number.
        out_of: The maximum that is named behind it.
    """

    value: float
    at_end: bool = False
    out_of: float | None = None


_Finder = Callable[[str], _Found | None]

# Full-width forms to ASCII, character by character, so that one set of patterns reads both.
_FOLD = {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)} | {"\u3000": " ", "−": "-"}
_FOLDED = re.compile("[\uff01-\uff5e\u3000−]")  # `str.translate` would look every character of a text up

_OPEN = r"[ \t*_`\"'\[(【「『<$]{0,16}"
_CLOSE = r"[ \t*_`\"'\])】」』>$。]{0,16}"
_PLAIN_NUMBER = r"[0-9]{1,4}(?:\.[0-9]{1,20})?"
# What must not follow: more digits, a unit that is no score, a range or sum.
_NUMBER = (
    rf"(?P<number>{_PLAIN_NUMBER})(?!\.?[0-9])(?![A-Za-z%])"
    r"(?![ \t*]{0,8}[-+=~〜–—×→:,][ \t*]{0,8}[0-9])"
)
_POINTS = r"[ \t]{0,8}(?:点|points?(?![A-Za-z]))?[ \t*]{0,8}"
_MAXIMUM = rf"[ \t*]{{0,8}}(?P<out_of>{_PLAIN_NUMBER})(?!\.?[0-9])[ \t]{{0,8}}点?"
_UNIT = rf"{_POINTS}(?:/{_MAXIMUM})?"
_MARKER = r"FINAL[ \t_]{1,4}SCORE[ \t*_`\"'\])】」]{0,8}:"
_VALUE = rf"{_OPEN}(?:<score>[ \t]{{0,8}})?{_NUMBER}"
_LONE = rf"{_OPEN}{_NUMBER}{_UNIT}{_CLOSE}"
_IN_BRACKETS = rf"[ \t]{{0,4}}({_PLAIN_NUMBER})[ \t]{{0,4}}点?[ \t]{{0,4}}"
_RATING = r"評価[ \t*]{0,8}:[ \t*]{0,8}"

_FINAL_SCORE = re.compile(_MARKER, re.IGNORECASE)
_NAMED_MAXIMUM = rf"{_CLOSE}(?:</score>)?[ \t(]{{0,4}}(?:/|out[ \t]of|(?=[ \t0-9]{{1,8}}点満点)){_MAXIMUM}"
_BESIDE = re.compile(rf"{_VALUE}{_POINTS}(?:{_NAMED_MAXIMUM})?", re.IGNORECASE)
_BELOW = re.compile(rf"[ \t*_`\"]{{0,16}}\n\s{{0,8}}{_LONE}$", re.IGNORECASE | re.MULTILINE)
_NUMBERISH = re.compile(rf"{_OPEN}(?:<score>)?\s?(?:[-+.]\s?)?(?:[0-9]|nan\b|inf\b|infinity\b)", re.IGNORECASE)
_FINAL_LINE = re.compile(rf"{_OPEN}{_MARKER}{_VALUE}(?:</score>)?{_UNIT}{_CLOSE}", re.IGNORECASE)
_SCORE_TAG = re.compile(r"<score>(?P<body>[^<]{0,64})</score>", re.IGNORECASE)
_LONE_NUMBER = re.compile(_LONE, re.IGNORECASE)
_DIGIT = re.compile(r"[0-9]")
_TENTHS = re.compile(rf"(?<![0-9./])({_PLAIN_NUMBER})\s{{0,8}}/\s{{0,8}}10(?!\.?[0-9]|/)")
_LEGACY: Mapping[LegacyForm, re.Pattern[str]] = {
    "tengu_points": re.compile(rf"\[点数\][ \t*]{{0,8}}\n\s{{0,8}}[*]{{0,2}}({_PLAIN_NUMBER})[ \t]{{0,4}}点"),
    "double_brackets": re.compile(rf"{_RATING}\[\[{_IN_BRACKETS}\]\]"),
    "rakuda_brackets": re.compile(rf"{_RATING}(?:\[\[{_IN_BRACKETS}\]\]|\[{_IN_BRACKETS}\]|【{_IN_BRACKETS}】)"),
}
_MAXIMUM_BARE_NUMBER = 100  # exclusive
_BARE_MAXIMA = frozenset({None, 5, 10})  # a line `5/12` may be a date
_QUOTING = re.compile(r"[\s*_`>\"'「」『』#|-]+")


def _fold(text: str) -> str:
    return _FOLDED.sub(lambda match: _FOLD[match[0]], text).replace("\r\n", "\n").replace("\r", "\n")


def _number(match: re.Match[str]) -> _Found:
    rest = match.string[match.end("number") : match.end("number") + 2]
    maximum = match["out_of"]
    return _Found(float(match["number"]), at_end=rest in {"", "."}, out_of=float(maximum) if maximum else None)


def _final_score(text: str) -> _Found | None:
    """The number of the last marker that has one; a marker before a placeholder is a quotation of the form."""
    for marker in reversed(list(_FINAL_SCORE.finditer(text))):
        if value := _BESIDE.match(text, marker.end()) or _BELOW.match(text, marker.end()):
            return _number(value)
        if _NUMBERISH.match(text, marker.end()):
            return _Found(math.nan)
    return None


def _score_tag(text: str) -> _Found | None:
    for tag in reversed(list(_SCORE_TAG.finditer(text))):
        if value := _LONE_NUMBER.fullmatch(tag["body"].strip()):
            return replace(_number(value), at_end=False)
        if _DIGIT.search(tag["body"]):
            return _Found(math.nan)
    return None


def _bracketed(text: str, pattern: re.Pattern[str]) -> _Found | None:
    matches = list(pattern.finditer(text))
    return _Found(float(matches[-1][matches[-1].lastindex or 0])) if matches else None


def _mean_of_tenths(text: str) -> _Found | None:
    numbers = [float(number) for number in _TENTHS.findall(text)]
    return _Found(fmean(numbers)) if numbers else None


def _form_finder(form: LegacyForm, answer: str) -> _Finder:
    if form == "elyza_number":
        return _BareNumber(answer, last_line=False)
    return _mean_of_tenths if form == "rakuda_mean_of_tenths" else partial(_bracketed, pattern=_LEGACY[form])


def _holds_score(answer: str, legacy_forms: Sequence[LegacyForm]) -> bool:
    """Whether an echo of the answer could be taken for a judgement (bare numbers are compared one by one)."""
    forms = [_form_finder(form, answer) for form in legacy_forms if form != "elyza_number"]
    return any(find(answer) is not None for find in (_final_score, _score_tag, *forms))


class _BareNumber:
    """A number that is the whole text or, if allowed, its last line, and that is not also a line of the answer."""

    def __init__(self, answer: str, *, last_line: bool) -> None:
        self._answer, self._last_line = answer, last_line

    def __call__(self, text: str) -> _Found | None:
        start, end = _last_line(text) if self._last_line else _without_blanks(text)
        match = _LONE_NUMBER.fullmatch(text, start, end)
        if match is None or float(match["number"]) >= _MAXIMUM_BARE_NUMBER:
            return None
        if _unquoted(match[0]) in map(_unquoted, self._answer.split("\n")):
            return None
        found = _number(match)
        return found if found.out_of in _BARE_MAXIMA else None


class _OwnLastLine:
    """`FINAL SCORE: x` as the last line, if it is not the end of an echo of the answer."""

    def __init__(self, answer: str) -> None:
        self._answer = answer

    def __call__(self, text: str) -> _Found | None:
        match = _FINAL_LINE.fullmatch(text, *_last_line(text))
        if match is None or _pairs(text)[-1] in _pairs(self._answer):
            return None
        return _number(match)


def _without_blanks(text: str) -> tuple[int, int]:
    return len(text) - len(text.lstrip()), len(text.rstrip())


def _last_line(text: str) -> tuple[int, int]:
    """Start and end of the last line that is not blank."""
    end = len(text.rstrip())
    return text.rfind("\n", 0, end) + 1, end


def _pairs(text: str) -> list[tuple[str, str]]:
    """Each line that is not blank with the one above it ("" above the first), without marks of quotation."""
    lines = [line for line in map(_unquoted, text.split("\n")) if line]
    return list(pairwise(["", *lines])) or [("", "")]


def _unquoted(line: str) -> str:
    return _QUOTING.sub("", line).casefold()
