"""An answer as graders read it: without thinking and markdown, and its boxes."""

import re

MAX_CHARACTERS = 20_000
"""Of a longer answer the beginning is not read: the conclusion stands at the end, and time stays bounded."""

_MAX_BOXES = 20
_MAX_BOX_CHARACTERS = 1_000

_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20, 0x2212: 0x2D, 0x2009: 0x20}
_FULL_WIDTH |= {0x202F: 0x20, 0xA0: 0x20, 0x2217: 0x2A, 0x2044: 0x2F, 0x2215: 0x2F}
_RAISED = re.compile(r"<(sup|sub)>([^<\n]{1,20})</\1>", re.IGNORECASE)
_FRACTION = re.compile(r"\\(?:nice|s|x)frac\b")
_MARKDOWN = re.compile(r"\*\*|__|`|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w)|^#{1,6} |^> ", re.MULTILINE)
_TAG = re.compile(r"~~[^~\n]+~~|</?(?:b|strong|em|i|u|mark|p|div|span)>|<br ?/?>", re.IGNORECASE)
_NEXT_QUESTION = re.compile(
    r"^[^\w\n]{0,20}(?:(?i:(?:next )?(?:question|problem|exercise))(?: ?#?\d+)?|Q\d*|Human|User"
    r"|問題 ?\d*|質問 ?\d*|問 ?\d+)[*_]*\s?[:.].*\S",
    re.MULTILINE,
)
_BROKEN_OFF = re.compile(
    r"(?:[,、=+(]|\b(?i:so|and|or|but|the|an|is|are|was|were|has|have|of|to|from|with|by|because|since|which|that|then"
    r"|therefore|thus|hence)|[、はがをの])\s*\Z"
)
_MARKS = " \n\t*_#>-=`"
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")


def readable(answer: str) -> str:
    """The last `MAX_CHARACTERS` after the thinking, full-width characters made narrow; no HTML, nothing struck out."""
    text = answer.rpartition("</think>")[2][-MAX_CHARACTERS:]
    text = _RAISED.sub(lambda found: f"{'^' if found[1].lower() == 'sup' else '_'}{{{found[2]}}}", text)
    return _FRACTION.sub(r"\\frac", _TAG.sub("", text.translate(_FULL_WIDTH).replace("\r\n", "\n"))).strip()


def own_part(text: str) -> str:
    """The text up to the next question, which base models go on to invent; all of it if it begins with one."""
    invented = next((match for match in _NEXT_QUESTION.finditer(text) if text[: match.start()].strip(_MARKS)), None)
    return text[: invented.start()] if invented else text


def breaks_off(text: str) -> bool:
    """Return whether a text ends in the middle of a sentence, so that its final answer is not there."""
    return bool(_BROKEN_OFF.search(text))


def without_markdown(text: str) -> str:
    """The text without emphasis, headings and code marks."""
    return _MARKDOWN.sub("", text)


def boxed(text: str) -> list[str]:
    r"""The contents of each `\boxed{}` in order, braces matched; an unclosed box has no content."""
    contents = []
    for match in list(_BOX.finditer(text))[-_MAX_BOXES:]:
        depth = 1
        for end in range(match.end(), min(len(text), match.end() + _MAX_BOX_CHARACTERS)):
            depth += {"{": 1, "}": -1}.get(text[end], 0) if text[end - 1] != "\\" else 0
            if depth == 0:
                contents.append(text[match.end() : end].strip())
                break
    return contents


def squeezed(text: str) -> str:
    """The text without spaces, those of LaTeX included."""
    return re.sub(r"\s|\\[,!;]", "", text)
