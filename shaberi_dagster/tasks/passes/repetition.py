"""Answers that say the same again and again: loops, passages that come back, counting, and stretches of nothing.

The text is reduced to its letters and digits (case and width folded) without the labels of its lines. A *shingle* is 10
of them in a row, 20 where most are of a narrow script such as Latin. Two things are faults: what follows itself, from a
phrase on; and sentences that stood there before, if they are enough of the answer together. Beginnings and ends of
sentences that go on otherwise do not count: items of a list are built alike. What is quoted, and what stands in the
question, may come again once.
All is array arithmetic and one sort, so the time grows as n log n with the length and not with the kind of text.
"""

import re
import unicodedata
import zlib
from collections import Counter
from functools import cache
from itertools import chain, groupby, pairwise
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from shaberi_dagster.tasks.passes.base import Answer, Curve, Finding, Pass, PassConfig, severity_at

Kind = Literal["tail_loop", "loop", "repeat", "numbered", "filler"]
Span = tuple[int, int, Kind]

_SHINGLE = 10
_STRETCH = 1.2  # shingles that a stretch is long at least
_NARROW = 0.3  # weight of a narrow letter: a sentence has about 70 of them
_SENTENCE_LEAST = 22.0  # weight; what is shorter is a phrase
_AGAIN_LEAST = 26.0  # weight of sentences that come again, however short the answer
_CHANGED_MOST = 3.0  # weight of what may be new in a sentence that comes again
_DIGITS_LEAST = 400  # digits in a row that count; fewer are numbers such as a power of ten
_WHOLE = 0.9  # of a unit that follows itself; the rest may be new
_THIRD = 1.75  # copies besides the first of what is said three times in a row; the last may be cut
_MANY = 5  # likewise of what counts however short it is
_SAME_LINE_LEAST = 10.0  # weight of what follows itself within a line
_NEXT_LINE_LEAST = 20.0  # likewise on the next line, or in the next cell or braces
_THIRD_LEAST = 12.0  # likewise of the second and third time together
_BETWEEN_MOST = 3  # signs between what follows itself
_LABEL_MOST = 100  # characters of the label that may stand between if it is the same one
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

# What no one sees: blanks, and what takes no room. Some of it counts as letters.
_INVISIBLE = re.compile(
    r"[\s\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800"
    r"\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U000e0000-\U000e0fff]++"
)
_NOT_WRITTEN = re.compile(rf"(?:{_INVISIBLE.pattern}|\d)+")
_NOT_LETTERS = re.compile(r"[\W\d_]+")
_LINE_END = re.compile(r"[\n|{}]")
_SENTENCE_END = re.compile(r"[。．！？!?\n;；]|\.\s")
_NUMBER = re.compile(r"\d{1,9}")
_TABLE_RULE = re.compile(r"[|:+*\s-]*+")
_LABEL = re.compile(  # the mark, number and label of a list's item, or a key of JSON
    r"^[ \t　>|*+#\"・•●-]*+(?:[(（]?[0-9０-９]{1,3}[.)．）、:：][ \t　*\"]*+)?"
    r"(?:(?:[^\n:：。、,]{1,30}|[ -+\--9;-~]{1,60})[:：](?!//))?",
    re.MULTILINE,
)
_LINK_OR_GAP = re.compile(r"\]\(https?://[^\s)]++|\[[^\[\]\n]{1,30}+\](?!\()")  # where a link leads; a gap of a form
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


class RepetitionConfig(PassConfig):
    """Settings of the pass.

    Attributes:
        least_letters: How many wide letters in sentences that stood there before make a finding, however long the
            answer (a narrow letter is 0.3 of one).
        least_share: The share of the letters that does so too, for shorter answers.
        curve: Severity by the repeated share of the text. By default a text that is all loop loses a quarter of the
            scale, a passing stutter 2 %.
    """

    least_letters: float = Field(default=50.0, gt=0)
    least_share: float = Field(default=0.08, gt=0, le=1)
    curve: Curve = ((0.0, 0.0), (0.05, 0.02), (0.2, 0.12), (0.5, 0.16), (1.0, 0.25))


