"""A reply as graders read it: plain characters, without thinking, code, markup; each knows its place in the reply."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable

MAX_CHARACTERS = 20_000
"""Of a longer reply the beginning is not read: the conclusion stands at the end, and time stays bounded."""

_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20, 0x2212: 0x2D, 0x2009: 0x20}
_FULL_WIDTH |= {0x202F: 0x20, 0xA0: 0x20, 0x2217: 0x2A, 0x2044: 0x2F, 0x2215: 0x2F, 0x2019: 0x27, 0x0D: 0x20}
_THOUGHT = re.compile(
    r"\A.*(?:</think(?:ing)?>|<\|channel\|>final<\|message\|>|assistantfinal)"
    r"|<(think|thinking|reasoning|scratchpad)>.*?</\1>|<\|(?:return|end)\|>\s*\Z",
    re.DOTALL,
)
_CODE = re.compile(
    r"```(?:python|py|sql|java|javascript|js|c|cpp|r|bash|sh|sympy)\n.*?(?:```|\Z)", re.DOTALL | re.IGNORECASE
)
_RAISED = re.compile(r"<(sup|sub)>([^<\n]{1,20})</\1>", re.IGNORECASE)
_MATHS = re.compile(r"\$\$.+?\$\$|\\\[.+?\\\]|\\begin\{(\w+)\*?\}.+?\\end\{\1\*?\}", re.DOTALL)
_MARKUP = (
    (re.compile(r"<<[^<>\n]*>>|~~[^~\n]+~~|\[\d\](?!\()|[\U0001F000-\U0001FAFF\uFE0F]"), ""),
    (re.compile(r"</?(?:b|strong|em|i|u|mark|p|div|span)>|<br ?/?>", re.IGNORECASE), ""),
    (re.compile(r"(?<![\w*])(?:\*\*|__)(?=\S)|(?<=[^\s*])(?:\*\*|__)(?![\w*])|`{1,3}(?:\w+(?=\n))?"), ""),
    (re.compile(r"(?<=[^\x00-\x7f])\*\*|\*\*(?=[^\x00-\x7f])"), ""),
    (re.compile(r"(?<![\w*\\])[*_](?=[^\s*_])(?=[^*_\n]*[^\s*_][*_](?!\w))|(?<=[^\s*_\\])[*_](?![\w*{(])"), ""),
    (re.compile(r"^[ \t]*(?!#### *[-$\d.,/]+\s*$)(?:#{1,6}|>)[ \t]+|^[ \t]*[-=_*|: ]{3,}[ \t]*$", re.MULTILINE), ""),
    (re.compile(r"^[ \t]*\|[ \t]*|[ \t]*\|[ \t]*$", re.MULTILINE), ""),
    (re.compile(r"(?<=\S)[ \t]+\|[ \t]+(?=[^|\n]+$)", re.MULTILINE), ": "),
    (re.compile(r"\\(?:[sxt]|nice)frac\b"), r"\\frac"),
)  # fmt: skip


class ReadableReply:
    """A text whose characters know where they stood in the reply.

    Args:
        text: It.
        places: For each character its index in the reply; None if this is the reply.
    """

    def __init__(self, text: str, places: list[int] | None = None) -> None:
        self.text = text
        self._places = list(range(len(text))) if places is None else places

    def replace(self, pattern: re.Pattern[str], by: str | Callable[[re.Match[str]], str]) -> "ReadableReply":
        """Return the reply with each match replaced; what is put there stands where the match stood."""
        text, places, at = [], [], 0
        for found in pattern.finditer(self.text):
            new = by(found) if callable(by) else found.expand(by)
            text += [self.text[at : found.start()], new]
            last = found.end() - found.start() - 1
            spread = (*(min(number, last) for number in range(len(new) - 1)), last) if new else ()
            places += self._places[at : found.start()] + [self._places[found.start() + number] for number in spread]
            at = found.end()
        return ReadableReply("".join((*text, self.text[at:])), places + self._places[at:]) if text else self

    def keep(self, parts: Iterable[tuple[int, int]]) -> "ReadableReply":
        """Return the reply with nothing but some of its parts."""
        kept = [slice(*part) for part in parts]
        return ReadableReply(
            "".join(self.text[part] for part in kept), [place for part in kept for place in self._places[part]]
        )

    def index(self, place: int) -> int:
        """Return the first character of the text that stood there in the reply, or after it."""
        return bisect_left(self._places, place)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the part of the reply that a part of the text came from, without spaces around it."""
        part = self.text[start:end]
        start += len(part) - len(part.lstrip())
        end -= len(part) - len(part.rstrip())
        return (self._places[start], self._places[end - 1] + 1) if start < end else (0, 0)


def readable(answer: str) -> ReadableReply:
    """Return a reply's last `MAX_CHARACTERS` in narrow characters, without thinking, code and layout."""
    beginning = max(len(answer) - MAX_CHARACTERS, 0)
    reply = ReadableReply(answer[beginning:].translate(_FULL_WIDTH), list(range(beginning, len(answer))))
    for pattern in (_THOUGHT, _CODE):
        reply = reply.replace(pattern, "")
    reply = reply.replace(_RAISED, lambda found: f"{'^' if found[1].lower() == 'sup' else '_'}{{{found[2]}}}")
    reply = reply.replace(_MATHS, lambda found: " ".join(found[0].split()))
    for pattern, by in _MARKUP:
        reply = reply.replace(pattern, by)
    return reply


def squeezed(text: str) -> str:
    """Return the text without spaces, those of LaTeX included."""
    return re.sub(r"\s|\\[,!;]", "", text)
