"""Models that are not asked any more: a server does not have or refuses them, or they fail alike each time."""

import re
from collections import Counter

from shaberi_dagster.journal.records import Call
from shaberi_dagster.llm.types import ChatRequest

MOST_EQUAL_ERRORS = 20
"""So many equal errors of one model at one address, without a success between them, end its calls in a stage."""

UNKNOWN_MODEL = re.compile(
    r"(?i)(?:invalid|unknown|unsupported|no such|not a valid) model\b"
    r"|\bmodel\b.{0,80}\b(?:does not exist|not exist|not found|is not supported|is not available)"
)
"""Matches what servers say of a model that they do not have; no further call would end otherwise."""
_Asked = tuple[str, str]
_NUMBERED = re.compile(r"\S*\d\S*")  # numbers of requests and times differ in errors that are the same


class Stopping:
    """The errors of one stage of one run, by model and address.

    Attributes:
        reasons: Why a model at an address is not asked any more.
        unmade: How many calls were not made for that.
    """

    def __init__(self) -> None:
        self.reasons: dict[_Asked, str] = {}
        self.unmade: Counter[_Asked] = Counter()
        self._errors: dict[_Asked, Counter[str]] = {}

    def objection(self, request: ChatRequest) -> str | None:
        """Say why the call need not be made; None when it may."""
        return self.reasons.get((request.model, request.endpoint.base_url))

    def stop(self, model: str, base_url: str, message: str) -> None:
        """Ask a model no more, since it would always say this."""
        self.reasons.setdefault((model, base_url), f"not asked any more: {message}")

    def count(self, call: Call) -> None:
        """Take note of how a call ended."""
        asked = call.model, call.base_url
        if call.error_class == "stopped":
            self.unmade[asked] += 1
        elif call.status == "ok":
            self._errors.pop(asked, None)
        elif call.attempts and call.error_message:
            errors = self._errors.setdefault(asked, Counter())
            same = f"{call.error_class} {_NUMBERED.sub('#', call.error_message)}"
            errors[same] += 1
            if call.error_class == "authentication" or UNKNOWN_MODEL.search(call.error_message):
                self.stop(*asked, call.error_message)
            elif errors[same] >= MOST_EQUAL_ERRORS:
                self.reasons.setdefault(asked, f"not asked after {errors[same]} equal errors: {call.error_message}")

    def __str__(self) -> str:
        """A sentence for each model, to be said at the end; "" for nothing."""
        return "; ".join(
            f"{model} at {base_url} was {reason} ({self.unmade[model, base_url]} calls were not made)"
            for (model, base_url), reason in self.reasons.items()
        )
