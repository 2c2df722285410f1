"""Checks: what must be true of what was made."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One thing that must be true of what a stage made.

    Attributes:
        name: Its name; each stage has a fixed set of them.
        passed: Whether it is.
        description: One sentence with the numbers behind it.
        severe: False for a warning.
    """

    name: str
    passed: bool
    description: str
    severe: bool = True
