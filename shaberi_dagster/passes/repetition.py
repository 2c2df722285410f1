"""Answers that say the same again and again: loops, passages that come back, counting, and stretches of nothing.

The text is reduced to its letters and digits (case and width folded) without the labels of its lines. A *shingle* is 12
of them in a row, 24 where most are of a narrow script such as Latin. Stretches of shingles that stood there before are
repetition from the length of a sentence on, if they are enough of the answer together, and shorter ones if they follow
each other: labels, table rules, JSON keys, refrains and the rows of a table are shorter than that or differ. What is
quoted, and what stands in the question, may come again once.
All is array arithmetic and one sort, so the time grows as n log n with the length and not with the kind of text.
"""

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import groupby, pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, Field

from shaberi_dagster.passes.base import Answer, Finding, Pass, PassConfig

Kind = Literal["tail_loop", "loop", "repeat", "numbered", "filler"]
Span = tuple[int, int, Kind]

_SHINGLE = 12
_AGAIN_LEAST = 30.0  # wide letters that came again make a finding, however short the answer: a sentence
_SENTENCE_LEAST = 22.0  # wide letters of each; what is shorter is a phrase
_NARROW_SENTENCE_LEAST = 36.0  # likewise where most are narrow, for phrases are longer there
_HALF_NARROW = 0.75  # weight of a letter where half of them are narrow
_STRETCH_LEAST = 12.0  # shortest stretch, in wide letters
_DIGITS_LEAST = 200.0  # likewise of digits only; shorter ones are numbers such as a power of ten
_LOOP_COPIES = 5  # of a unit in a row, besides the first
_ROW_COPIES = 1.75  # likewise of a longer unit, which is said three times in a row; the last time may be cut
_ROW_LEAST = 18.0  # their weight at least
_GAP_LEAST = 250  # visible characters in a row without a letter; the rules of wide tables are shorter
_GAP_DIGITS_MOST = 0.05  # a gap with more digits than that is data or counting, not nothing
_NUMBERED_LEAST = 20  # lines in all that differ in their numbers only, and steps of counting in a row
_NUMBERED_LETTERS_LEAST = 6  # letters of such a line
_TAIL_SHARE = 0.05  # a loop that reaches the last twentieth of the text never ended
_MOST_SPANS = 50  # of evidence; the measures count all
_FIRST_NON_LATIN = 0x250
_BASIC_PLANE = 0x10000
_IDEOGRAPHS = slice(0x20000, 0x40000)
_LENGTHENED = ord("ー")  # people draw rules with it
_ZERO, _NINE = ord("0"), ord("9")
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, bits well mixed: 2**64 divided by the golden ratio

# What nobody sees: blanks, and what takes no room. Some of it counts as letters.
_INVISIBLE = re.compile(
    r"[\s\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800"
    r"\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U000e0000-\U000e0fff]++"
)
_NOT_LETTERS = re.compile(r"[\W\d_]+")
_NUMBER = re.compile(r"\d{1,9}")
_TABLE_RULE = re.compile(r"[|:+*\s-]*+")
_LINE_START = re.compile(  # the mark, number and label of a list's item, or a key of JSON
    r"^[ \t　>|*+#\"・•●-]*+(?:[(（]?[0-9０-９]{1,3}[.)．）、:：][ \t　*\"]*+)?(?:[^\n:：。、,]{1,30}[:：](?!//))?",
    re.MULTILINE,
)
_QUOTED = re.compile(r"(?s:```.*?```)|「[^「」\n]*+」|『[^『』\n]*+』|“[^“”\n]*+”|\"[^\"\n]*+\"|`[^`\n]*+`")
_ASKED = re.compile(
    r"[0-9０-９一二三四五六七八九十百千]\s?回[^。\n]{0,6}(?:書|言|唱|出力|表示|繰り?返|くり返)"
    r"|(?:繰り?返|くり返)(?:して|し)(?:書|言|出力|表示)"
    r"|\brepeat\b[^.\n]{1,80}\btimes\b",
    re.IGNORECASE,
)

_Ints = npt.NDArray[np.int64]
_Hashes = npt.NDArray[np.uint64]
_Mask = npt.NDArray[np.bool_]


