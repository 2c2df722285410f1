"""Bodies of chat replies, and how they are read."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from shaberi_dagster.lake.journal.records import Usage
from shaberi_dagster.llm.endings import ending_of

_LONE_SURROGATES = "surrogatepass"
_STATUS = re.compile("[1-5][0-9][0-9]")
_MOST_TOKENS = 2**53
_CACHED = ("cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens")  # the last one is DeepSeek's
_WRITTEN = ("cache_creation_tokens", "cache_write_tokens", "cache_creation_input_tokens")
_TEXT_PARTS = frozenset({None, "text", "output_text"})
_STATUS_OF_NAMES = (
    (re.compile("rate_?limit|too_?many|resource_?exhausted"), 429),
    (re.compile("overload"), 529),
    (re.compile("authentication|api_?key|permission"), 401),
    (re.compile("moderat|content_?(?:policy|filter)"), 403),
    (re.compile("invalid_?(?:request|argument|prompt)|bad_?request"), 400),
)


@dataclass(frozen=True)
class ReceivedReply:
    """A reply as received; the attributes are those of `Call`, the finish reason in the words of `llm.endings`."""

    content: str
    reasoning: str | None = None
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    refusal: str | None = None
    tool_calls: str | None = None
    reply_model: str | None = None
    system_fingerprint: str | None = None

    def __post_init__(self) -> None:
        if self.finish_reason is not None:
            object.__setattr__(self, "finish_reason", ending_of(self.finish_reason) or self.finish_reason)


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
        numbers = [int(code) for code in self.codes if _STATUS.fullmatch(code)]
        names = " ".join(self.codes).lower()
        return next(iter([*numbers, *(status for name, status in _STATUS_OF_NAMES if name.search(names))]), None)


def decoded(body: bytes) -> dict[str, Any]:
    """The JSON object in a body; halves of surrogate pairs, which models do write, become U+FFFD.

    Raises:
        MalformedReplyError: The body has no such document.
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
        choice = _first_choice(document)
        message, finish_reason = choice["message"], choice.get("finish_reason")
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


def failure_in(document: Mapping[str, Any], reply: ReceivedReply | None = None) -> ErrorDetails | None:
    """Return the failure that a body of a successful response reports; None without one.

    Args:
        document: The body.
        reply: What was read of it; None before that, when only a body that has no reply is looked at.
    """
    error = document.get("error")
    if reply is None:
        return error_details(document) if error and not document.get("choices") else None
    if document.get("choices"):
        error = _first_choice(document).get("error") or (error if reply.finish_reason == "error" else None)
    if error:
        return error_details({"error": error})
    return ErrorDetails("the reply ended in an error") if reply.finish_reason == "error" else None


def _first_choice(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choice of the lowest index; without indexes the first one."""
    choices: list[dict[str, Any]] = document["choices"]
    return min(choices, key=lambda choice: _tokens(choice.get("index")) or 0, default={})


def error_details(body: object) -> ErrorDetails:
    """Read an error body: OpenAI's object, Google's list with one, a text, or anything else."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, dict):
        body = body.get("error", body)
    if not isinstance(body, dict):
        return ErrorDetails(str(body or ""))
    message = body.get("message") or body.get("detail") or body
    codes = frozenset(str(body[key]) for key in ("code", "type", "status") if body.get(key))
    return ErrorDetails(str(message), codes, str(body.get("param") or ""))


def _text(content: Any) -> str:
    """The text of a message: null beside a refusal, and from some servers a part or a list of parts."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        return "".join(map(_text, content))
    if content.get("type") not in _TEXT_PARTS:
        return ""
    return _text(next((content[key] for key in ("text", "value", "content", "parts") if key in content), None))


def _refusal(message: dict[str, Any]) -> str | None:
    """Read what the model says instead of an answer: a field of the message, or parts of its content."""
    parts, said = message.get("content"), message.get("refusal")
    if not said and isinstance(parts, list):
        said = "".join(part["refusal"] for part in parts if _object(part).get("type") == "refusal")
    return said if isinstance(said, str) and said else None


def tokens_used(usage: Mapping[str, Any]) -> Usage:
    """Read the tokens that a server reports, in whichever variant of OpenAI's form.

    Most count cached tokens among those of the prompt, and reasoning among the completion. Some count them beside: the
    total, or more of them than of the whole, says so. Reasoning is paid for as completion, cached tokens never are. A
    total that is too large is reasoning as well (Gemini), unless cached tokens do not add up: then it says nothing.
    """
    prompt, completion, total = (_tokens(usage.get(f"{kind}_tokens")) for kind in ("prompt", "completion", "total"))
    of_prompt, of_completion = (_object(usage.get(f"{kind}_tokens_details")) for kind in ("prompt", "completion"))
    reasoning = _tokens(of_completion.get("reasoning_tokens"))
    cached, written = (
        next((count for name in names if (count := _tokens({**usage, **of_prompt}.get(name))) is not None), None)
        for names in (_CACHED, _WRITTEN)
    )
    kept = (cached or 0) + (written or 0)
    rest = None if prompt is None or total is None else max(0, total - prompt - (completion or 0))
    is_beside = prompt is not None and kept > prompt  # they cannot be among the prompt
    if (
        prompt is not None
        and kept
        and ((rest and rest in {cached, written, kept}) or (is_beside and (rest is None or rest > kept)))
    ):
        prompt, rest = prompt + (kept if rest is None else min(rest, kept)), 0
    if completion is None:
        completion = rest
    elif reasoning and (reasoning > completion or rest == reasoning):
        completion += max(reasoning, rest or 0)
    elif rest and not is_beside:
        completion, reasoning = completion + rest, max(reasoning or 0, rest)
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
