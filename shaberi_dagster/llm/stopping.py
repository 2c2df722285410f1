"""Models that are not asked any more: a server does not have or refuses them, or they fail alike each time."""

import re
from collections import Counter

from shaberi_dagster.lake.journal.records import Call
from shaberi_dagster.llm.request import ChatRequest

MOST_EQUAL_ERRORS = 20
"""So many equal errors of one model at one address, without a success between them, end its calls in a stage."""

UNKNOWN_MODEL = re.compile(
    r"(?i)(?:invalid|unknown|unsupported|no such|not a valid) model\b"
    r"|\bmodel\b.{0,80}\b(?:does not exist|not exist|not found|is not supported|is not available)"
)
"""Matches what servers say of a model that they do not have; no further call would end otherwise."""
LEAVE_OUT = "leave it out with --param {name}=null (of a judge: --judge-param)"
"""Ends the message of a refused parameter; no further call with it would end otherwise."""
NO_SYSTEM_ROLE = 'leave the system message out with --system-prompt "" (of a judge: --judge-system-prompt "")'
"""Ends the message of a refused system message; no further call with one would end otherwise."""
_REFUSED_PARAMETER = re.compile(re.escape(LEAVE_OUT).replace(re.escape("{name}"), r"(\S+)"))
_ModelAddress = tuple[str, str]
_NUMBERED = re.compile(r"\S*\d\S*")  # numbers of requests and times differ in errors that are the same


def refused_parameter(message: str) -> str | None:
    """Return the parameter that a failed call was refused for; None where it was something else."""
    found = _REFUSED_PARAMETER.search(message)
    return found[1] if found else None


class Stopping:
    """The errors of one stage of one run, by model and address.

    Attributes:
        reasons: Why a model at an address is not asked any more.
        unmade: How many calls were not made for that.
    """

    def __init__(self) -> None:
        self.reasons: dict[_ModelAddress, str] = {}
        self.unmade: Counter[_ModelAddress] = Counter()
        self._errors: dict[_ModelAddress, Counter[str]] = {}

    def objection(self, request: ChatRequest) -> str | None:
        """Say why the call need not be made; None when it may."""
        return self.reasons.get((request.model, request.endpoint.base_url))

    def stop(self, model: str, base_url: str, message: str) -> None:
        """Ask a model no more, since it would always say this."""
        self.reasons.setdefault((model, base_url), f"not asked any more: {message}")

    def count(self, call: Call) -> None:
        """Take note of how a call ended."""
        address = call.model, call.base_url
        if call.error_class == "stopped":
            self.unmade[address] += 1
        elif call.status == "ok":
            self._errors.pop(address, None)
        elif call.attempts and call.error_message:
            errors = self._errors.setdefault(address, Counter())
            same = f"{call.error_class} {_NUMBERED.sub('#', call.error_message)}"
            errors[same] += 1
            is_refused = call.error_class == "authentication" or refused_parameter(call.error_message) is not None
            if is_refused or call.error_message.endswith(NO_SYSTEM_ROLE) or UNKNOWN_MODEL.search(call.error_message):
                self.stop(*address, call.error_message)
            elif errors[same] >= MOST_EQUAL_ERRORS:
                self.reasons.setdefault(address, f"not asked after {errors[same]} equal errors: {call.error_message}")

    def __str__(self) -> str:
        """A sentence for each model, to be said at the end; "" for nothing."""
        return "; ".join(
            f"{model} at {base_url} was {reason} ({self.unmade[model, base_url]} calls were not made)"
            for (model, base_url), reason in self.reasons.items()
        )
