"""The walk through a list of questions: the list stands in the address of each question that is opened from it."""

from collections.abc import Callable
from typing import NamedTuple

from shaberi_dagster.reports.blocks import Row, Rows
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


def row_name(row: Row) -> str:
    """Name a row of a list of questions, as the target of addresses."""
    return "-".join(str(row[name]) for name in ("question_set", "position", "run_id", "judge") if row.get(name))


def question_url(address: PageAddress, row: Row) -> str:
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


def walk_list(address: PageAddress, rows: Rows, back: PageAddress) -> Walk:
    """Walk through the questions of a list, in its order."""
    here = (address.one("set"), int(address.one("position", "1")))
    place = next((n for n, row in enumerate(rows) if (row["question_set"], row["position"]) == here), None)
    page = (place or 0) // ROWS + 1
    name = "" if place is None else f"#{row_name(rows[place])}"
    to_list = back.to(page=page if page > 1 else None) + name
    return _walk(place, len(rows), lambda n: question_url(address, rows[n]), to_list, "back to the list")


def walk_set(address: PageAddress, question: Row, back: str, label: str) -> Walk:
    """Walk through the questions of a set, in its order."""

    def url(place: int) -> str:
        return question_url(address, {**question, "position": place + 1})

    return _walk(question["position"] - 1, question["n_questions"], url, back, label)


def walk_hits(hits: Rows, name: str, url: Callable[[Row], str], back: str) -> Walk:
    """Walk through the hits of a search, in their order.

    Args:
        hits: Rows of the search.
        name: The name of this one's row.
        url: Makes the address of a hit.
        back: The address of the search.
    """
    place = next((n for n, row in enumerate(hits) if row_name(row) == name), None)
    return _walk(place, len(hits), lambda n: url(hits[n]), f"{back}#{name}", "back to the search")


def _walk(place: int | None, n: int, url: Callable[[int], str], back: str, label: str) -> Walk:
    """Stand at a place of a list, or before its first one where it has not the question."""
    before, after = (-1, 0) if place is None else (place - 1, place + 1)
    previous, following = (url(at) if 0 <= at < n else "" for at in (before, after))
    return Walk(None if place is None else place + 1, n, previous, following, back, label)