class Repetition(Pass[RepetitionConfig]):
    """Finds loops and repeated passages."""

    name: ClassVar[str] = "repetition"
    version: ClassVar[str] = "5"
    config_class: ClassVar[type[PassConfig]] = RepetitionConfig

    def examine(self, answer: Answer) -> Finding:
        """Measure how much of the answer was there before.

        Returns:
            Details: `zlib_ratio` (bytes by compressed bytes), `letters` (wide letters, a narrow one is 0.3),
            `repeated` (wide letters in sentences that stood there before), `share` (of the text that is
            repetition), `spans` of the kinds `tail_loop` (a loop that is still going at the end), `loop` (what follows
            itself), `repeat` (a sentence or passage that was there before), `numbered` (counting, or lines that differ
            in numbers only) and `filler` (blanks and symbols). Severity is 0 where the question asks for repetition.
        """
        text = answer.text
        if not text:
            return Finding()
        letters = _Letters(text)
        again, repeated, loops = _repeated(letters, answer.question)
        # The other sort of gap and of lines stand alone: one is enough.
        spans = [*_gaps(letters), *_numbered_lines(text)]
        least = min(self.config.least_letters, max(_AGAIN_LEAST, self.config.least_share * letters.weight))
        spans += [*loops, *(again if repeated >= least else ())]
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
        severity = round(severity_at(share, self.config.curve), 4)
        kinds = ", ".join(sorted({kind for _, _, kind in spans}))
        return Finding(severity, f"{share:.0%} of the text is repetition ({kinds})", details)


