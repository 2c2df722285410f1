"""The score in a judge's output.

Judges are asked to end with one line `FINAL SCORE: x`. What they write is looser than that, and older prompts asked
for other forms, so several are understood, most explicit first. A form that is there but holds no number that can be
a score ends the search: guessing on from there would give the judge a score it did not give.

Decisions that are not obvious:

- The last marker that begins a line counts, and its line is understood as a whole or there is no score: see
  `judges.score_line`. A marker within a line counts only where none begins one, and only if the rest of its line is a
  score. Where such a later one says otherwise than the score, there is no score.
- A judge that names a maximum (`7/10`, `8 out of 10`, `10点満点中8点`) says which scale it means; whether that is the
  scale it was told is not for the parser.
- The last line of an output that was cut off (`finish_reason` `length`) may go on: no score.
- A bare number has at most two digits; a line `2024` ends a text about history, not a judgement.
- An answer under judgement may itself hold `FINAL SCORE: 10`. Then only the judge's own last line counts.

Every pattern is bounded, so the time is linear in the length of the texts.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import Literal

from shaberi_dagster.llm.endings import ending_of
from shaberi_dagster.tasks.benchmarks.registry import LegacyForm
from shaberi_dagster.tasks.judges.score_line import fold, line_score
from shaberi_dagster.tasks.judges.spec import Rounding

ScoreSource = Literal["final_score", "score_tag", "legacy_form", "bare_number"]


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

    Tried in order: the last `FINAL SCORE:`, the last `<score>` tag, the benchmark's legacy forms, a bare number.
    Full-width and invisible characters are folded first.

    Args:
        output: The judge's whole output, without its thinking.
        legacy_forms: Forms of older prompts, in the order they are tried. `tengu_points`: `[点数]` and below it `N点`.
            `elyza_number`: the whole output is a number. `double_brackets`: `評価：[[N]]`. `rakuda_brackets`: `評価：`
            with `[[N]]`, `[N]` or `【N】`. `rakuda_mean_of_tenths`: the mean of all `N/10`.
        answer: The answer that was judged. If it holds a score itself, only a last line `FINAL SCORE: x` of an
            output that was not cut off counts, unless that line and the one above it are an echo of the answer.
        finish_reason: Why the judge stopped, see `llm.endings`; None when unknown.
        rounding: `legacy` rounds to an integer, half to even, as the original suite did.

    Returns:
        The score and where it came from; None if it is missing (ask the judge again) or nonsense.
    """
    text, answer = fold(output), fold(answer)
    cut_off = ending_of(finish_reason or "") == "length"
    if _holds_score(answer, legacy_forms):
        finders: Sequence[tuple[ScoreSource, _Finder]] = [("final_score", partial(_own_last_line, answer=answer))]
        text = "" if cut_off else text
    else:
        finders = [
            ("final_score", _final_score),
            ("score_tag", _score_tag),
            *(("legacy_form", _form_finder(form, answer)) for form in legacy_forms),
            ("bare_number", partial(_bare_number, answer=answer, last_line=True)),
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
    """Return whether a score lies outside the judge's scale (its ends are inside), or is one of another scale."""
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


_NONSENSE = _Found(math.nan)
_Finder = Callable[[str], _Found | None]

_OPEN = r"[ *_`\"'\[(【「『<$]{0,16}"
_CLOSE = r"[ *_`\"'\])】」』>$。]{0,16}"
_PLAIN_NUMBER = r"[0-9]{1,4}(?:\.[0-9]{1,20})?"
_IN_BRACKETS = rf"[ ]{{0,4}}({_PLAIN_NUMBER})[ ]{{0,4}}点?[ ]{{0,4}}"
_RATING = r"評価[ *]{0,8}:[ *]{0,8}"

_SCALE = r"(?P<scale>[(\[][^()\[\]\n]{1,30}[)\]])?"
_MARKER = re.compile(rf"FINAL[ _]{{1,4}}SCORE[ *_`\"'\])】」]{{0,8}}{_SCALE}[ *_`\"'\])】」]{{0,8}}:", re.IGNORECASE)
_LINE_BEGINNING = re.compile(r"(?:[^\w\n]|_){0,16}")
_OWN_BEGINNING = re.compile(_OPEN + _MARKER.pattern, re.IGNORECASE)
_LONE_NUMBER = re.compile(
    rf"{_OPEN}(?P<number>{_PLAIN_NUMBER})(?!\.?[0-9])[ ]{{0,8}}(?:点|points?)?[ *]{{0,8}}"
    rf"(?:/[ *]{{0,8}}(?P<out_of>{_PLAIN_NUMBER})[ ]{{0,8}}点?)?{_CLOSE}",
    re.IGNORECASE,
)
_SCORE_TAG = re.compile(r"<score>(?P<body>[^<]{0,64})</score>", re.IGNORECASE)
_DIGIT = re.compile(r"[0-9]")
_TENTHS = re.compile(rf"(?<![0-9./])({_PLAIN_NUMBER})\s{{0,8}}/\s{{0,8}}10(?!\.?[0-9]|/)")
_LEGACY: Mapping[LegacyForm, re.Pattern[str]] = {
    "tengu_points": re.compile(rf"\[点数\][ *]{{0,8}}\n\s{{0,8}}[*]{{0,2}}({_PLAIN_NUMBER})[ ]{{0,4}}点"),
    "double_brackets": re.compile(rf"{_RATING}\[\[{_IN_BRACKETS}\]\]"),
    "rakuda_brackets": re.compile(rf"{_RATING}(?:\[\[{_IN_BRACKETS}\]\]|\[{_IN_BRACKETS}\]|【{_IN_BRACKETS}】)"),
}
_MAXIMUM_BARE_NUMBER = 100  # exclusive
_BARE_MAXIMA = frozenset({None, 5, 10})  # a line `5/12` may be a date
_QUOTING = re.compile(r"[\s*_`>\"'「」『』#|-]+")


def _final_score(text: str) -> _Found | None:
    """The score of the last marker that begins a line, else that of those within lines."""
    within: list[_Found] = []  # a sentence that quotes a marker is no score
    lines = text.split("\n")
    for index, line in reversed(list(enumerate(lines))):
        if markers := list(_MARKER.finditer(line)):
            begins = _LINE_BEGINNING.fullmatch(line, 0, markers[0].start())
            found = _behind(markers[-1], lines, index, lone=not begins)
            if begins:
                return found if len(markers) == 1 and all(other.value == found.value for other in within) else _NONSENSE
            if not math.isnan(found.value):
                within.append(found)
    return within[0] if len({found.value for found in within}) == 1 else _NONSENSE if within else None


def _behind(marker: re.Match[str], lines: Sequence[str], index: int, *, lone: bool) -> _Found:
    """Read what a marker is followed by: the rest of its line or, if that is blank, the next line that is not."""
    rest = marker.string[marker.end() :]
    is_below = not _unquoted(rest)
    if is_below:
        index = next((below for below in range(index + 1, len(lines)) if lines[below].strip()), index)
        rest = lines[index] if lines[index] is not marker.string else ""
    score = line_score(f"{marker['scale'] or ''} {rest}", lone=lone or is_below)
    return _Found(score[0], index == len(lines) - 1, score[1]) if score else _NONSENSE


def _score_tag(text: str) -> _Found | None:
    for tag in reversed(list(_SCORE_TAG.finditer(text))):
        if score := line_score(tag["body"], lone=True):
            return _Found(score[0], out_of=score[1])
        if _DIGIT.search(tag["body"]):
            return _NONSENSE
    return None


def _bracketed(text: str, pattern: re.Pattern[str]) -> _Found | None:
    matches = list(pattern.finditer(text))
    return _Found(float(matches[-1][matches[-1].lastindex or 0])) if matches else None


def _mean_of_tenths(text: str) -> _Found | None:
    numbers = [float(number) for number in _TENTHS.findall(text)]
    return _Found(fmean(numbers)) if numbers else None


def _form_finder(form: LegacyForm, answer: str) -> _Finder:
    if form == "elyza_number":
        return partial(_bare_number, answer=answer, last_line=False)
    return _mean_of_tenths if form == "rakuda_mean_of_tenths" else partial(_bracketed, pattern=_LEGACY[form])


def _holds_score(answer: str, legacy_forms: Sequence[LegacyForm]) -> bool:
    """Return whether an echo of the answer could be taken for a judgement (bare numbers are compared one by one)."""
    forms = [_form_finder(form, answer) for form in legacy_forms if form != "elyza_number"]
    return bool(_MARKER.search(answer)) or any(find(answer) is not None for find in (_score_tag, *forms))


def _bare_number(text: str, answer: str, *, last_line: bool) -> _Found | None:
    """A number that is the whole text or, if allowed, its last line, and that is not also a line of the answer."""
    start, end = _last_line(text) if last_line else (len(text) - len(text.lstrip()), len(text.rstrip()))
    match = _LONE_NUMBER.fullmatch(text, start, end)
    if match is None or float(match["number"]) >= _MAXIMUM_BARE_NUMBER:
        return None
    if _unquoted(match[0]) in map(_unquoted, answer.split("\n")):
        return None
    maximum = float(match["out_of"]) if match["out_of"] else None
    return _Found(float(match["number"]), end == len(text), maximum) if maximum in _BARE_MAXIMA else None


def _own_last_line(text: str, answer: str) -> _Found | None:
    """`FINAL SCORE: x` as the last line, if it is not the end of an echo of the answer."""
    start, end = _last_line(text)
    marker = _OWN_BEGINNING.match(text, start, end)
    if marker is None or _pairs(text)[-1] in _pairs(answer):
        return None
    score = line_score(f"{marker['scale'] or ''} {text[marker.end() : end]}", lone=True)
    return _Found(score[0], out_of=score[1]) if score else None


def _last_line(text: str) -> tuple[int, int]:
    """Start and end of the last line that is not blank."""
    end = len(text.rstrip())
    return text.rfind("\n", 0, end) + 1, end


def _pairs(text: str) -> list[tuple[str, str]]:
    """Pair each line that is not blank with the one above it ("" above the first), without marks of quotation."""
    lines = [line for line in map(_unquoted, text.split("\n")) if line]
    return list(pairwise(["", *lines])) or [("", "")]


def _unquoted(line: str) -> str:
    return _QUOTING.sub("", line).casefold()
