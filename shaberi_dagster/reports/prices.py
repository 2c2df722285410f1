"""Prices of the models that were called."""

from datetime import datetime
from typing import Any

from shaberi_dagster.reports.report import Result, Sentences, number, table_of, text
from shaberi_dagster.runs.known_prices import KnownPrices

_DAY_SECONDS = 24 * 60 * 60


def price_result(known: KnownPrices) -> Result:
    """List prices and what has none, and say whether the table says the same."""
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
    note = "US dollars for a million tokens; dates and hours are UTC."
    lines = [f"unknown: {model} at {base_url}" for model, base_url in known.unknown]
    if not known.prices and not known.unknown:
        lines.append("The lake has no calls.")
    if not known.table_is_current:
        lines.append("The table prices says something else; `shaberi prices --refresh` writes these into it.")
    table = [table_of(known.prices, columns, notes=[note])] if known.prices else []
    document = {
        "prices": [vars(price) for price in known.prices],
        "unknown": [{"model": model, "base_url": base_url} for model, base_url in known.unknown],
        "table_is_current": known.table_is_current,
    }
    return Result([*table, Sentences(lines)], document=document)


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