def _is_curve(curve: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    shares = [share for share, _ in curve]
    if not curve or shares != sorted(set(shares)):
        raise ValueError("must have points with rising shares")
    if not all(0 <= value <= 1 for point in curve for value in point):
        raise ValueError("must have shares and severities from 0 to 1")
    return curve


class RepetitionConfig(PassConfig):
    """Settings of the pass.

    Attributes:
        least_letters: How many wide letters that stood there before make a finding (a narrow letter is half of one).
        least_share: The share of the letters that does so too, for short answers.
        curve: Severity by the repeated share of the text: points `(share, severity)`, straight lines between
            them, flat outside. By default a text that is all loop loses a quarter of the scale, a passing stutter 2 %.
    """

    least_letters: float = Field(default=75.0, gt=0)
    least_share: float = Field(default=0.12, gt=0, le=1)
    curve: Annotated[tuple[tuple[float, float], ...], AfterValidator(_is_curve)] = (
        (0.0, 0.0),
        (0.05, 0.02),
        (0.2, 0.12),
        (0.5, 0.16),
        (1.0, 0.25),
    )


class Repetition(Pass[RepetitionConfig]):
    """Finds loops and repeated passages."""

    name: ClassVar[str] = "repetition"
    version: ClassVar[str] = "5"
    earlier_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "1": {
            "curve": ((0.0, 0.0), (0.05, 0.02), (0.2, 0.15), (0.5, 0.3), (1.0, 0.5)),
            "least_share": 0.2,
        },
        "2": {"least_share": 0.2},
        "3": {"least_letters": 65.0, "least_share": 0.15},
        "4": {"least_letters": 65.0, "least_share": 0.15},
    }
    config_class: ClassVar[type[PassConfig]] = RepetitionConfig

    def examine(self, answer: Answer) -> Finding:
        """How much of the answer was there before.

        Returns:
            Details: `zlib_ratio` (bytes by compressed bytes), `letters` (wide letters, a narrow one is half),
            `repeated` (wide letters in sentences that stood there before), `share` (of the text that is
            repetition), `spans` of the kinds `tail_loop` (a loop that is still going at the end), `loop`, `repeat` (a
            sentence or passage that was there before), `numbered` (counting, or lines that differ in numbers only) and
            `filler` (blanks and symbols). Severity is 0 where the question asks for repetition.
        """
        text = answer.text
        if not text:
            return Finding()
        letters = _Letters(text)
        again, loops = _repeated(letters, answer.question)
        # The other sort of gap and of lines stand alone: one is enough.
        spans = [*_gaps(letters), *_numbered_lines(text)]
        least = max(_AGAIN_LEAST, min(self.config.least_letters, self.config.least_share * letters.weight))
        repeated = sum(stretch.weight for stretch in again)
        spans += [stretch.span(letters) for stretch in (*loops, *(again if repeated >= least else ()))]
        share = _covered(spans) / len(text)
        details: dict[str, Any] = {
            "zlib_ratio": round(_zlib_ratio(text), 3),
            "letters": letters.weight,
            "repeated": repeated,
            "share": round(share, 4),
            "spans": [list(span) for span in sorted(_largest(spans))],
        }
        if not spans or _ASKED.search(answer.question):
            return Finding(details=details)
        shares, severities = zip(*self.config.curve, strict=True)
        severity = float(np.interp(share, shares, severities))
        kinds = ", ".join(sorted({kind for _, _, kind in spans}))
        return Finding(round(severity, 4), f"{share:.0%} of the text is repetition ({kinds})", details)


