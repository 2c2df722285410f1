"""Thinking and answer: what a model wrote for itself, and what it wrote for the reader.

Models mark their thinking with `<think>`, `<thinking>`, `<reason>` or `<reasoning>`. The four are one family here:
a block opened by one may be closed by another, as models do. Texts that merely *write about* such tags (in a code
fence or in inline code) keep them. All of it takes time linear in the length of the text.

Models that write Harmony (gpt-oss) put messages into channels instead; servers that do not know it pass them on, with
their markers (`<|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…`) or, where special
tokens are dropped, without (`analysis…assistantfinal…`). The last final message is the answer.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

from shaberi_dagster.lake.journal.records import Call
from shaberi_dagster.llm.endings import without_end_tokens

TagState = Literal["none", "closed", "unclosed", "close_only"]
AnswerState = Literal["text", "empty", "whitespace"]

MARKS = r"<(?:\||/?(?i:think|reason))|\A\s*analysis|assistantfinal"
"""Matches every text that has thinking in it, and some others: a quick look at many, for Python and polars."""

# Attributes need `name=value`, so that a placeholder such as `<reason for refusal>` is text. Possessive
# quantifiers: nothing to backtrack into.
_ATTRIBUTE = r"""\s++[\w:.-]++\s*+=\s*+(?:"[^"<>]*+"|'[^'<>]*+'|[^\s"'<>=]++)"""
_TAG_PATTERN = rf"<(?P<close>/?)(?:thinking|think|reasoning|reason)(?:{_ATTRIBUTE})*+\s*+(?P<void>/?)>"
_TICKS_PATTERN = r"(?P<ticks>`++)"
# An opening or closing code fence; lists and quotations may contain fences.
_FENCE_PATTERN = (
    r"(?P<fence>^[ \t>]*+(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]++)?(?P<marks>`{3,}+|~{3,}+)[ \t]*+(?P<info>[^\n`]*+)$)"
)
_FLAGS = re.IGNORECASE | re.MULTILINE
_TAG = re.compile(_TAG_PATTERN, _FLAGS)
_FENCE = re.compile(_FENCE_PATTERN, _FLAGS)
_IN_ANSWER = re.compile(f"{_FENCE_PATTERN}|{_TICKS_PATTERN}|{_TAG_PATTERN}", _FLAGS)
_IN_THINKING = re.compile(f"{_TICKS_PATTERN}|{_TAG_PATTERN}", _FLAGS)
_TICKS = re.compile(_TICKS_PATTERN)

_CHANNEL = "(?P<channel>analysis|commentary|final)"
_HEADER_PATTERN = (
    rf"(?:<\|start\|>assistant)?<\|channel\|>{_CHANNEL}[^<\n]{{0,100}}(?:<\|constrain\|>[^<\n]{{0,40}})?<\|message\|>"
)
_HEADER = re.compile(_HEADER_PATTERN)
# A reply begins with a header; or within a message, if its header was part of the prompt.
_HARMONY = re.compile(rf"(?:\s*+|[^`<]*+<\|end\|>)(?={_HEADER_PATTERN})")
_MESSAGE_END = re.compile(r"<\|(?:end|call|return)\|>")
_LAST_END = "<|return|>"  # what a server generates behind it is no part of the reply
# Where the tokens were dropped, the words stand directly between the texts. A text that only begins with "analysis" and
# has no answer is one of these when a sentence begins right behind the word.
_BARE_HEADER = re.compile(rf"(?<!`)assistant{_CHANNEL}")
_BARE_HARMONY = re.compile(r"\s*+(?:(?:assistant)?(?P<channel>analysis|commentary)|(?=assistantfinal))")
_BARE_SENTENCE = re.compile(r"\s*+analysis(?=[A-Z\u3041-\u30ff\u4e00-\u9fff])")
_BARE_ANSWER = re.compile(r"(?<=[.!?。！？])assistantfinal(?=\S)")

# Drawn as nothing although Unicode calls them letters, symbols or marks: the Hangul fillers, the blank braille
# pattern, the grapheme joiner and the variation selectors.
_BLANK_GLYPHS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f") | {chr(code) for code in range(0xFE00, 0xFE10)}


@dataclass(frozen=True)
class Split:
    """A model's text in two.

    Attributes:
        answer: What is judged. Byte-identical to the text when nothing was removed, else without outer whitespace.
        thinking: The blocks' texts joined by blank lines; None without any text in them.
        tag_state: `none`: no thinking tags or channels. `closed`: complete blocks only. `unclosed`: a block was opened
            and never closed, everything behind its tag is thinking. `close_only`: the text began inside a block (the
            opening tag was part of the prompt); everything before the closing tag is thinking. Harmony is `closed` (or
            `close_only`) with a final message, else `unclosed`.
    """

    answer: str
    thinking: str | None
    tag_state: TagState


