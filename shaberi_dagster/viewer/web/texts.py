"""Texts of models and judges on a page: never markup, links or images of their own, whatever they write."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import cache
from typing import NamedTuple

from markdown_it import MarkdownIt
from markupsafe import Markup

from shaberi_dagster.reports.questions import Span
from shaberi_dagster.util.text import printable

_NOT_RENDERED = ("link", "image", "autolink", "reference", "html_block", "html_inline", "entity")
_TOKEN = re.compile(r"[A-Za-z0-9_]+|\s+|.", re.DOTALL)
_MOST_TOKENS = 4_000


class Piece(NamedTuple):
    """A part of a text.

    Attributes:
        text: What stands there.
        kind: What it is; empty for nothing special.
    """

    text: str
    kind: str = ""


def rendered(text: str) -> Markup:
    """Markdown as HTML: headings, lists, tables, code, emphasis.

    Links, images and HTML stay as they are written: nothing of the text becomes an address, an attribute or a tag.
    """
    return Markup(_markdown().render(printable(text, multiline=True)))  # noqa: S704  (escapes all of the text)


@cache
def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable(list(_NOT_RENDERED))


def marked(text: str, spans: Sequence[Span]) -> list[Piece]:
    """The text in pieces, with those passages told apart that spans name; where spans overlap, the first counts."""
    pieces, at = [], 0
    for span in sorted(spans):
        start, end = max(span.start, at), min(span.end, len(text))
        if start < end:
            pieces += [Piece(text[at:start]), Piece(text[start:end], span.kind)]
            at = end
    return [piece for piece in [*pieces, Piece(text[at:])] if piece.text]


def spans_of(searched: str, text: str | None) -> list[Span]:
    """Find the passages of a text that were searched for, upper and lower case alike."""
    if not searched or not text:
        return []
    return [Span(*match.span(), "found") for match in re.finditer(re.escape(searched), text, re.IGNORECASE)]


def difference(old: str, new: str) -> list[Piece]:
    """The new text in pieces, with what it has and the old one has not as `added`, and the opposite as `removed`.

    Words of Latin letters are compared as such, other scripts by character; very long texts line by line.
    """
    before, after = _TOKEN.findall(old), _TOKEN.findall(new)
    if max(len(before), len(after)) > _MOST_TOKENS:
        before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    pieces = []
    for change, a, b, c, d in SequenceMatcher(None, before, after, autojunk=len(before) > _MOST_TOKENS).get_opcodes():
        if change == "equal":
            pieces.append(Piece("".join(after[c:d])))
        else:
            pieces += [Piece("".join(before[a:b]), "removed"), Piece("".join(after[c:d]), "added")]
    return [piece for piece in pieces if piece.text]
