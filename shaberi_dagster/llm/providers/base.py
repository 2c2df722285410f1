"""Base of providers: JSON body, headers and reply of a chat call in the form of one kind of server."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from shaberi_dagster.llm.reply import ReceivedReply
from shaberi_dagster.llm.types import Message


class Provider(ABC):
    """The form of one kind of server. Limits, retries, journal, budget and the kinds of failures are not its concern.

    Attributes:
        name: That of its file; an entry of an endpoint names it.
        path: Where calls are posted, below the endpoint's base URL.
        file_sha256: Hash of a plugin's file; None for the project's.
    """

    name: ClassVar[str]
    path: ClassVar[str]
    file_sha256: ClassVar[str | None] = None

    @abstractmethod
    def body(self, model: str, messages: Sequence[Message], parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the JSON body of a call.

        Args:
            model: The model's name at the endpoint.
            messages: Rendered messages.
            parameters: Those to be sent, named as by OpenAI's chat form unless the endpoint's entry renames them.
        """

    @abstractmethod
    def reply(self, document: Mapping[str, Any]) -> ReceivedReply:
        """Read the JSON object of a successful reply.

        Raises:
            MalformedReplyError: It is not valid.
        """

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the headers of every call: those that carry the key, if there is one, and what the form needs."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def not_sent(self, parameters: Mapping[str, Any]) -> Collection[str]:
        """Name the parameters that bodies leave out because of others."""
        del parameters
        return ()

    def objection(self, parameters: Mapping[str, Any]) -> str | None:
        """Say why servers of this form refuse parameters; None: nothing is known against them."""
        del parameters
        return None
