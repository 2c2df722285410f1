"""The picture of the rooms in docs/architecture.md. Run `python -m tests.architecture.picture` to draw it again."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture import house

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
_BLOCK = re.compile(r"(?<=```mermaid\n).*?(?=```)", re.DOTALL)
_LEFT_OUT = {"__init__", "settings", "util", "definitions"}
"""Doors, and what nearly every room needs."""


def drawn() -> str:
    """Draw each room above those that it needs, without arrows that follow from others."""
    graph = {name: set(needs) - _LEFT_OUT for name, needs in house.needs_of_rooms().items() if name not in _LEFT_OUT}

    def reached(name: str) -> set[str]:
        return {further for needed in graph[name] for further in {needed, *reached(needed)}}

    def lines() -> Iterator[str]:
        yield "flowchart TD"
        for name in sorted(graph):
            implied = {further for needed in graph[name] for further in reached(needed)}
            yield f"  {name}" if not graph[name] else f"  {name} --> {' & '.join(sorted(graph[name] - implied))}"

    return "\n".join(lines()) + "\n"


def page() -> str:
    """Return the page with the picture as it is now."""
    return _BLOCK.sub(lambda _: drawn(), PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
