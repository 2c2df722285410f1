"""Bodies of chat replies, and how they are read."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from shaberi_dagster.journal.records import Usage

_LONE_SURROGATES = "surrogatepass"
_STATUS = re.compile("[1-5][0-9][0-9]")
_MOST_TOKENS = 2**53
_TEXT_PARTS = frozenset({"text", "output_text"})


@dataclass(frozen=True)
class ReceivedReply:
    """A reply as received; the attributes are those of `Call`."""

    content: str
    reasoning: str | None = None
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    refusal: str | None = None
    tool_calls: str | None = None


class MalformedReplyError(Exception):
    """The body is not a chat reply."""


@dataclass(frozen=True)
class ErrorDetails:
    """A failure in the words of a provider.

    Attributes:
        message: Its words, in as many lines as they come.
        codes: Its codes and types as text, such as `insufficient_quota` or `429`.
        parameter: The parameter of the request that it is about; "" where it names none.
    """

    message: str
    codes: frozenset[str] = frozenset()
    parameter: str = ""

    @property
    def status(self) -> int | None:
        """The HTTP status among the codes: proxies report failures inside a 200."""
        return next((int(code) for code in self.codes if _STATUS.fullmatch(code)), None)


def decoded(body: bytes) -> dict[str, Any]:
    """The JSON object in a body; halves of surrogate pairs, which models do write, become U+FFFD.

    Raises:
        MalformedReplyError: There is none.
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        try:
            document = json.loads(body, object_hook=_mended)
        except (ValueError, RecursionError):
            raise MalformedReplyError(f"malformed reply of {len(body)} bytes") from None
    if not isinstance(document, dict):
        raise MalformedReplyError("the reply is no JSON object")
    return document


def parsed(document: Mapping[str, Any]) -> ReceivedReply:
    """The first choice of a chat reply.

    Raises:
        MalformedReplyError: It has no choice, or its text is no text.
    """
    try:
        choice = document["choices"][0]
        message, finish_reason = choice["message"], choice.get("finish_reason")
        if choice.get("error") or finish_reason == "error":  # a proxy whose provider failed half way
            raise MalformedReplyError("the reply ended in an error")
        reasoning = message.get("reasoning_content") or message.get("reasoning")
        refusal = _refusal(message)
        tool_calls = message.get("tool_calls") or message.get("function_call")
        return ReceivedReply(
            content=_text(message.get("content")) or refusal or "",
            # What is of another type than the table's column could never be stored.
            reasoning=reasoning if isinstance(reasoning, str) else None,
            finish_reason=finish_reason if isinstance(finish_reason, str) else None,
            usage=tokens_used(_object(document.get("usage"))),
            refusal=refusal,
            tool_calls=orjson.dumps(tool_calls).decode() if tool_calls else None,
        )
    except (LookupError, TypeError, AttributeError):
        raise MalformedReplyError("the reply has no choices with a message") from None


def error_details(body: object) -> ErrorDetails:
    """Read an error body: OpenAI's object, Google's list with one, a text, or anything else."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, dict):
        body = body.get("error", body)
    if not isinstance(body, dict):
        return ErrorDetails(str(body or ""))
    message = body.get("message") or body.get("detail") or body
    codes = frozenset(str(body[key]) for key in ("code", "type") if body.get(key))
    return ErrorDetails(str(message), codes, str(body.get("param") or ""))


def _text(content: Any) -> str:
    """The text of a message, which is null beside a refusal and a list of parts from some servers."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part["text"] for part in content if part.get("type") in _TEXT_PARTS)


def _refusal(message: dict[str, Any]) -> str | None:
    """Read what the model says instead of an answer: a field of the message, or parts of its content."""
    parts, said = message.get("content"), message.get("refusal")
    if not said and isinstance(parts, list):
        said = "".join(part["refusal"] for part in parts if part.get("type") == "refusal")
    return said if isinstance(said, str) and said else None


def tokens_used(usage: Mapping[str, Any]) -> Usage:
    """Read the tokens that a server reports, in whichever variant of OpenAI's form.

    Most count reasoning among the completion tokens. Some count it beside them (xAI), or only in the total (Gemini):
    then the total, or more reasoning than completion, says so. Either way it is paid for as completion.
    """
    prompt, completion, total = (_tokens(usage.get(f"{kind}_tokens")) for kind in ("prompt", "completion", "total"))
    reasoning = _tokens(_object(usage.get("completion_tokens_details")).get("reasoning_tokens"))
    rest = None if prompt is None or total is None else max(0, total - prompt - (completion or 0))
    if completion is None:
        completion = rest
    elif beside := max(rest or 0, reasoning if reasoning and reasoning > completion else 0):
        completion, reasoning = completion + beside, max(reasoning or 0, beside)
    in_details = _object(usage.get("prompt_tokens_details")).get("cached_tokens")
    cached = _tokens(usage.get("prompt_cache_hit_tokens") if in_details is None else in_details)  # else DeepSeek's
    if cached is not None and prompt is not None:
        cached = min(cached, prompt)
    return Usage(prompt, completion, cached, reasoning)


def _tokens(value: Any) -> int | None:
    """A number of tokens; None is unknown, and what is no such number tells nothing."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS:
        return int(value)
    return None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _mended(document: dict[str, Any]) -> dict[str, Any]:
    return {key: without_surrogates(value) if isinstance(value, str) else value for key, value in document.items()}


def without_surrogates(text: str) -> str:
    """The text with halves of surrogate pairs replaced by U+FFFD."""
    return text.encode("utf-16", _LONE_SURROGATES).decode("utf-16", "replace")
