"""The content of a chat call."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from shaberi_dagster.util.identity import sha256_json

Role = Literal["system", "user", "assistant"]


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
    """The number of calls that are made when none fails; a failed call never causes another one."""

    low: int
    high: int
