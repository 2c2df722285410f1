"""Requests for pages: all of a request stands in its address."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from shaberi_dagster.util.errors import ConfigurationError


@dataclass(frozen=True)
class PageAddress:
    """An address.

    Attributes:
        path: Of the page.
        items: Its parameters, in order.
    """

    path: str
    items: tuple[tuple[str, str], ...] = ()

    def one(self, name: str, default: str = "") -> str:
        """The value of a parameter; the default when it is not there, or empty."""
        return next((value for key, value in self.items if key == name and value), default)

    def many(self, name: str) -> list[str]:
        """Return all values of a parameter, each once."""
        return list(dict.fromkeys(value for key, value in self.items if key == name and value))

    def number(self, name: str, default: int, *, least: int = 0) -> int:
        """A parameter that is a number.

        Raises:
            ConfigurationError: It is not valid, or smaller than it can be.
        """
        text = self.one(name)
        if not text:
            return default
        if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < least:  # noqa: PLR2004
            raise ConfigurationError(f"{name} must be a number from {least} on, not {text!r}")
        return int(text)

    def to(self, **changes: str | int | Sequence[str] | None) -> str:
        """This page with other parameters; None takes one away."""
        return self.to_page(self.path, **changes)

    def to_page(self, path: str, **changes: str | int | Sequence[str] | None) -> str:
        """Another page with all parameters of this one but those that change."""
        kept = [(name, value) for name, value in self.items if name not in changes]
        return page_url(path, [*kept, *_pairs(changes.items())])

    def link(self, path: str, **parameters: str | int | Sequence[str] | None) -> str:
        """Another page, with these parameters and those that choose what counts (judges, passes)."""
        kept = [(name, value) for name, value in self.items if name in _KEPT and name not in parameters]
        return page_url(path, [*kept, *_pairs(parameters.items())])

    def toggled(self, name: str, value: str) -> str:
        """This page with a value of a parameter added, or taken away."""
        values = self.many(name)
        return self.to(**{name: [kept for kept in values if kept != value] if value in values else [*values, value]})

    def without_model(self, model: str) -> str:
        """This page without one of its models, and without an order or a filter that needs it."""
        left = [name for name in self.many("m") if name != model]
        flags = [flag for flag in self.many("flag") if flag != "loses" or len(left) > 1]
        sort = self.one("sort")
        return self.to(m=left, flag=flags, sort=None if len(sort) == 1 else sort)


DEFAULT_PORT = 8321
"""Port of `shaberi view` by default."""
_KEPT = ("judge", "passes")


def page_url(path: str, items: Iterable[tuple[str, str]]) -> str:
    """A path with its parameters; parameters without a value are left out."""
    query = urlencode([item for item in items if item[1]], quote_via=quote, safe="@")
    return quote(path) + (f"?{query}" if query else "")


def where_to_look(path: str, name: str, about: str) -> str:
    """A sentence that names the page of something.

    Args:
        path: Of the page.
        name: Its parameter that says what it is about.
        about: Its value.
    """
    return f"In a browser: {command_for(page_url(path, [(name, about)]))}"


def command_for(page: str) -> str:
    """The command that opens a page in a browser."""
    return shlex.join(["shaberi", "view", page])


def _pairs(parameters: Iterable[tuple[str, str | int | Sequence[str] | None]]) -> list[tuple[str, str]]:
    return [
        (name, str(item))
        for name, value in parameters
        for item in ([value] if isinstance(value, str | int) else value or ())
    ]
