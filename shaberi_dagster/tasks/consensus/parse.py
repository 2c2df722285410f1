"""Readers of models' outputs for strategies: nothing in an output is trusted, and reading takes linear time."""

import re
import unicodedata
from collections.abc import Collection
from typing import Any, Literal

import orjson

Verdict = Literal["first", "second", "tie"]

_FENCE = "```"
_WINNER = re.compile(r"winner[*_` ]{0,4}:[*_`\"'\[(< ]{0,8}")
_ENDS_WORD = re.compile(r"(?![0-9a-z_])")
_MAX_ALIGNMENT = 100.0


def parse_winner(text: str, first: str, second: str) -> Verdict | None:
    """The verdict after the last `WINNER:` of the output, which has to be one of the two names or TIE, as a whole word.

    Case, full-width forms and Markdown around it do not matter.

    Args:
        text: The model's output.
        first: The name of the response shown first.
        second: The name of the other.
    """
    normal = unicodedata.normalize("NFKC", text).casefold()
    marks = list(_WINNER.finditer(normal))
    if not marks:
        return None
    end = marks[-1].end()
    names: list[tuple[str, Verdict]] = [("tie", "tie"), (first.casefold(), "first"), (second.casefold(), "second")]
    for name, verdict in names:
        if normal.startswith(name, end) and _ENDS_WORD.match(normal, end + len(name)):
            return verdict
    return None


def contained_winner(text: str, first: str, second: str) -> Verdict | None:
    """The original's reading: the first of the two phrases that the output contains anywhere, else None.

    A phrase that begins with the other one counts as the other one; that fault is what compatibility is about.
    """
    if first in text:
        return "first"
    return "second" if second in text else None


def parse_alignments(text: str, names: Collection[str]) -> dict[str, float] | None:
    """The alignment of each response in the order in which the output lists them, clamped to 0…100.

    Unknown and repeated names are left out; what is no number counts as 0.

    Returns:
        Alignments by name; None if there is not one valid item.
    """
    value = _json_of(text)
    items = value.get("rankings") if isinstance(value, dict) else None
    found: dict[str, float] = {}
    for item in items if isinstance(items, list) else ():
        name = item.get("id") if isinstance(item, dict) else None
        if isinstance(name, str) and name in names and name not in found:
            alignment = item.get("alignment")
            number = float(alignment) if isinstance(alignment, int | float) and not isinstance(alignment, bool) else 0.0
            found[name] = min(max(number, 0.0), _MAX_ALIGNMENT)
    return found or None


def parse_validity(text: str) -> bool | None:
    """The boolean `isValid` of the output's JSON; None without one."""
    value = _json_of(text)
    valid = value.get("isValid") if isinstance(value, dict) else None
    return valid if isinstance(valid, bool) else None


def _json_of(text: str) -> Any:
    """The whole output as JSON, else its first fenced block, else None."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    _, opened, rest = text.partition(_FENCE)
    block, closed, _ = rest.partition(_FENCE)
    if not (opened and closed):
        return None
    try:
        return orjson.loads(block.removeprefix("json"))
    except orjson.JSONDecodeError:
        return None
