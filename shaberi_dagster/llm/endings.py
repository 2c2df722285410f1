"""Reasons for which replies end, in the words of every server, and the tokens that end them."""

import re
from typing import Literal, get_args

Ending = Literal["length", "content_filter", "refusal", "tool_calls", "error", "stop"]
_ENDINGS: tuple[tuple[Ending, re.Pattern[str]], ...] = (
    ("length", re.compile(r"length|max_?(?:\w+_)?tokens|token_?limit|context_?window|^(?:error_)?limit$|^pause")),
    ("content_filter", re.compile(r"filter|safety|block|prohibit|recitation|spii|guardrail|sensitive|toxic|moderat")),
    ("refusal", re.compile(r"refus")),
    ("tool_calls", re.compile(r"^(?:tool|function)_?(?:call|use)")),
    (
        "error",
        re.compile(
            r"error|fail|abort|cancel|interrupt|time_?out|resource|overload|unavailable|disconnect|rate_?limit|quota|throttl"
        ),
    ),
    ("stop", re.compile(r"stop|end_?(?:of_?)?(?:turn|text|sequence)|^eos|^complete|^end$|^done$")),
)
_END_TOKENS = re.compile(r"(?:\s*(?:<[|｜][\w▁]{2,40}[|｜]>|</s>|<(?:end_of_turn|eos|eot)>))+\s*\Z")


def ending_of(reason: str) -> Ending | None:
    """Return what a server's reason means; None where it is unknown."""
    name = re.sub(r"\W+", "_", reason.strip().lower())
    return next((ending for ending, pattern in _ENDINGS if pattern.search(name)), None)


def is_unknown(reason: str | None) -> bool:
    """Return whether a reply ended for a reason that the table does not have."""
    return reason is not None and reason not in get_args(Ending)


def answer_ending(reason: str | None, *, refused: bool, has_text: bool) -> str:
    """Classify the end of an answer by the server's reason; without one, by whether there is an answer."""
    named = {"refusal": "refused", "content_filter": "filtered", "length": "truncated"}
    if refused or reason in named:
        return "refused" if refused else named[str(reason)]
    return "complete" if has_text else "empty"


def without_end_tokens(text: str) -> str:
    """Return a reply without special tokens at its end, which a server should have taken off."""
    return _END_TOKENS.sub("", text) if text.rstrip().endswith(">") else text
