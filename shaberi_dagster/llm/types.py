"""Messages and sampling parameters of a chat call, and numbers of calls."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True)
class Message:
    """A chat message."""

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
        parameters: All others by name, as canonical JSON; None where none is set, so that hashes of requests from
            before there were any stay the same.
    """

    temperature: float | None
    max_tokens: int
    frequency_penalty: float = 0.0
    last_line: ScoreLine | None = None
    json_schema: str | None = None
    parameters: str | None = None


class CallRange(NamedTuple):
    """The number of calls that are made when none fails; a failed call never causes another one."""

    low: int
    high: int
