"""Text of unknown origin on a terminal, in Markdown and in CSV: how wide it is, and what in it must not get through."""

import re
from collections.abc import Sequence
from typing import Literal

from rich.cells import cell_len, set_cell_size

# Controls (C0, DEL, C1), soft hyphen, invisible and direction-changing characters, line and paragraph separators,
# annotation and tag characters, and lone surrogates, which no output stream can encode. Zero-width joiner and
# non-joiner stay: emoji and several scripts are written with them.
_UNSAFE = (
    r"\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff\U000e0000-\U000e007f"
)
_UNSAFE_CHARACTER = re.compile(f"[{_UNSAFE}]")
_UNSAFE_EXCEPT_LAYOUT = re.compile(rf"(?![\n\t])[{_UNSAFE}]")
_DELETE = 0x7F
_CONTROL_PICTURES = 0x2400
_PICTURE_OF_DELETE = "␡"
# Spreadsheets run a cell that starts with one of these; the full-width ones too, in Japanese settings.
_FORMULA_STARTS = tuple("=+-@＝＋－＠")
_MARKDOWN_SPECIAL = re.compile(r"([\\`*\[\]<>|~&])")


def printable(text: str, *, multiline: bool = False) -> str:
    r"""A text with everything that could steer a terminal or hide in it made visible.

    ASCII control characters become their pictures (`␛`), others their code point (`‹U+202E›`): escape sequences,
    bidirectional overrides and zero-width characters are seen and do nothing.

    Args:
        text: For example a model's name or answer.
        multiline: Keep newlines (of any convention, as `\n`) and tabs.

    >>> printable("a\x1b[31m\u202eb")
    'a␛[31m‹U+202E›b'
    """
    if not multiline:
        return _UNSAFE_CHARACTER.sub(_visible, text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _UNSAFE_EXCEPT_LAYOUT.sub(_visible, text)


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code == _DELETE:
        return _PICTURE_OF_DELETE
    return chr(_CONTROL_PICTURES + code) if code < _DELETE else f"‹U+{code:04X}›"


def json_safe(document: str) -> str:
    r"""A JSON document with the characters that `printable` replaces as `\u` escapes; it means the same.

    Args:
        document: JSON; newlines between its tokens stay, tabs must not be used there.
    """
    return _UNSAFE_EXCEPT_LAYOUT.sub(_escaped, document)


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def width_of(text: str) -> int:
    """Columns that a printable text takes on a terminal; East Asian wide characters take two."""
    return cell_len(text)


def pad(text: str, width: int, align: Literal["left", "right"] = "left") -> str:
    """The text with spaces up to `width` columns; longer text is left as it is."""
    spaces = " " * max(width - cell_len(text), 0)
    return text + spaces if align == "left" else spaces + text


def truncate(text: str, width: int, where: Literal["middle", "end"] = "end") -> str:
    """The text in at most `width` columns, with `…` where it was cut.

    >>> truncate("model-step-1000", 9), truncate("model-step-1000", 9, "middle")
    ('model-st…', 'mode…1000')
    """
    if cell_len(text) <= width:
        return text
    if width <= 0:
        return ""
    if where == "end":
        return set_cell_size(text, width - 1).rstrip() + "…"
    end = set_cell_size(text[::-1], (width - 1) // 2).strip()[::-1]
    return set_cell_size(text, width - 1 - cell_len(end)).rstrip() + "…" + end


def truncate_apart(texts: Sequence[str], width: int, where: Literal["middle", "end"] = "end") -> list[str]:
    """Texts in at most `width` columns, cut so that no two different ones look alike.

    Texts that look alike after the cut show their beginning and what follows the part that they share; those that
    differ in too many places get a number.

    >>> truncate_apart(["vendor/model-160-6b-instruct", "vendor/model-146-6b-instruct", "b"], 18)
    ['vend…160-6b-instr…', 'vend…146-6b-instr…', 'b']
    """
    cut = {text: truncate(text, width, where) for text in texts}
    by_look: dict[str, list[str]] = {}
    for text, look in cut.items():
        by_look.setdefault(look, []).append(text)
    looks = {look for look, alike in by_look.items() if len(alike) == 1}
    for alike in by_look.values():
        if len(alike) > 1:
            shared = next((at for at, letters in enumerate(zip(*alike, strict=False)) if len(set(letters)) > 1), width)
            begin = set_cell_size(alike[0], width // 4).rstrip() + "…"
            for number, text in enumerate(alike, start=1):
                cut[text] = truncate(begin + text[shared:], width)
                if cut[text] in looks:
                    cut[text] = f"{truncate(text, width - len(str(number)) - 1)}#{number}"
                looks.add(cut[text])
    return [cut[text] for text in texts]


def csv_text(text: str) -> str:
    """A printable text for a cell of a CSV file.

    One that a spreadsheet would run as a formula gets a `'` in front, which spreadsheets hide.
    """
    return no_formula(printable(text))


def no_formula(text: str) -> str:
    """Return the exact text, with a `'` in front where a spreadsheet would run it as a formula."""
    return f"'{text}" if text.lstrip().startswith(_FORMULA_STARTS) else text


def markdown_text(text: str) -> str:
    """A printable text on one line of Markdown, in which nothing means something."""
    return _MARKDOWN_SPECIAL.sub(r"\\\1", printable(text.replace("\n", " ")))
