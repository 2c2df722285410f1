"""OpenAI's chat completions, the form that most servers take."""

from collections.abc import Mapping, Sequence
from typing import Any

from shaberi_dagster.llm.providers.base import Provider
from shaberi_dagster.llm.reply import ReceivedReply, parsed
from shaberi_dagster.llm.types import Message


class OpenAIChat(Provider):
    """`POST /chat/completions`."""

    name = "openai_chat"
    path = "/chat/completions"

    def body(self, model: str, messages: Sequence[Message], parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Every parameter is a field of the body."""
        said = [{"role": message.role, "content": message.content} for message in messages]
        return {"model": model, "messages": said, **parameters}

    def reply(self, document: Mapping[str, Any]) -> ReceivedReply:
        """The first choice."""
        return parsed(document)
