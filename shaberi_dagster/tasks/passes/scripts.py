"""Scripts of characters, and the parts of a text that are not prose."""

import re
from collections.abc import Iterator

import regex

NAMED_SCRIPTS = ("Hangul", "Cyrillic", "Thai", "Arabic", "Devanagari", "Hebrew")
"""Scripts that spans name; a run of any other one is called `other_script`."""

_LETTER = r"[\p{L}\p{M}]"
# Scripts of Japanese text; Greek is among them because its letters are mathematics far more often than words.
_FAMILIAR = r"[\p{Latin}\p{Han}\p{Hiragana}\p{Katakana}\p{Greek}\p{Common}\p{Inherited}]"
_UNFAMILIAR = rf"[{_LETTER}--{_FAMILIAR}]"
_NAMED = "|".join(rf"(?P<{name.lower()}>[\p{{{name}}}&&{_LETTER}]+)" for name in NAMED_SCRIPTS)
_FOREIGN = regex.compile(_UNFAMILIAR, regex.V1)
_RUNS = regex.compile(rf"{_NAMED}|(?P<other_script>{_UNFAMILIAR}+)", regex.V1)


def _encodable(character: str, *codecs: str) -> bool:
    for codec in codecs:
        try:
            character.encode(codec)
        except UnicodeEncodeError:
            continue
        return True
    return False


_IDEOGRAPHS = [chr(code) for code in range(0x4E00, 0xA000)]
_NOT_JAPANESE = [c for c in _IDEOGRAPHS if not _encodable(c, "shift_jis", "euc_jis_2004")]

SIMPLIFIED = frozenset(c for c in _NOT_JAPANESE if _encodable(c, "gb2312"))
"""Simplified-Chinese-only characters: in GB 2312, in neither Shift_JIS nor JIS X 0213:2004; there are 2,278."""

TRADITIONAL = frozenset(c for c in _NOT_JAPANESE if _encodable(c, "big5")) - SIMPLIFIED
"""Ideographs of Chinese outside of Japan that are not simplified: in Big5, in neither Shift_JIS nor JIS X 0213:2004."""

_CHINESE = re.compile(f"[{''.join(sorted(SIMPLIFIED | TRADITIONAL))}]+")

KANA = re.compile("[\u3041-\u30ff\uff66-\uff9f]")
_JAPANESE = re.compile("[\u3000-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff01-\uff9f]+")
_BLANKS = re.compile(r"\s+")
_LETTERS = regex.compile(f"{_LETTER}+")

# Each of these starts at a fixed mark and is possessive or of bounded length: a hostile text costs linear time.
_FENCE = re.compile(r"^[ \t]{0,8}(`{3,}+|~{3,}+)[ \t]*+([\w+#.-]{0,30}+)(?=[^`\n]*+$)", re.MULTILINE)
_FORMULA_MARK = re.compile(r"\\[\[\]()]|\$\$?")
_FORMULA_ENDS = {"\\[": "\\]", "\\(": "\\)", "$$": "$$", "$": "$"}
_FORMULA_LIMIT = 2000
_MARKUP = re.compile(
    r"<[/!a-zA-Z|][^<>\n]{0,300}+>|&[a-zA-Z]{2,8}+;|\\[a-zA-Z]++|(?<![\w.+-])[\w.+-]{1,64}+@[\w.-]{1,100}+"
)
_URL = re.compile(r"(?:https?://|www\.)[!-~]++")
_CODE = re.compile(r"`[^`\n]{1,200}+`")
_DATA_FENCES = frozenset(
    {"", "csv", "tsv", "text", "txt", "plaintext", "plain", "markdown", "md", "json", "yaml", "xml"}
)


def foreign_runs(text: str) -> Iterator[tuple[int, int, str]]:
    """Runs of letters of one script that Japanese is not written with: start, end, the script in lower case."""
    if _FOREIGN.search(text) is None:
        return
    for match in _RUNS.finditer(text):
        yield match.start(), match.end(), str(match.lastgroup)


def chinese_runs(text: str) -> Iterator[tuple[int, int, str]]:
    """Runs of ideographs that no Japanese character set has.

    Start, end, and simplified_chinese; traditional_chinese if none of its characters is a simplified one.
    """
    for match in _CHINESE.finditer(text):
        simplified = not SIMPLIFIED.isdisjoint(match[0])
        yield match.start(), match.end(), "simplified_chinese" if simplified else "traditional_chinese"


def japanese_share(text: str) -> float:
    """Share of Japanese characters among all that are not blank; 1 for a text without any.

    Japanese are kana (half-width ones too), ideographs except those of Chinese only, and Japanese punctuation:
    the blocks CJK Symbols and Punctuation and Halfwidth and Fullwidth Forms (without half-width Hangul).
    """
    total = len(text) - sum(map(len, _BLANKS.findall(text)))
    japanese = sum(map(len, _JAPANESE.findall(text))) - text.count("\u3000")
    foreign = sum(end - start for start, end, _ in chinese_runs(text))
    return (japanese - foreign) / total if total else 1.0


def letter_count(text: str) -> int:
    """Count the letters and their marks, in any script."""
    return sum(map(len, _LETTERS.findall(text)))


def exempt_spans(text: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Find what is not prose: spans in which nothing counts, and spans in which only Latin letters do not count.

    Nothing counts in URLs, in inline code, and in fences that name a programming language. Fences that name none or a
    data format (a CSV table is an answer like any other), formulas, tags and HTML entities, TeX commands and mail
    addresses are full of Latin letters, but have no reason to have other foreign ones.

    Returns:
        Both lists, each in the order of the text; spans may overlap.
    """
    everything: list[tuple[int, int]] = []
    latin: list[tuple[int, int]] = []
    if "```" in text or "~~~" in text:
        opened: re.Match[str] | None = None
        for mark in _FENCE.finditer(text):
            if opened is None:
                opened = mark
            elif mark[1].startswith(opened[1]) and not mark[2]:
                (latin if opened[2].lower() in _DATA_FENCES else everything).append((opened.start(), mark.end()))
                opened = None
        if opened is not None:
            (latin if opened[2].lower() in _DATA_FENCES else everything).append((opened.start(), len(text)))
    if "`" in text:
        everything += [match.span() for match in _CODE.finditer(text)]
    if "://" in text or "www." in text:
        everything += [match.span() for match in _URL.finditer(text)]
    latin += [match.span() for match in _MARKUP.finditer(text)]
    latin += _formulas(text)
    return sorted(everything), sorted(latin)


def _formulas(text: str) -> Iterator[tuple[int, int]]:
    """TeX formulas; one between single dollars stays on its line."""
    opened: re.Match[str] | None = None
    for mark in _FORMULA_MARK.finditer(text):
        if opened is not None and mark[0] == _FORMULA_ENDS[opened[0]]:
            inside = text[opened.end() : mark.start()]
            if len(inside) <= _FORMULA_LIMIT and not (mark[0] == "$" and "\n" in inside):
                yield opened.start(), mark.end()
                opened = None
                continue
        opened = mark if mark[0] in _FORMULA_ENDS else None
