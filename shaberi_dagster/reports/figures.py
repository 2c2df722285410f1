"""The format of numbers and lists in tables and sentences; an unknown number is a dash."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from shaberi_dagster.reports.report import NOTHING, settled
from shaberi_dagster.statistics.intervals import Interval

_SMALLEST_P, _SMALLEST_SHARE = 0.001, 0.005
_MOST_LISTED = 5
NO_INTERVAL = "CI -: fewer than two questions have a score."
APART = 0.02
"""From how far on the ends of a score are both shown."""


def is_number(value: float | None) -> TypeGuard[float]:
    """Return whether a value is a finite number."""
    return value is not None and math.isfinite(value)


def decimals(value: float | None) -> str:
    """Write two decimals."""
    return f"{settled(value):z.2f}" if is_number(value) else NOTHING


def both_ends(lower: float | None, upper: float | None, *, is_open: bool = False) -> str:
    """Write a score; both of its ends where undecided answers set them apart by `APART` or more.

    Args:
        lower: One end.
        upper: The other one.
        is_open: There is no upper one: the rule cannot say wrong.
    """
    if is_open:
        return f"{decimals(lower)}+"
    return f"{decimals(lower)}–{decimals(upper)}" if are_apart(lower, upper) else decimals(lower)


def are_apart(lower: float | None, upper: float | None) -> bool:
    """Return whether two ends of a score are shown as two."""
    return is_number(lower) and is_number(upper) and upper - lower >= APART


def signed(value: float | None) -> str:
    """Write two decimals with the sign."""
    return f"{settled(value):+z.2f}" if is_number(value) else NOTHING


def p_value(value: float | None) -> str:
    """Write three decimals; a p is never 0."""
    if not is_number(value):
        return NOTHING
    return f"{settled(value):.3f}" if value >= _SMALLEST_P else f"<{_SMALLEST_P}"


def interval_of(row: Mapping[str, Any], name: str = "") -> Interval | None:
    """Return the interval whose ends a row has as `{name}lower` and `{name}upper`; None where they are not known."""
    lower, upper = row[f"{name}lower"], row[f"{name}upper"]
    return None if lower is None else Interval(lower, upper)


def interval(ends: Interval | None) -> str:
    """Write both ends of an interval on a scale."""
    return f"{decimals(ends.lower)}–{decimals(ends.upper)}" if ends else NOTHING


def signed_interval(ends: Interval | None) -> str:
    """Write both ends of an interval of a difference."""
    return f"{signed(ends.lower)} to {signed(ends.upper)}" if ends else NOTHING


def counted(n: int, noun: str) -> str:
    """Write a number with its noun: `1 question`, `2,000 questions`."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def listed(names: Iterable[str], most: int = _MOST_LISTED) -> str:
    """Write the first few names, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


def percent(share: float | None) -> str:
    """Write a share as a percentage with one decimal."""
    return f"{settled(100 * share):.1f}%" if is_number(share) else NOTHING


def percent_ends(lower: float | None, upper: float | None, *, is_open: bool = False) -> str:
    """Write an accuracy as a percentage, as `both_ends` writes a score."""
    if is_open:
        return f"{percent(lower)}+"
    return f"{percent(lower)[:-1]}–{percent(upper)}" if are_apart(lower, upper) else percent(lower)


def whole_percent(share: float) -> str:
    """Write a share as a whole percentage; what is above 0 is at least `<1 %`."""
    return f"{settled(100 * share):.0f} %" if share == 0 or share >= _SMALLEST_SHARE else "<1 %"


def points(difference: float | None) -> str:
    """Write a difference of two shares in percentage points with one decimal and the sign."""
    return f"{settled(100 * difference):+z.1f}" if is_number(difference) else NOTHING


def percent_range(ends: Interval | None) -> str:
    """Write both ends of an interval of a share, in percent."""
    return f"{percent(ends.lower)[:-1]}–{percent(ends.upper)}" if ends else NOTHING


def points_range(ends: Interval | None) -> str:
    """Write both ends of an interval of a difference of shares, in percentage points."""
    return f"{points(ends.lower)} to {points(ends.upper)}" if ends else NOTHING


def megabytes(size: int) -> str:
    """Write a number of bytes as people read it: `1,234.5 MB`."""
    return f"{size / 1e6:,.1f} MB"
