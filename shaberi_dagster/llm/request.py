"""A chat call to make: the request, and the endpoint that it goes to."""

from collections.abc import Coroutine
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from shaberi_dagster.lake.journal.records import Call
from shaberi_dagster.llm.types import Message, Sampling
from shaberi_dagster.util.identity import sha256_json


@dataclass(frozen=True)
class Endpoint:
    """A server at which models are served; the key itself is never part of it.

    Attributes:
        name: `embedded`, `openai`, `gemini`, `custom` or a plugin's: the entry of the endpoint table.
        base_url: Its address up to and including `/v1` (or what stands for it); the embedded
            endpoint's is the constant `embedded:`, since its port differs in every process.
        api_key_variable: Environment variable with the key, None when no key is sent.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (as pydantic wants it)

    name: str
    base_url: str
    api_key_variable: str | None = None


ModelEndpoint = tuple[Endpoint, str]
"""A model and where it is served."""


@dataclass(frozen=True)
class ChatRequest:
    """A call to make. Equal requests have equal hashes and are paid for once.

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
        """sha256 over model, messages, sampling parameters, sample index and replicate; a server may move."""
        last_line = self.sampling.last_line
        sampling = vars(self.sampling) | {"last_line": last_line and vars(last_line)}
        for name in ("json_schema", "parameters"):
            if sampling[name] is None:
                del sampling[name]  # requests from before there were any have no other hash
        return sha256_json(
            {
                "model": self.model,
                "messages": [vars(message) for message in self.messages],
                "sampling": sampling,
                "sample_index": self.sample_index,
                "replicate": self.replicate,
            }
        )


class CallMaker(Protocol):
    """A function that makes the calls of one item, or finds them paid for."""

    def __call__(
        self, request: ChatRequest, purpose: str, *, lookup: bool = False
    ) -> Coroutine[Any, Any, tuple[Call, bool]]:
        """Return the outcome of a call, and whether it was paid for before.

        Args:
            request: The call to make.
            purpose: Role of the call within its stage.
            lookup: Also look among the paid calls of the lake; needed for all but an item's first request.
        """
        ...