class _Letters:
    """The letters and digits of a text, without those of the labels of its lines.

    Attributes:
        text: The text.
        visible: Where letters stand, those of labels too, in code points.
        at: Where each letter and digit stands that is of no label.
        codes: Them, folded.
        narrow: Whether each is of a narrow script.
        is_digit: Whether each is a digit.
        weights: Running sum of their weights: 1 for a wide one, 0.5 for a narrow one.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        table = _folding()
        folded = table[np.minimum(codes, len(table) - 1)]
        self.visible: _Ints = np.flatnonzero((folded != 0) & ~_are_digits(folded))
        for mark in _LINE_START.finditer(text):  # a list that comes again may be numbered on
            folded[mark.start() : mark.end()] = 0
        self.at: _Ints = np.flatnonzero(folded)
        self.codes = folded[self.at]
        self.narrow: _Mask = self.codes < _FIRST_NON_LATIN
        self.is_digit = _are_digits(self.codes)
        self.weights = np.concatenate(([0.0], np.cumsum(np.where(self.narrow, 0.5, 1.0))))

    @property
    def weight(self) -> float:
        """Weight of all."""
        return float(self.weights[-1])

    def quoted(self) -> _Mask:
        """Whether each is in quotation marks or code."""
        quoted = np.zeros(len(self.text), np.bool_)
        for quote in _QUOTED.finditer(self.text):
            quoted[quote.start() : quote.end()] = True
        return quoted[self.at]

    def written(self, start: int, end: int) -> str:
        """Letters from one to another with the signs between them, as they stand in the text, blanks aside."""
        return _INVISIBLE.sub("", self.text[self.at[max(start, 0)] : self.at[end - 1] + 1])


@dataclass(frozen=True)
class _Stretch:
    """Letters in a row that stood there before.

    Attributes:
        start: Index of the first letter.
        end: Index after the last one.
        weight: In wide letters.
        distance: How many letters before it the same stands.
    """

    start: int
    end: int
    weight: float
    distance: int

    @property
    def copies(self) -> float:
        """How many of what it repeats stand in a row."""
        return (self.end - self.start) / self.distance

    @property
    def is_sentence(self) -> bool:
        """Whether what it repeats is as long as one."""
        is_narrow = self.weight < _HALF_NARROW * (self.end - self.start)
        return self.weight / max(1.0, self.copies) >= (_NARROW_SENTENCE_LEAST if is_narrow else _SENTENCE_LEAST)

    def loops(self, letters: _Letters) -> bool:
        """Whether it is one unit again and again: a short one many times, or one written alike three times in a row."""
        if self.copies >= _LOOP_COPIES or self.copies < _ROW_COPIES or self.weight < _ROW_LEAST:
            return self.copies >= _LOOP_COPIES
        middle = self.start + self.distance
        return letters.written(self.start, middle) == letters.written(self.start - self.distance, self.start)

    def span(self, letters: _Letters) -> Span:
        start, end = int(letters.at[self.start]), int(letters.at[self.end - 1]) + 1
        length = len(letters.text)
        if self.copies < _ROW_COPIES:
            return start, end, "repeat"
        return start, end, "tail_loop" if length - end <= _TAIL_SHARE * length else "loop"


def _are_digits(codes: npt.NDArray[np.uint32]) -> _Mask:
    return (codes >= _ZERO) & (codes <= _NINE)


@cache
def _folding() -> npt.NDArray[np.uint32]:
    """For each code point the letter or digit that stands for it, 0 for what is neither."""
    table = np.zeros(_IDEOGRAPHS.stop + 1, np.uint32)
    for code in range(_BASIC_PLANE):
        char = chr(code)
        if char.isalnum() and code != _LENGTHENED and not _INVISIBLE.match(char):
            table[code] = ord(unicodedata.normalize("NFKC", char)[0].lower()[0])
    table[_IDEOGRAPHS] = np.arange(_IDEOGRAPHS.start, _IDEOGRAPHS.stop)
    return table


def _shingles(letters: _Letters) -> tuple[_Hashes, _Ints]:
    """Hash and length of the shingle that starts at each letter."""
    hashes, factor, length = letters.codes.astype(np.uint64), _MULTIPLIER, 1
    with np.errstate(over="ignore"):  # arithmetic is modulo 2**64 on purpose
        while length < _SHINGLE:
            step = min(length, _SHINGLE - length)  # the halves of the last one overlap
            hashes = hashes[:-step] * factor + hashes[step:]
            factor, length = factor * factor, length + step
        narrow = np.concatenate(([0], np.cumsum(letters.narrow)))
        doubled = (narrow[_SHINGLE:] - narrow[:-_SHINGLE]) > _SHINGLE // 2
        doubled[-_SHINGLE:] = False  # there is no room for two
        start = np.flatnonzero(doubled)
        twice = hashes[start] * factor + hashes[start + _SHINGLE]
        hashes = hashes.copy()
        hashes[start] = twice
    lengths = np.where(doubled, 2 * _SHINGLE, _SHINGLE)
    return hashes, lengths


def _repeated(letters: _Letters, question: str) -> tuple[list[_Stretch], list[_Stretch]]:
    """Sentences that stood there before, and loops. What is quoted, or stands in the question, may come again once."""
    if len(letters.codes) < 2 * _SHINGLE:
        return [], []
    hashes, lengths = _shingles(letters)
    order = np.argsort(hashes, kind="stable")
    is_new = np.concatenate(([True], np.diff(hashes[order]) != 0))
    index = np.arange(len(order))
    occurrence = np.empty_like(index)  # counted from 0
    occurrence[order] = index - np.maximum.accumulate(np.where(is_new, index, 0))
    if not occurrence.any():
        return [], []
    distance = np.zeros_like(index)
    distance[order[1:]] = np.where(is_new[1:], 0, np.diff(order))
    stretches = _stretches(letters, occurrence > 0, lengths, distance)
    loops = [stretch for stretch in stretches if stretch.loops(letters)]
    if sum(stretch.weight for stretch in stretches) < _AGAIN_LEAST:
        return [], loops
    allowed = letters.quoted()[: len(hashes)]
    asked = _Letters(question)
    if len(asked.codes) >= 2 * _SHINGLE:
        allowed = allowed | np.isin(hashes, _shingles(asked)[0])
    again = _stretches(letters, occurrence > allowed, lengths, distance)
    return [stretch for stretch in again if stretch.is_sentence], loops


def _stretches(letters: _Letters, starts: _Mask, lengths: _Ints, distance: _Ints) -> list[_Stretch]:
    """What the shingles at `starts` cover."""
    at = np.flatnonzero(starts)
    edges = np.zeros(len(letters.codes) + 1, np.int64)
    np.add.at(edges, at, 1)
    np.add.at(edges, np.minimum(at + lengths[at], len(letters.codes)), -1)
    covered = np.concatenate(([False], np.cumsum(edges[:-1]) > 0, [False]))
    begins, ends = np.flatnonzero(~covered[:-1] & covered[1:]), np.flatnonzero(covered[:-1] & ~covered[1:])
    weights = letters.weights[ends] - letters.weights[begins]
    others = np.concatenate(([0], np.cumsum(~letters.is_digit)))
    only_digits = others[ends] == others[begins]
    long_enough = weights >= np.where(only_digits, _DIGITS_LEAST, _STRETCH_LEAST)
    begins, ends, weights = begins[long_enough], ends[long_enough], weights[long_enough]
    first, last = np.searchsorted(at, begins), np.searchsorted(at, ends)
    return [
        _Stretch(int(begin), int(end), float(weight), int(np.sort(distance[at[low:high]])[(high - low) // 2]))
        for begin, end, weight, low, high in zip(begins, ends, weights, first, last, strict=True)
    ]


def _gaps(letters: _Letters) -> list[Span]:
    """Long stretches without a letter, if they are empty or count."""
    edges = np.concatenate(([-1], letters.visible, [len(letters.text)]))
    found: list[Span] = []
    for before in np.flatnonzero(np.diff(edges) > _GAP_LEAST):
        start, end = int(edges[before]) + 1, int(edges[before + 1])
        gap = letters.text[start:end]
        if len(_INVISIBLE.sub("", gap)) <= _GAP_LEAST:
            continue
        if _TABLE_RULE.fullmatch(gap) and "|" in gap and "--" in gap:
            continue
        if sum(char.isdigit() for char in gap) <= _GAP_DIGITS_MOST * len(gap):
            found.append((start, end, "filler"))
        elif _counts(gap):
            found.append((start, end, "numbered"))
    return found


def _counts(text: str) -> bool:
    """Whether its numbers go up by one for long."""
    numbers = [int(number) for number in _NUMBER.findall(text)]
    steps = groupby(after - before for before, after in pairwise(numbers))
    return any(step == 1 and len(list(run)) >= _NUMBERED_LEAST for step, run in steps)


def _numbered_lines(text: str) -> list[Span]:
    """Many lines that are the same but for their numbers."""
    lines = text.split("\n")
    if len(lines) < _NUMBERED_LEAST:
        return []
    bare = [_NOT_LETTERS.sub("", line) for line in lines]
    counts = Counter(line for line in bare if len(line) >= _NUMBERED_LETTERS_LEAST)
    found: list[Span] = []
    start = 0
    for line, key in zip(lines, bare, strict=True):
        if counts[key] >= _NUMBERED_LEAST:
            found.append((start, start + len(line), "numbered"))
        start += len(line) + 1
    return found


def _covered(spans: list[Span]) -> int:
    """Characters that are in at least one of them."""
    total, reached = 0, 0
    for start, end, _ in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _largest(spans: list[Span]) -> list[Span]:
    return sorted(set(spans), key=lambda span: (span[0] - span[1], span))[:_MOST_SPANS]


def _zlib_ratio(text: str) -> float:
    """How well it compresses; Japanese prose of ordinary length reaches 1.5 to 3."""
    data = text.encode("utf-8", "surrogatepass")
    return len(data) / len(zlib.compress(data, 1))
