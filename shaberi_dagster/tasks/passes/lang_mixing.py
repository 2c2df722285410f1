"""Text of another language in an answer that should be Japanese."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import Any, ClassVar

from pydantic import Field

from shaberi_dagster.tasks.passes.base import Answer, Curve, Finding, ModelQuestion, Pass, PassConfig, severity_at
from shaberi_dagster.tasks.passes.scripts import (
    KANA,
    chinese_runs,
    exempt_spans,
    foreign_runs,
    japanese_share,
    letter_count,
)

Span = tuple[int, int, str]
"""Start and end in code points, and what it is."""

_CHINESE_KINDS = frozenset({"simplified_chinese", "traditional_chinese"})
_ALL = "all"

# A question that names the language of a script is about it. Languages with Latin letters are named in many questions
# that want Japanese, so they have to be asked for.
_ASKED = {
    "chinese": re.compile("中国語|中文|漢文|簡体字|繁体字|北京語|広東語|台湾語"),
    "hangul": re.compile("韓国語|朝鮮語|ハングル"),
    "cyrillic": re.compile("ロシア語|ウクライナ語|ブルガリア語|セルビア語|モンゴル語|キリル"),
    "thai": re.compile("タイ語|タイ文字"),
    "arabic": re.compile("アラビア語|アラビア文字|ペルシ[アャ]語|ウルドゥー"),
    "devanagari": re.compile("ヒンディー|サンスクリット|梵語|梵字|ネパール語"),
    "hebrew": re.compile("ヘブライ"),
    "latin": re.compile(
        "英訳|英作文|英文[をにで]|ローマ字|in English|[仏独西伊]訳"
        "|(?:英|フランス|ドイツ|スペイン|イタリア|ポルトガル|ラテン|オランダ|ベトナム|インドネシア|トルコ)語"
        "(?:で(?:書|答|回答|返|説明|表|記|作|教|お願|言|出力|何)|版|表記|に(?:し|訳|翻|直|変|言|書|置|な)|への?翻?訳)"
    ),
    _ALL: re.compile("外国語|多言語|各国語|(?:複数|様々|さまざま|いろいろ)な?の?言語|他の言語"),
}

_WORD = r"[A-Za-zÀ-ɏ](?:[A-Za-zÀ-ɏ]|['’](?=[A-Za-z]))*+"
_LATIN_WORD = re.compile(_WORD)
# It matches single words too: a pattern that could fail would be tried again at each letter of a long word.
_LATIN_RUN = re.compile(rf"{_WORD}(?:[ \t,.;:!?\"“”()&*'’–—\-0-9]{{1,6}}+{_WORD})*+")
_LOWER_WORD = re.compile("[a-z]{3,}+( ?[\u3041-\u30ff\u4e00-\u9fff])?+")
_SCATTERED_SHARE = 0.02
_QUOTED_SHARE = 0.7
_PHRASE = 3

_HAN = re.compile("[\u4e00-\u9fff]")
_CHINESE_PARTICLES = re.compile("[的是了在我你他她不有和也]")
_PARTICLE_SHARE = 0.06
_CHINESE_PROSE = 20
_NO_JAPANESE = 0.2  # of the letters: below, an answer without kana is a table or data with a leak in it
_BETWEEN_CHINESE = re.compile("[\u4e00-\u9fff，。、：；！？“”《》 ]{0,10}")
_BETWEEN_WORDS = re.compile(r"[ ,.!?'’-]{1,3}")

_OPENED = re.compile(r"[「『“\"（(《〈][^「」『』“”\"（）()《》〈〉\n]{0,30}$")
_CLOSED = re.compile(r"^[^「」『』“”\"（）()《》〈〉\n]{0,30}[」』”\"）)》〉]")
_GLOSS_LIMIT = 24
_GLOSS_OPENINGS = frozenset("「『“\"（(《〈‘'")
_GLOSS_CLOSINGS = frozenset("」』”\"）)》〉’'")

_MOST_ASKED = 20
_CONTEXT = 30
_DETECTION = "passes/lang_mixing/detection"
_VERDICT = re.compile(
    r"^[ \t*_`>#-]{0,8}LEAKS[ \t*_`]{0,4}:[ \t*_`]{0,4}(\d{1,4}(?:[, \t]{1,4}\d{1,4}){0,50}|none)[ \t*_`.]{0,8}$",
    re.MULTILINE | re.IGNORECASE,
)


class LangMixingConfig(PassConfig):
    """Settings of the pass.

    Attributes:
        latin_words: From how many words on a Latin run of ordinary words is a leak.
        scattered_words: From how many different lower-case Latin words before a Japanese character on they are leaks.
        severity_points: Severity by the mixing ratio.
        minimum_severity: What any leak costs at least.
        confirm_with: Name of the model that decides on doubtful spans; None counts them as they are.
    """

    latin_words: int = Field(default=8, ge=2)
    scattered_words: int = Field(default=10, ge=2)
    severity_points: Curve = ((0.0, 0.01), (0.01, 0.02), (0.05, 0.05), (0.2, 0.1), (0.5, 0.2))
    minimum_severity: float = Field(default=0.01, ge=0, le=1)
    confirm_with: str | None = None


@dataclass(frozen=True)
class _Expected:
    """Content that an answer may have, because its question asks for it or contains it."""

    kinds: frozenset[str]
    characters: frozenset[str]
    words: frozenset[str]
    japanese: bool

    def allows(self, kind: str) -> bool:
        return kind in self.kinds or _ALL in self.kinds


class LangMixing(Pass[LangMixingConfig]):
    """Finds other scripts, Chinese characters and long Latin runs that the question gives no reason for.

    `details`: `mixing_ratio` (share of the letters that are in spans), `ja_ratio` (see `japanese_share`), `spans`,
    and `doubtful` (those of the spans that stand in quotes or brackets, so that they may be quotations or glosses).
    """

    name: ClassVar[str] = "lang_mixing"
    version: ClassVar[str] = "2"
    config_class: ClassVar[type[PassConfig]] = LangMixingConfig
    templates: ClassVar[Sequence[str]] = (_DETECTION,)

    def examine(self, answer: Answer) -> Finding:
        """Examine the characters."""
        text = answer.text
        expected = _expected(answer.question, answer.reference, answer.criteria)
        spans = self._spans(text, expected)
        return self._finding(text, spans, [span for span in spans if _enclosed(text, span)])

    @property
    def asks(self) -> str | None:
        """The model that confirms doubtful spans; None when none is to be asked."""
        return self.config.confirm_with

    def ask(self, answer: Answer, finding: Finding) -> ModelQuestion | None:
        """Return whether the doubtful spans are leaks, if there is a model to ask."""
        doubtful = finding.details.get("doubtful", ())[:_MOST_ASKED]
        if self.config.confirm_with is None or not doubtful:
            return None
        excerpts = [
            {
                "number": number,
                "kind": kind,
                "before": answer.text[max(0, start - _CONTEXT) : start],
                "text": answer.text[start : min(end, start + 10 * _CONTEXT)],
                "after": answer.text[end : end + _CONTEXT],
            }
            for number, (start, end, kind) in enumerate(doubtful, start=1)
        ]
        return ModelQuestion(_DETECTION, {"question": answer.question, "excerpts": excerpts})

    def read(self, answer: Answer, finding: Finding, output: str) -> Finding | None:
        """The finding without the doubtful spans that the model does not call leaks; its last statement counts."""
        stated = _VERDICT.findall(output)
        if not stated:
            return None
        numbers = {int(number) for number in re.findall(r"\d+", stated[-1])}
        asked = [tuple(span) for span in finding.details["doubtful"][:_MOST_ASKED]]
        if not numbers <= set(range(1, len(asked) + 1)):
            return None
        dropped = {span for number, span in enumerate(asked, start=1) if number not in numbers}
        spans = [span for span in map(tuple, finding.details["spans"]) if span not in dropped]
        confirmed = self._finding(answer.text, spans, [])
        return replace(confirmed, details={**confirmed.details, "rejected": [list(span) for span in sorted(dropped)]})

    def _spans(self, text: str, expected: _Expected) -> list[Span]:
        if not expected.japanese:
            return []
        letters = [*foreign_runs(text), *chinese_runs(text)]
        latin = (
            [] if expected.allows("latin") else [match.span() for match in _LATIN_RUN.finditer(text) if " " in match[0]]
        )
        has_kana = KANA.search(text) is not None
        scattered = [] if expected.allows("latin") else _scattered(text, expected)
        if not letters and not latin and not scattered and has_kana:
            return []
        nothing, not_latin = exempt_spans(text)
        spans = [*_foreign(text, letters, expected, _Cover(nothing))]
        cover = _Cover([*nothing, *not_latin])
        runs = [(start, end) for start, end in latin if not cover.touches(start, end)]
        spans += self._latin(text, runs, expected, has_kana=has_kana)
        words = [(start, end, "latin_words") for start, end in scattered if not cover.touches(start, end)]
        if self._many(text, words):
            taken = _Cover([(start, end) for start, end, _ in spans])
            spans += [word for word in words if not taken.touches(word[0], word[1])]
        asked = expected.allows("latin") or expected.allows("chinese")
        if not (has_kana or asked) and (_ratio(text, spans) >= _NO_JAPANESE or _is_chinese(text)):
            return [(0, len(text), "no_japanese")]
        return sorted(spans)

    def _latin(self, text: str, runs: Iterable[tuple[int, int]], expected: _Expected, *, has_kana: bool) -> list[Span]:
        """Runs of ordinary words; in an answer without kana shorter ones count together."""
        found: list[Span] = []
        short: list[Span] = []
        phrases = 0
        for start, end in runs:
            words = _LATIN_WORD.findall(text, start, end)
            ordinary = [word for word in words if len(word) > 1 and word.islower()]
            if len(ordinary) < max(_PHRASE, len(words) / 2):
                continue
            quoted = sum(word.lower() in expected.words for word in words) >= _QUOTED_SHARE * len(words)
            if quoted and has_kana:
                continue
            if len(words) >= self.config.latin_words:
                found.append((start, end, "latin"))
            else:
                short.append((start, end, "latin"))
                phrases += len(words)
        return found + short if found or (not has_kana and phrases >= self.config.latin_words) else []

    def _many(self, text: str, words: Sequence[Span]) -> bool:
        """Return whether single words are too many to be terms."""
        different = {text[start:end] for start, end, _ in words}
        written = sum(end - start for start, end, _ in words)
        return len(different) >= self.config.scattered_words and written >= _SCATTERED_SHARE * len(text)

    def _finding(self, text: str, spans: Sequence[Span], doubtful: Sequence[Span]) -> Finding:
        ratio = _ratio(text, spans)
        details: Mapping[str, Any] = {
            "mixing_ratio": round(ratio, 6),
            "ja_ratio": round(japanese_share(text), 6),
            "spans": [list(span) for span in spans],
            "doubtful": [list(span) for span in doubtful],
        }
        if not spans:
            return Finding(details=details)
        counts = Counter(kind for _, _, kind in spans)
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items()))
        severity = max(severity_at(ratio, self.config.severity_points), self.config.minimum_severity)
        return Finding(severity, f"other languages: {kinds}; {ratio:.1%} of the letters", details)


class _Cover:
    """Asks quickly whether a span touches one of many."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(spans)
        self._starts = [start for start, _ in ordered]
        self._ends = list(accumulate((end for _, end in ordered), max))

    def touches(self, start: int, end: int) -> bool:
        before = bisect_right(self._starts, end - 1)
        return before > 0 and self._ends[before - 1] > start