@dataclass(frozen=True)
class _Piece:
    """A stretch of text between tags; `hidden` when it is inside a block."""

    start: int
    text: str
    hidden: bool


def split_thinking(text: str) -> Split:
    """Separate a model's thinking from its answer.

    Blocks are removed wherever they stand. Where tags do not pair, the reading is the one that keeps a real answer:

    - Opening tags inside a block nest. If the tags then never balance, the extra ones were mentions and the last
      closing tag ends the block; without any closing tag the block is unclosed.
    - Closing tags without an opening one: everything up to the last of them is thinking. (In the legacy trees such
      texts repeat their answer after each tag.) One with no text behind it is stray if thinking had ended before.
    - Tags in code fences and inline code (on one line) of the answer are text. In thinking only inline code that
      consists of tags is, because thinking often breaks off in the middle of code.

    Args:
        text: The reply as received.

    Returns:
        Answer and thinking. Together they hold every non-blank character outside the tags.
    """
    if (harmony := _split_harmony(text)) is not None:
        return harmony
    if _TAG.search(text) is None:
        return Split(text, None, "none")
    scan = _Scan(text)
    scan.run()
    if not scan.found:
        return Split(text, None, "none")
    cut = _end_of_headless_thinking(scan)
    answer = "".join(piece.text for piece in scan.pieces if not piece.hidden and piece.start >= cut)
    thinking = (piece.text.strip() for piece in scan.pieces if piece.hidden or piece.start < cut)
    state: TagState = "unclosed" if scan.unclosed else "close_only" if cut else "closed"
    return Split(answer.strip(), "\n\n".join(part for part in thinking if part) or None, state)


def answer_of(call: Call) -> str:
    """Return the reply of a call without its thinking; "" of a failed call."""
    return split_thinking(without_end_tokens(call.content or "")).answer


def only_thinking(call: Call) -> str | None:
    """Say that an empty answer's text is thinking, in one sentence; None where the call has no thinking."""
    thought = call.reasoning or split_thinking(call.content or "").thinking
    if not thought:
        return None
    tokens = call.usage.reasoning_tokens or call.usage.completion_tokens
    what = f"its {tokens:,} tokens are" if tokens else "all of its text is"
    cut = "it ran out of tokens: allow more with --max-tokens (of a judge --judge-max-tokens)"
    parser = "the server's reasoning parser may take the answer for thinking: check the parser of this model"
    return f"the answer is empty, {what} thinking: {cut if call.finish_reason == 'length' else parser}"


def _split_harmony(text: str) -> Split | None:
    """The last final message and all else; None when the text is not in channels."""
    said, _, behind = text.partition(_LAST_END)
    headers = _harmony_headers(said)
    if not headers:
        return None
    headless = said[: headers[0].start()].strip()
    answer, thinking = "", [_MESSAGE_END.sub("", headless)]
    for header, end in zip(headers, [*(header.start() for header in headers[1:]), len(said)], strict=True):
        message = _MESSAGE_END.sub("", said[header.end() : end]).strip()
        if header["channel"] == "final" and message:
            answer, message = message, answer
        thinking.append(message)
    parts = [part for part in (*thinking, behind.strip()) if part]
    state: TagState = "unclosed" if not answer else "close_only" if headless else "closed"
    return Split(answer, "\n\n".join(parts) or None, state)


def _harmony_headers(text: str) -> list[re.Match[str]]:
    """Find where its messages begin; none when it is not in channels."""
    if _HARMONY.match(text):
        return list(_HEADER.finditer(text))
    if beginning := _BARE_HARMONY.match(text):
        following = list(_BARE_HEADER.finditer(text, beginning.end()))
        if _BARE_SENTENCE.match(text) or any(header["channel"] == "final" for header in following):
            return [beginning, *following]
        return []
    answer = _BARE_ANSWER.search(text)
    return list(_BARE_HEADER.finditer(text, answer.start())) if answer else []


def answer_state(answer: str) -> AnswerState:
    """Return whether there is anything to read in an answer.

    Returns:
        `empty`: no characters at all. `whitespace`: only characters without a glyph (all kinds of spaces, U+3000
        included, zero-width, control and formatting characters, fillers). `text`: anything else.
    """
    if not answer:
        return "empty"
    return "whitespace" if all(_is_blank(char) for char in answer) else "text"


def _is_blank(char: str) -> bool:
    return unicodedata.category(char) in {"Cc", "Cf", "Zs", "Zl", "Zp"} or char in _BLANK_GLYPHS


