"""How prices are shown."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shaberi_dagster.reports.report import Block, Document, Sentences, number, table_of, text
from shaberi_dagster.runs.known_prices import KnownPrices

_DAY_SECONDS = 24 * 60 * 60


@dataclass(frozen=True)
class PriceDocument(Document):
    """Prices in each of the formats.

    Attributes:
        known: What is known.
    """

    known: KnownPrices

    def blocks(self, width: int | None) -> Iterable[Block]:
        """The prices, and what has none."""
        del width
        columns = [
            text("model", lambda price: price.model, folds=True),
            text("address", lambda price: price.base_url, folds=True),
            text("from", lambda price: _day(price.valid_from)),
            text("until", lambda price: _day(price.valid_to)),
            text("for", _condition, folds=True),
            number("input", lambda price: f"{price.input_usd_per_million:g}"),
            number("cached", lambda price: f"{price.cached_usd_per_million:g}"),
            number("output", lambda price: f"{price.output_usd_per_million:g}"),
            text("source", lambda price: price.source, folds=True),
        ]
        known = self.known
        if known.prices:
            note = "US dollars for a million tokens; dates and hours are UTC."
            yield table_of(known.prices, columns, notes=[note])
        lines = [f"unknown: {model} at {base_url}" for model, base_url in known.unknown]
        if not known.prices and not known.unknown:
            lines.append("The lake has no calls.")
        if not known.table_is_current:
            lines.append("The table prices says something else; `shaberi prices --refresh` writes these into it.")
        if lines:
            yield Sentences(lines)

    def records(self) -> Iterable[Mapping[str, Any]]:
        """A line for each price."""
        return map(vars, self.known.prices)

    def data(self) -> Mapping[str, Any]:
        """Prices, what has none, and whether the table says the same."""
        return {
            "prices": [
                {name: value.isoformat() if isinstance(value, datetime) else value for name, value in line.items()}
                for line in self.records()
            ],
            "unknown": [{"model": model, "base_url": base_url} for model, base_url in self.known.unknown],
            "table_is_current": self.known.table_is_current,
        }


def _day(time: datetime | None) -> str:
    return f"{time:%Y-%m-%d}" if time else ""


def _condition(price: Any) -> str:
    """For which calls of those days the price is, where it is not for all; and what comes on top of it."""
    parts = []
    if (price.day_seconds_from, price.day_seconds_to) != (0, _DAY_SECONDS):
        parts.append(f"{_clock(price.day_seconds_from)}-{_clock(price.day_seconds_to)}")
    if price.prompt_tokens_to is not None:
        parts.append(f"prompts below {price.prompt_tokens_to:,} tokens")
    if price.prompt_tokens_from:
        parts.append(f"prompts from {price.prompt_tokens_from:,} tokens")
    if price.usd_per_call:
        parts.append(f"+ {price.usd_per_call:g} for each call")
    return ", ".join(parts)


def _clock(second: int) -> str:
    return f"{second // 3600:02d}:{second // 60 % 60:02d}"
