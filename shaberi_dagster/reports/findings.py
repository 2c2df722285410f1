"""What is looked at to see whether everything is in place."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CheckResult:
    """One thing that was looked at.

    Attributes:
        what: Its name.
        fine: Whether it is as it must be.
        detail: What was found.
    """

    what: str
    fine: bool
    detail: str