class _Scan:
    """A walk over a text from tag to tag.

    Attributes:
        pieces: All text outside the tags that were recognised, in order.
        strays: Start and end of closing tags without an opening one.
        blocks: Ends of complete blocks.
        unclosed: Whether the last block has no end.
    """

    def __init__(self, text: str) -> None:
        self.pieces: list[_Piece] = []
        self.strays: list[tuple[int, int]] = []
        self.blocks: list[int] = []
        self.unclosed = False
        self._text = text
        self._inline = _inline_code(text)
        self._written = 0  # everything before is in a piece or a tag
        self._closing_tags_left = True
        self._open_fences: set[str] = set()  # fence characters known to have no closing fence ahead

    @property
    def found(self) -> bool:
        """Return whether any tag was more than text."""
        return bool(self.strays or self.blocks or self.unclosed)

    def run(self) -> None:
        """Fill the lists."""
        position = 0
        while not self.unclosed and (token := _IN_ANSWER.search(self._text, position)):
            if token["fence"]:
                position = self._after_fence(token)
            elif token["ticks"]:
                position = self._inline.get(token.start(), token.end())
            elif token["close"]:
                position = self._stray(token)
            else:
                position = self._block(token)
        self._piece(len(self._text), hidden=False)

    def _piece(self, end: int, *, hidden: bool) -> None:
        if end > self._written:
            self.pieces.append(_Piece(self._written, self._text[self._written : end], hidden))
        self._written = end

    def _stray(self, tag: re.Match[str]) -> int:
        self._piece(tag.start(), hidden=False)
        self.strays.append(tag.span())
        self._written = tag.end()
        return tag.end()

    def _block(self, opening: re.Match[str]) -> int:
        self._piece(opening.start(), hidden=False)
        self._written = opening.end()
        if not opening["void"]:
            closing = self._closing(opening.end()) if self._closing_tags_left else None
            self._piece(closing.start() if closing else len(self._text), hidden=True)
            self.unclosed = closing is None
            self._written = closing.end() if closing else len(self._text)
        if not self.unclosed:
            self.blocks.append(self._written)
        return self._written

    def _closing(self, position: int) -> re.Match[str] | None:
        """The tag that ends the block whose content starts at `position`."""
        depth, last = 1, None
        while token := _IN_THINKING.search(self._text, position):
            position = token.end()
            if token["ticks"]:
                position = self._after_mention(token)
            elif token["close"]:
                depth, last = depth - 1, token
                if depth == 0:
                    return token
            elif not token["void"]:
                depth += 1
        self._closing_tags_left = False  # so that the end of the text is looked for only once
        return last

    def _after_mention(self, ticks: re.Match[str]) -> int:
        """Behind the inline code that starts here if it is tags only, else behind its backticks."""
        end = self._inline.get(ticks.start())
        length = ticks.end() - ticks.start()
        if end and self._text[ticks.end()] == "<" and self._text[end - length - 1] == ">":
            return end
        return ticks.end()

    def _after_fence(self, opening: re.Match[str]) -> int:
        marks = opening["marks"]
        if marks[0] not in self._open_fences:
            position = opening.end()
            while fence := _FENCE.search(self._text, position):
                if fence["marks"].startswith(marks) and not fence["info"].strip():
                    return fence.end()
                position = fence.end()
            self._open_fences.add(marks[0])
        return self._after_open_fence(opening.end())

    def _after_open_fence(self, position: int) -> int:
        """Code that continues to the end of the text, unless it was part of thinking that ends."""
        depth = 0
        for tag in _TAG.finditer(self._text, position):
            if tag["close"] and depth == 0:
                return self._stray(tag)
            depth += -1 if tag["close"] else not tag["void"]
        return len(self._text)


def _end_of_headless_thinking(scan: _Scan) -> int:
    """Find where the answer starts if the text began inside a block, else 0."""
    if not scan.strays:
        return 0
    last_text = max((piece.start for piece in scan.pieces if not piece.hidden and piece.text.strip()), default=0)
    before = [end for _, end in scan.strays if end <= last_text]
    if before:
        return before[-1]
    thought_before = bool(scan.blocks) and scan.blocks[0] <= last_text
    return 0 if thought_before else scan.strays[-1][1]


def _inline_code(text: str) -> dict[int, int]:
    """Start and end of what each run of backticks encloses with the next run of its length on the same line."""
    spans: dict[int, int] = {}
    nearest: dict[int, int] = {}
    following = len(text)
    for match in reversed(list(_TICKS.finditer(text))):
        start, end = match.span()
        if text.find("\n", end, following) >= 0:
            nearest = {}
        if end - start in nearest:
            spans[start] = nearest[end - start]
        nearest[end - start], following = end, start
    return spans
