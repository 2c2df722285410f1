"""The walk through a list of questions: the list stands in the address of each question that is opened from it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from shaberi_dagster.viewer.web.address import PageAddress, page_url

ROWS = 100
"""Rows of a list on one page."""
_OWN = ("set", "position")  # of a question; what is unfolded there and how it is shown, its list keeps for the others


class Walk(NamedTuple):
    """A question's place in its list.

    Attributes:
        place: From 1; None where the list does not have the question.
        n: Questions of the list.
        previous: Address of the question before it; empty at the beginning.
        next: Address of the question after it; empty at the end.
        back: Address of the list, at this place.
        label: Label of the link to it.
    """

    place: int | None
    n: int
    previous: str
    next: str
    back: str
    label: str


def row_name(row: Mapping[str, Any]) -> str:
    """Name a row of a list of questions, as the target of addresses."""
    return "-".join(str(row[name]) for name in ("question_set", "position", "run_id", "judge") if row.get(name))


def question_url(address: PageAddress, row: Mapping[str, Any]) -> str:
    """Make the address of a question.

    Args:
        address: Of the list, or of another question of it.
        row: Its question set and position.
    """
    kept = [item for item in address.items if item[0] not in {"set", "position"}]
    return page_url("/question", [("set", row["question_set"]), ("position", str(row["position"])), *kept])


def opened_from(address: PageAddress, sort: str) -> PageAddress:
    """Take a list's address along into its questions, where `set` is the question's own and the list's is `of`."""
    kept = [("of" if name == "set" else name, value) for name, value in address.items if name not in {"page", "sort"}]
    return PageAddress("/question", (*kept, ("sort", sort)))


def list_address(address: PageAddress, default_sort: str) -> PageAddress:
    """Return the address of the list from which a question was opened."""
    kept = [("set" if name == "of" else name, value) for name, value in address.items if name not in _OWN]
    return PageAddress("/questions", tuple(item for item in kept if item != ("sort", default_sort)))


def walk_list(address: PageAddress, rows: Sequence[Mapping[str, Any]], back: PageAddress) -> Walk:
    """Walk through the questions of a list, in its order."""
    here = (address.one("set"), int(address.one("position", "1")))
    place = next((n for n, row in enumerate(rows) if (row["question_set"], row["position"]) == here), None)
    url = _neighbour(lambda n: question_url(address, rows[n]), len(rows))
    page = (place or 0) // ROWS + 1
    name = "" if place is None else f"#{row_name(rows[place])}"
    before, after = ("", url(0)) if place is None else (url(place - 1), url(place + 1))
    at = None if place is None else place + 1
    return Walk(at, len(rows), before, after, back.to(page=page if page > 1 else None) + name, "back to the list")


def walk_set(address: PageAddress, question: Mapping[str, Any], back: str, label: str) -> Walk:
    """Walk through the questions of a set, in its order."""
    n, at = question["n_questions"], question["position"]
    url = _neighbour(lambda place: question_url(address, {**question, "position": place + 1}), n)
    return Walk(at, n, url(at - 2), url(at), back, label)


def walk_hits(hits: Sequence[Mapping[str, Any]], name: str, url: Callable[[Mapping[str, Any]], str], back: str) -> Walk:
    """Walk through the hits of a search, in their order.

    Args:
        hits: Rows of the search.
        name: The name of this one's row.
        url: Makes the address of a hit.
        back: The address of the search.
    """
    place = next((n for n, row in enumerate(hits) if row_name(row) == name), None)
    to = _neighbour(lambda n: url(hits[n]), len(hits))
    before, after = ("", to(0)) if place is None else (to(place - 1), to(place + 1))
    return Walk(None if place is None else place + 1, len(hits), before, after, f"{back}#{name}", "back to the search")


def _neighbour(url: Callable[[int], str], n: int) -> Callable[[int], str]:
    return lambda place: url(place) if 0 <= place < n else ""