class _Letters:
    """The letters and digits of a text, without those of the labels of its lines.

    Attributes:
        text: The text.
        visible: Where letters stand, those of labels too, in code points.
        at: Where each letter and digit stands that is of no label.
        codes: Them, folded.
        narrow: Whether each is of a narrow script.
        digits: Running count of digits.
        weights: Running sum of their weights: 1 for a wide one, `_NARROW` for a narrow one.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        table = _folding()
        folded = table[np.minimum(codes, len(table) - 1)]
        self.visible: _Ints = np.flatnonzero((folded != 0) & ~_are_digits(folded))
        marks = chain(_LABEL.finditer(text), _LINK_OR_GAP.finditer(text))
        for mark in marks:  # a list that comes again may be numbered on
            folded[mark.start() : mark.end()] = 0
        self.at: _Ints = np.flatnonzero(folded)
        self.codes = folded[self.at]
        self.narrow: _Mask = self.codes < _FIRST_NON_LATIN
        self.digits = np.concatenate(([0], np.cumsum(_are_digits(self.codes))))
        self.weights = np.concatenate(([0.0], np.cumsum(np.where(self.narrow, _NARROW, 1.0))))

    @property
    def weight(self) -> float:
        """Weight of all."""
        return round(float(self.weights[-1]), 1)

    def quoted(self) -> _Mask:
        """Return whether each is in quotation marks or code."""
        quoted = np.zeros(len(self.text), np.bool_)
        for quote in _QUOTED.finditer(self.text):
            quoted[quote.start() : quote.end()] = True
        return quoted[self.at]

    def parts(self, end: re.Pattern[str]) -> _Ints:
        """In which part of the text each stands, counted from 0, if parts end so."""
        return np.searchsorted([found.start() for found in end.finditer(self.text)], self.at)

    def weigh(self, begins: _Ints, ends: _Ints) -> npt.NDArray[np.float64]:
        """Weights of stretches; too few digits and nothing else weigh nothing."""
        weights = self.weights[ends] - self.weights[begins]
        only_digits = self.digits[ends] - self.digits[begins] == ends - begins
        return np.where(only_digits & (ends - begins < _DIGITS_LEAST), 0.0, weights)

    def follows_itself(self, begin: int, end: int, distance: int) -> bool:
        """Return whether a stretch is written like what stands that distance before, at its beginning or its end."""
        shared = min(distance, end - begin)
        return any(self._is_alike(stop, distance, shared) for stop in {begin + shared, end})

    def _is_alike(self, end: int, distance: int, shared: int) -> bool:
        """Return whether letters are written like those that distance before, the same label or none between."""
        first, start = self.at[end - distance - shared], self.at[end - shared]
        middle, stop = self.at[end - distance - 1] + 1, self.at[end - 1] + 1
        if self._written(first, middle) != self._written(start, stop):
            return False
        between = self._written(middle, start)
        if len(between) <= _BETWEEN_MOST + distance - shared:
            return True
        return self._written(max(0, first - _LABEL_MOST), first).endswith(between[1:])

    def _written(self, start: int, end: int) -> str:
        """The text from one place to another, blanks and numbers aside."""
        return _NOT_WRITTEN.sub("", self.text[start:end])


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


def _repeated(letters: _Letters, question: str) -> tuple[list[Span], float, list[Span]]:
    """Sentences that stood there before, their weight, and loops.

    What is quoted, or stands in the question, may come again once; as a loop it counts all the same.
    """
    if len(letters.codes) < 2 * _SHINGLE:
        return [], 0.0, []
    hashes, lengths = _shingles(letters)
    order = np.argsort(hashes, kind="stable")
    is_new = np.concatenate(([True], np.diff(hashes[order]) != 0))
    index = np.arange(len(order))
    occurrence = np.empty_like(index)  # counted from 0
    occurrence[order] = index - np.maximum.accumulate(np.where(is_new, index, 0))
    if not occurrence.any():
        return [], 0.0, []
    distance = np.zeros_like(index)
    distance[order[1:]] = np.where(is_new[1:], 0, np.diff(order))
    loops = _loops(letters, distance, lengths)
    allowed = letters.quoted()[: len(hashes)]
    asked = _Letters(question)
    if len(asked.codes) >= 2 * _SHINGLE:
        allowed = allowed | np.isin(hashes, _shingles(asked)[0])
    again, weight = _sentences(letters, occurrence > allowed, distance, lengths)
    return again, weight, loops


def _runs(values: npt.NDArray[Any], lengths: _Ints) -> tuple[_Ints, _Ints]:
    """Begins and ends of the letters that shingles in a row cover whose values are the same and not 0."""
    edges = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1], [True])))
    begins, last = edges[:-1], edges[1:] - 1
    begins, last = begins[values[begins] != 0], last[values[begins] != 0]
    return begins, np.minimum(last + lengths[last], len(lengths) + _SHINGLE - 1)


def _loops(letters: _Letters, distance: _Ints, lengths: _Ints) -> list[Span]:
    """Find what follows itself: shingles in a row that stand equally far before, for as long as that is."""
    begins, ends = _runs(distance, lengths)
    distances = distance[begins]
    near = ends - begins >= _WHOLE * distances
    begins, ends, distances = begins[near], ends[near], distances[near]
    if not len(begins):
        return []
    copies = (ends - begins) / distances
    part = letters.parts(_LINE_END)
    needed = np.where(part[ends - 1] > part[begins - distances], _NEXT_LINE_LEAST, _SAME_LINE_LEAST)
    needed[copies >= _THIRD] = np.minimum(needed[copies >= _THIRD], _THIRD_LEAST)
    needed[copies >= _MANY] = 1.0
    heavy = letters.weigh(begins, ends) >= needed
    return [
        _span(letters, begin, end, looping=True)
        for begin, end, far in zip(begins[heavy], ends[heavy], distances[heavy], strict=True)
        if letters.follows_itself(begin, end, far)
    ]


def _sentences(letters: _Letters, again: _Mask, distance: _Ints, lengths: _Ints) -> tuple[list[Span], float]:
    """Stretches from the length of a sentence on, without the beginnings and ends of sentences that go on otherwise."""
    begins, ends = _runs(again, lengths)
    enough = ends - begins >= _STRETCH * lengths[begins]
    begins, ends = begins[enough], np.maximum.accumulate(ends[enough])
    if not len(begins):
        return [], 0.0
    apart = begins[1:] > ends[:-1]
    begins, ends = begins[np.concatenate(([True], apart))], ends[np.concatenate((apart, [True]))]
    farthest = np.maximum.reduceat(distance, np.stack((begins, np.minimum(ends, len(distance) - 1)), 1).ravel())[::2]
    copies = np.maximum(1.0, (ends - begins) / farthest)
    long_enough = letters.weigh(begins, ends) / copies >= _SENTENCE_LEAST
    begins, ends, copies = begins[long_enough], ends[long_enough], copies[long_enough]
    if not len(begins):
        return [], 0.0

    sentence = letters.parts(_SENTENCE_END)  # and what a stretch has of each, from `cuts` to `stops`
    starts = np.flatnonzero(np.diff(sentence)) + 1
    owner = np.searchsorted(begins, starts, "right") - 1
    cuts = np.union1d(begins, starts[(owner >= 0) & (starts < ends[owner])])
    owner = np.searchsorted(begins, cuts, "right") - 1
    stops = np.minimum(np.append(cuts[1:], len(sentence)), ends[owner])
    weights = letters.weights[stops] - letters.weights[cuts]
    first, last = (letters.weights[np.searchsorted(sentence, sentence[cuts], side)] for side in ("left", "right"))
    counts = (weights >= _SENTENCE_LEAST) | (last - first - weights <= _CHANGED_MOST)
    cuts, stops, owner = cuts[counts], stops[counts], owner[counts]
    spans = [
        _span(letters, cuts[pieces][0], stops[pieces][-1], looping=copies[stretch] >= _THIRD)
        for stretch in np.unique(owner)
        for pieces in [slice(*np.searchsorted(owner, [stretch, stretch + 1]))]
    ]
    return spans, round(float(weights[counts].sum()), 1)


def _span(letters: _Letters, begin: int, end: int, *, looping: bool) -> Span:
    start, stop = int(letters.at[begin]), int(letters.at[end - 1]) + 1
    length = len(letters.text)
    if not looping:
        return start, stop, "repeat"
    return start, stop, "tail_loop" if length - stop <= _TAIL_SHARE * length else "loop"


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
    """Return whether its numbers go up by one for long."""
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
    """Return how well it compresses; Japanese prose of ordinary length reaches 1.5 to 3."""
    data = text.encode("utf-8", "surrogatepass")
    return len(data) / len(zlib.compress(data, 1))
