"""Command-line annotations for fields of request models; `cli/options.py` makes options of them."""

from dataclasses import dataclass
from typing import Literal

Group = Literal["what", "how", "budget", "with --html", "advanced", "as the original"]
"""Section of the help that lists an option; the last two only in its long form."""
Known = Literal["benchmarks", "strategies", "passes", "queries", "judges", "models", "runs"]
"""Kinds of names that a shell can complete."""


@dataclass(frozen=True)
class Option:
    """A field's option. Its type, range, default and help are the field's.

    Attributes:
        group: Where the help lists it.
        names: Its spellings; none: the field's name with dashes.
        metavar: What the help shows for the value; "" is by its type.
        repeated: Whether a list is given by repeating the option; else its items are separated by commas.
        known: What the shell completes it with; None is nothing.
        is_argument: Whether it is given by its place, without a name.
    """

    group: Group
    names: tuple[str, ...] = ()
    metavar: str = ""
    repeated: bool = False
    known: Known | None = None
    is_argument: bool = False


@dataclass(frozen=True)
class InGroup:
    """Beside a field's `Option`: where the help lists it instead.

    Attributes:
        group: The group.
    """

    group: Group