@lru_cache(maxsize=1024)  # a question has one answer a model
def _expected(question: str, reference: str | None, criteria: str | None) -> _Expected:
    given = "\n".join(filter(None, (question, reference, criteria)))
    kinds = {kind for kind, pattern in _ASKED.items() if pattern.search(question)}
    kinds |= {kind for _, _, kind in foreign_runs(given)}
    return _Expected(
        kinds=frozenset(kinds),
        characters=frozenset(given),
        words=frozenset(word.lower() for word in _LATIN_WORD.findall(given)),
        japanese=KANA.search(question) is not None,
    )


def _foreign(text: str, runs: Iterable[Span], expected: _Expected, exempt: _Cover) -> list[Span]:
    """The runs that count, Chinese ones joined over the common characters between them."""
    found: list[Span] = []
    for start, end, kind in sorted(runs):
        chinese = kind in _CHINESE_KINDS
        if (
            expected.allows("chinese" if chinese else kind)
            or expected.characters.issuperset(text[start:end])
            or exempt.touches(start, end)
            or (not chinese and _is_gloss(text, start, end))
        ):
            continue
        last = found[-1] if found else (0, 0, "")
        if chinese and last[2] in _CHINESE_KINDS and _BETWEEN_CHINESE.fullmatch(text, last[1], start):
            found[-1] = (last[0], end, min(kind, last[2]))  # simplified, if either is
        elif kind == last[2] and _BETWEEN_WORDS.fullmatch(text, last[1], start):
            found[-1] = (last[0], end, kind)
        else:
            found.append((start, end, kind))
    return found


