"""A price that the user says, in a price file or in the entry of an endpoint."""

from collections.abc import Iterator
from datetime import date, timedelta
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import Field, model_validator

from shaberi_dagster.util.models import Frozen

_WILD = frozenset("*?[")
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class OwnPrice(Frozen, strict=True):
    """One entry of the user's price file, or of an endpoint's `prices`.

    Attributes:
        model: The model's name, or a pattern with `*`, `?` and `[…]`.
        base_url: The beginning of the endpoint's address, up to the end of its host, its port or a folder; None is any.
        first: First day (UTC) on which it holds, `from` in the file; None is since ever.
        last: Last such day, `to` in the file; None is until further notice.
        input: US dollars for a million prompt tokens.
        output: US dollars for a million completion tokens.
        cached: US dollars for a million prompt tokens from a cache; None is the price of the others.
        per: For what the prices are.
        currency: In what.
    """

    model: Annotated[str, Field(min_length=1)]
    base_url: str | None = None
    first: date | None = Field(default=None, alias="from", strict=False)
    last: date | None = Field(default=None, alias="to", strict=False)
    input: _Amount
    output: _Amount
    cached: _Amount | None = None
    per: Literal["1M tokens"] = "1M tokens"
    currency: Literal["USD"] = "USD"

    @model_validator(mode="after")
    def _ends_after_it_begins(self) -> "OwnPrice":
        if self.first and self.last and self.last < self.first:
            raise ValueError(f"to ({self.last}) is before from ({self.first})")
        return self

    def matches(self, model: str, base_url: str) -> bool:
        """Return whether it is for this model at this address."""
        if self.model != model and not fnmatchcase(model, self.model):
            return False
        if self.base_url is None:
            return True
        beginning, address = self.base_url.rstrip("/"), base_url.rstrip("/")
        return address == beginning or address.startswith((f"{beginning}/", f"{beginning}:"))

    def holds_on(self, day: date) -> bool:
        """Return whether it is for calls of this day."""
        return (self.first is None or self.first <= day) and (self.last is None or day <= self.last)

    @property
    def changes(self) -> Iterator[date]:
        """The days on which it begins, or holds no more."""
        if self.first:
            yield self.first
        if self.last and self.last < date.max:
            yield self.last + timedelta(days=1)

    @property
    def specificity(self) -> tuple[int, bool, int, date]:
        """The greatest goes first: a longer address, a name before a pattern, a longer pattern, a later beginning."""
        wild = not _WILD.isdisjoint(self.model)
        return len((self.base_url or "").rstrip("/")), not wild, len(self.model), self.first or date.min
