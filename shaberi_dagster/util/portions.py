"""Work in portions that fit into memory, or into one commit."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def portions(items: Iterable[T], size_of: Callable[[T], int], enough: int) -> Iterator[list[T]]:
    """Yield items in their order, as many at a time as have this size together."""
    portion: list[T] = []
    size = 0
    for item in items:
        portion.append(item)
        size += size_of(item)
        if size >= enough:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion
