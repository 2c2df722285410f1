"""Finished calls, what they used, and changes of limits: the rows that journals keep."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

_LATER = ("refusal", "tool_calls", "reply_model", "system_fingerprint")  # what records of earlier calls do not have


ErrorClass = Literal[
    "rate_limit",  # 429, 529
    "transient",  # 5xx, timeout, reset, malformed or empty body
    "authentication",  # 401, 403: the whole endpoint refuses us
    "permanent",  # 400, 404, content policy: this request will never work
    "deadline",  # the call's total time is over
    "budget",  # not made: what may be spent is spent
    "stopped",  # not made: the same error came again and again
]


_NUMBERS = frozenset({"attempts", "latency_seconds", "opened_by", "limit_before", "limit_after"})


def check_types(record: dict[str, Any]) -> None:
    """Refuse a record whose values cannot be those of a row.

    Raises:
        TypeError: A value has the wrong type.
    """
    for name, value in record.items():
        kinds = (int, float) if name in _NUMBERS or name.endswith("_tokens") else (str,)
        if value is not None and not (isinstance(value, kinds) and not isinstance(value, bool)):
            raise TypeError(f"{name} is {value!r}")


@dataclass(frozen=True)
class Usage:
    """Tokens as the provider reported them; None is unknown, never an estimate."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None

    def __add__(self, other: "Usage") -> "Usage":
        """Return the sum; what only one of them knows is that one's."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Usage(*(sum(filter(None, pair)) if pair != (None, None) else None for pair in pairs))

    @property
    def source(self) -> Literal["provider", "unknown"]:
        """The origin of the numbers."""
        return "unknown" if self.prompt_tokens is None and self.completion_tokens is None else "provider"


@dataclass(frozen=True)
class Call:
    """A finished call: a reply, or the error it ended with.

    Attributes:
        request_hash: Identity of the request.
        model: The model asked.
        base_url: The endpoint asked.
        status: `ok`: there is a reply (it may be empty text); `error`: no reply.
        error_class: None for `ok`.
        error_message: One line, without secrets; None for `ok`.
        content: The reply's text exactly as received, or that of its refusal when there is no other ("" when there is
            neither); None for errors.
        reasoning: The API's own `reasoning_content` (or `reasoning`), None when absent.
        finish_reason: `stop`, `length`, `content_filter`, … (`llm.endings`), or as reported.
        usage: Tokens of all attempts.
        attempts: HTTP requests made, the last one included.
        latency_seconds: Duration of the last attempt.
        created_at: UTC time of the end.
        refusal: What the endpoint marks as a refusal.
        tool_calls: Tools that the model called, as JSON.
        reply_model: The model that answered, as the reply names it.
        system_fingerprint: The state of the server, as the reply names it.
    """

    request_hash: str
    model: str
    base_url: str
    status: Literal["ok", "error"]
    error_class: ErrorClass | None
    error_message: str | None
    content: str | None
    reasoning: str | None
    finish_reason: str | None
    usage: Usage
    attempts: int
    latency_seconds: float
    created_at: datetime
    refusal: str | None = None
    tool_calls: str | None = None
    reply_model: str | None = None
    system_fingerprint: str | None = None

    def to_record(self) -> dict[str, Any]:
        """The call as one flat JSON-ready row, with `usage` spread into its columns."""
        record = {name: value for name, value in self.__dict__.items() if name != "usage"}
        return record | vars(self.usage) | {"created_at": self.created_at.isoformat()}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "Call":
        """The call that `to_record` wrote, also before it had the columns of today; unknown keys are ignored."""
        usage = Usage(**{name: record.get(name) for name in Usage.__dataclass_fields__})
        created = record["created_at"]
        at = created if isinstance(created, datetime) else datetime.fromisoformat(created)
        names = cls.__dataclass_fields__.keys() - {"usage", "created_at"}
        known: dict[str, Any] = {**dict.fromkeys(_LATER), **record}
        return cls(usage=usage, created_at=at, **{name: known[name] for name in names})


def usage_columns(prefix: str, calls: Sequence[Call]) -> dict[str, int | None]:
    """Add up the tokens of calls, as columns `PREFIX_prompt_tokens` and so on; unknown if one of them is unknown."""
    values = {name: [getattr(call.usage, name) for call in calls] for name in Usage.__dataclass_fields__}
    return {f"{prefix}_{name}": None if None in known else sum(known) for name, known in values.items()}


Cause = Literal["start", "success", "rate_limit"]


@dataclass(frozen=True)
class LimitChange:
    """A change of a limit.

    Attributes:
        at: UTC time.
        before: The limit until then.
        after: The limit since.
        cause: `start` opened slots of the initial limit, `success` raised it, `rate_limit` (429, 529) lowered it.
    """

    at: datetime
    before: int
    after: int
    cause: Cause
