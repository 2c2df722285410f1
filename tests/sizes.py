"""What tests do at length has two sizes: a small one, and the full one of `make acceptance`."""

import os
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

FULL = os.environ.get("SHABERI_ACCEPTANCE") == "1"


def some(cases: Iterable[T], n: int) -> list[T]:
    """All cases when the full size is asked for, else n of them, from the first to the last."""
    every = list(cases)
    return every if FULL or n >= len(every) else [every[number * (len(every) - 1) // (n - 1)] for number in range(n)]


def size(small: int, full: int) -> int:
    """The full size when it is asked for."""
    return full if FULL else small
