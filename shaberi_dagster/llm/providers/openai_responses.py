"""OpenAI's Responses form, without stored state."""

from collections.abc import Mapping, Sequence
from typing import Any

from shaberi_dagster.llm.providers.base import Provider
from shaberi_dagster.llm.reply import MalformedReplyError, ReceivedReply, tokens_used
from shaberi_dagster.llm.types import Message


class OpenAIResponses(Provider):
    """`POST /responses`."""

    name = "openai_responses"
    path = "/responses"

    def body(self, model: str, messages: Sequence[Message], parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Effort and token limit have names of their own; nothing is stored at the server."""
        own = dict(parameters)
        if "max_tokens" in own:
            own["max_output_tokens"] = own.pop("max_tokens")
        if "reasoning_effort" in own:
            own["reasoning"] = {"effort": own.pop("reasoning_effort")}
        if "response_format" in own:
            schema = own.pop("response_format")["json_schema"]
            own["text"] = {"format": {"type": "json_schema", **schema}}
        said = [{"role": message.role, "content": message.content} for message in messages]
        return {"model": model, "input": said, "store": False, **own}

    def reply(self, document: Mapping[str, Any]) -> ReceivedReply:
        """The text of all messages, and summaries of the reasoning."""
        try:
            parts = [part for item in document["output"] if item["type"] == "message" for part in item["content"]]
            thoughts = [part for item in document["output"] if item["type"] == "reasoning" for part in item["summary"]]
            incomplete = document.get("incomplete_details") or {}
            ended = incomplete.get("reason") or document.get("status")
            refusal = "".join(part["refusal"] for part in parts if part["type"] == "refusal")
            usage = document.get("usage") or {}
            return ReceivedReply(
                content="".join(part["text"] for part in parts if part["type"] == "output_text") or refusal,
                reasoning="\n\n".join(thought["text"] for thought in thoughts) or None,
                finish_reason=ended if isinstance(ended, str) else None,
                usage=tokens_used(
                    {
                        "prompt_tokens": usage.get("input_tokens"),
                        "completion_tokens": usage.get("output_tokens"),
                        "total_tokens": usage.get("total_tokens"),
                        "prompt_tokens_details": usage.get("input_tokens_details"),
                        "completion_tokens_details": usage.get("output_tokens_details"),
                    }
                ),
                refusal=refusal or None,
            )
        except (LookupError, TypeError, AttributeError):
            raise MalformedReplyError("the reply has no output with a message") from None