def _is_gloss(text: str, start: int, end: int) -> bool:
    """A single word in quotes or brackets, or a letter that is part of a face such as (゜Д゜)."""
    before, after = text[start - 1 : start], text[end : end + 1]
    if before in _GLOSS_OPENINGS and after in _GLOSS_CLOSINGS:
        return end - start <= _GLOSS_LIMIT
    return end - start == 1 and all(side and not side.isalnum() and not side.isspace() for side in (before, after))


def _scattered(text: str, expected: _Expected) -> list[tuple[int, int]]:
    """Whole lower-case Latin words before a Japanese character."""
    found = []
    for match in _LOWER_WORD.finditer(text):
        if match.lastindex is None:
            continue
        start, end = match.start(), match.start(1)
        before = text[start - 1 : start]
        if not (before.isascii() and before.isalpha()) and text[start:end] not in expected.words:
            found.append((start, end))
    return found


def _ratio(text: str, spans: Iterable[Span]) -> float:
    """The mixing ratio: share of the letters that are in spans."""
    leaked = sum(letter_count(text[start:end]) for start, end, _ in spans)
    return leaked / letter_count(text) if leaked else 0.0


def _is_chinese(text: str) -> bool:
    """Chinese prose that is written with characters Japanese has too; tables of names have no particles."""
    han = len(_HAN.findall(text))
    particles = len(_CHINESE_PARTICLES.findall(text))
    return han >= _CHINESE_PROSE and particles >= _PARTICLE_SHARE * han


def _enclosed(text: str, span: Span) -> bool:
    start, end, kind = span
    if kind == "no_japanese":
        return False
    return bool(_OPENED.search(text[max(0, start - 32) : start]) and _CLOSED.match(text[end : end + 32]))
