"""What goes into a chat call and what comes out of it."""

from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, NamedTuple

from shaberi_dagster.identity import sha256_json

Role = Literal["system", "user", "assistant"]

_LATER = ("refusal", "tool_calls")  # what records of earlier calls do not have

ErrorClass = Literal[
    "rate_limit",  # 429, 529
    "transient",  # 5xx, timeout, reset, malformed or empty body
    "authentication",  # 401, 403: the whole endpoint refuses us
    "permanent",  # 400, 404, content policy: this request will never work
    "deadline",  # the call's total time is over
    "budget",  # not made: what may be spent is spent
    "stopped",  # not made: the same error came again and again
]


@dataclass(frozen=True)
class Message:
    """One chat message."""

    role: Role
    content: str


@dataclass(frozen=True)
class ScoreLine:
    """The last line that an output must end in: a literal text and then an integer.

    Attributes:
        prefix: The literal text before the number, such as `FINAL SCORE: `.
        low: Smallest allowed integer.
        high: Largest allowed integer.
    """

    prefix: str
    low: int
    high: int


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters as the user asked for them; an endpoint's table decides what is sent.

    Attributes:
        temperature: 0 to 2, or None for the endpoint's default.
        max_tokens: Most completion tokens, thinking included.
        frequency_penalty: -2 to 2; 0 is not sent.
        last_line: What the last line of the output must be. Sent (as a grammar) only to endpoints that can
            enforce it; others are asked by the prompt alone.
        json_schema: JSON Schema of the whole output, as JSON. Sent likewise.
    """

    temperature: float | None
    max_tokens: int
    frequency_penalty: float = 0.0
    last_line: ScoreLine | None = None
    json_schema: str | None = None


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible server.

    Attributes:
        name: `embedded`, `openai`, `gemini` or `custom`: the entry of the endpoint table.
        base_url: Its address up to and including `/v1` (or what stands for it); the embedded
            endpoint's is the constant `embedded:`, since its port differs in every process.
        api_key_variable: Environment variable with the key, None when no key is sent.
        earlier: Addresses that it had before; what was paid for there counts. It is the same endpoint without them.
    """

    name: str
    base_url: str
    api_key_variable: str | None = None
    earlier: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class ChatRequest:
    """One call to make. Equal requests have equal hashes and are paid for once.

    Attributes:
        endpoint: Where it goes.
        model: The model's name at the endpoint.
        messages: Rendered messages.
        sampling: Sampling parameters.
        sample_index: Distinguishes samples of the same prompt, 0-based.
        replicate: Distinguishes runs that must not share answers (the run number, a rejudge round).
    """

    endpoint: Endpoint
    model: str
    messages: tuple[Message, ...]
    sampling: Sampling
    sample_index: int = 0
    replicate: str = ""

    @cached_property
    def request_hash(self) -> str:
        """sha256 over model, base URL, messages, sampling parameters, sample index and replicate."""
        return self._hash_at(self.endpoint.base_url)

    @cached_property
    def request_hashes(self) -> tuple[str, ...]:
        """`request_hash`, and then what it was at each earlier address: a call by any of them is this one."""
        return (self.request_hash, *map(self._hash_at, self.endpoint.earlier))

    def _hash_at(self, base_url: str) -> str:
        last_line = self.sampling.last_line
        sampling = vars(self.sampling) | {"last_line": last_line and vars(last_line)}
        if self.sampling.json_schema is None:
            del sampling["json_schema"]  # requests from before there were any have no other hash
        return sha256_json(
            {
                "base_url": base_url,
                "model": self.model,
                "messages": [vars(message) for message in self.messages],
                "sampling": sampling,
                "sample_index": self.sample_index,
                "replicate": self.replicate,
            }
        )


class CallRange(NamedTuple):
    """How many calls are made when none fails; a failed call never causes another one."""

    low: int
    high: int


@dataclass(frozen=True)
class Usage:
    """Tokens as the provider reported them; None is unknown, never an estimate."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def source(self) -> Literal["provider", "unknown"]:
        """Where the numbers come from."""
        return "unknown" if self.prompt_tokens is None and self.completion_tokens is None else "provider"


@dataclass(frozen=True)
class Call:
    """One finished call: a reply, or the error it ended with.

    Attributes:
        request_hash: Identity of the request.
        model: The model asked.
        base_url: The endpoint asked.
        status: `ok`: there is a reply (it may be empty text); `error`: there is none.
        error_class: None for `ok`.
        error_message: One line, without secrets; None for `ok`.
        content: The reply's text exactly as received, or that of its refusal when there is no other ("" when there is
            neither); None for errors.
        reasoning: The API's own `reasoning_content` (or `reasoning`), None when absent.
        finish_reason: As reported: `stop`, `length`, `content_filter`, …
        usage: Tokens of the successful attempt.
        attempts: HTTP requests made, the last one included.
        latency_seconds: Duration of the last attempt.
        created_at: UTC time of the end.
        refusal: What the endpoint marks as a refusal.
        tool_calls: Tools that the model called, as JSON.
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

    def to_record(self) -> dict[str, Any]:
        """The call as one flat JSON-ready row, with `usage` spread into its columns."""
        record = {name: value for name, value in self.__dict__.items() if name != "usage"}
        return record | vars(self.usage) | {"created_at": self.created_at.isoformat()}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "Call":
        """The call that `to_record` wrote, also before there were refusals and tool calls; unknown keys are ignored."""
        usage = Usage(**{name: record.get(name) for name in Usage.__dataclass_fields__})
        created = record["created_at"]
        at = created if isinstance(created, datetime) else datetime.fromisoformat(created)
        names = cls.__dataclass_fields__.keys() - {"usage", "created_at"}
        known: dict[str, Any] = {**dict.fromkeys(_LATER), **record}
        return cls(usage=usage, created_at=at, **{name: known[name] for name in names})
