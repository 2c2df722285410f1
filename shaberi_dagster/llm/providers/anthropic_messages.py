"""Anthropic's Messages form.

Through the project's own transport rather than Anthropic's SDK: retries, limits and the scrubbing of keys stay the same
for every server, and nothing more is to be installed.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from shaberi_dagster.llm.providers.base import Provider
from shaberi_dagster.llm.reply import MalformedReplyError, ReceivedReply, tokens_used
from shaberi_dagster.llm.types import Message

_VERSION = "2023-06-01"
_NOT_WHILE_THINKING = ("temperature", "top_p", "top_k")


class AnthropicMessages(Provider):
    """`POST /messages`."""

    name = "anthropic_messages"
    path = "/messages"

    def headers(self, key: str | None) -> dict[str, str]:
        """The key has a header of its own."""
        return {"anthropic-version": _VERSION} | ({"x-api-key": key} if key else {})

    def not_sent(self, parameters: Mapping[str, Any]) -> Collection[str]:
        """A model that thinks takes no sampling parameters."""
        return [name for name in _NOT_WHILE_THINKING if name in parameters] if _thinks(parameters) else ()

    def objection(self, parameters: Mapping[str, Any]) -> str | None:
        """Thinking counts towards the limit of the answer."""
        budget = parameters["thinking"].get("budget_tokens", 0) if _thinks(parameters) else 0
        if budget < (limit := parameters["max_tokens"]):
            return None
        return (
            f"thinking has a budget of {budget:,} tokens, and the whole answer at most {limit:,}: "
            "raise --max-tokens or --judge-max-tokens, or lower thinking.budget_tokens"
        )

    def body(self, model: str, messages: Sequence[Message], parameters: Mapping[str, Any]) -> dict[str, Any]:
        """System texts stand apart from the conversation."""
        left_out = self.not_sent(parameters)
        own = {name: value for name, value in parameters.items() if name not in left_out}
        if "reasoning_effort" in own:
            own["output_config"] = {"effort": own.pop("reasoning_effort")}
        if "stop" in own:
            own["stop_sequences"] = own.pop("stop")
        if system := "\n\n".join(message.content for message in messages if message.role == "system"):
            own["system"] = system
        said = [{"role": message.role, "content": message.content} for message in messages if message.role != "system"]
        return {"model": model, "messages": said, **own}

    def reply(self, document: Mapping[str, Any]) -> ReceivedReply:
        """Text and thinking blocks; cached tokens count as prompt."""
        try:
            blocks, ended = document["content"], document.get("stop_reason")
            usage = document.get("usage") or {}
            read = usage.get("cache_read_input_tokens")
            prompt = [usage.get("input_tokens"), read, usage.get("cache_creation_input_tokens")]
            content = "".join(block["text"] for block in blocks if block["type"] == "text")
            return ReceivedReply(
                content=content,
                reasoning="\n\n".join(block["thinking"] for block in blocks if block["type"] == "thinking") or None,
                finish_reason=ended if isinstance(ended, str) else None,
                usage=tokens_used(
                    {
                        "prompt_tokens": None if prompt[0] is None else sum(filter(None, prompt)),
                        "completion_tokens": usage.get("output_tokens"),
                        "prompt_tokens_details": {"cached_tokens": read},
                    }
                ),
                refusal=(content or "refused") if ended == "refusal" else None,
            )
        except (LookupError, TypeError, AttributeError):
            raise MalformedReplyError("the reply has no content") from None


def _thinks(parameters: Mapping[str, Any]) -> bool:
    thinking = parameters.get("thinking")
    return isinstance(thinking, Mapping) and thinking.get("type") != "disabled"
