"""Prices of calls: the user's own price, else the list price at the call's date from genai-prices (offline data).

Whatever the source, a price is a list of `Price`: what one model costs at one address, for disjoint ranges of time and
of prompt length. The same rows are the table `prices`, from which SQL prices calls again by the same formula.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from shaberi_dagster.llm.endpoints import EMBEDDED_URL, served_name
from shaberi_dagster.llm.own_prices import SHOWN_OF_SHA256, OwnPrice
from shaberi_dagster.plugins.discovery import load_yaml
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.names import message_of

if TYPE_CHECKING:
    from genai_prices import types


EMBEDDED = "embedded"

_DAY_SECONDS = 24 * 60 * 60
_PER_MILLION = 1e6


@dataclass(frozen=True)
class Price:
    """Price of one model at one address for the calls in its ranges; a row of the table `prices`.

    Each range has its lower bound in it and its upper bound not; None is no bound.

    Attributes:
        model: The model.
        base_url: Its address.
        valid_from: From when, UTC midnight.
        valid_to: Until when.
        day_seconds_from: From which second of the UTC day; some prices depend on the hour.
        day_seconds_to: Until which.
        prompt_tokens_from: From how many prompt tokens; some prices depend on the length of the prompt.
        prompt_tokens_to: Until how many.
        input_usd_per_million: US dollars for a million prompt tokens that came from no cache.
        output_usd_per_million: US dollars for a million completion tokens.
        cached_usd_per_million: US dollars for a million prompt tokens that came from a cache.
        usd_per_call: US dollars for the call itself.
        source: Where the price comes from, with its version.
    """

    model: str
    base_url: str
    valid_from: datetime | None
    valid_to: datetime | None
    day_seconds_from: int
    day_seconds_to: int
    prompt_tokens_from: int
    prompt_tokens_to: int | None
    input_usd_per_million: float
    output_usd_per_million: float
    cached_usd_per_million: float
    usd_per_call: float
    source: str

    def holds(self, moment: datetime, prompt_tokens: int) -> bool:
        """Return whether a call at that moment with so long a prompt is in the ranges."""
        midnight = datetime.combine(moment.date(), time(), UTC)
        return (
            (self.valid_from is None or self.valid_from <= moment)
            and (self.valid_to is None or moment < self.valid_to)
            and self.day_seconds_from <= (moment - midnight).total_seconds() < self.day_seconds_to
            and self.prompt_tokens_from <= prompt_tokens
            and (self.prompt_tokens_to is None or prompt_tokens < self.prompt_tokens_to)
        )


@dataclass(frozen=True)
class Cost:
    """The cost of a call.

    Attributes:
        usd: US dollars.
        source: Where the price comes from, with its version: `genai-prices 0.2.3`, `prices.yaml 1f3870be274f` (the
            user's file by the beginning of its sha256) or `embedded`.
    """

    usd: float
    source: str


class PriceList:
    """The prices as they are known now.

    The embedded model is free. Of the user's own prices the most specific one that holds on the call's day is taken,
    and the first of equals; without any, that of the endpoint's entry, and then the list price of genai-prices for the
    address. What none of them knows is unknown, never 0.

    Args:
        own: The user's prices.
        own_source: What their calls say where the price is from.
        of_endpoints: Prices of endpoints' entries, each with what its calls say.
    """

    def __init__(
        self,
        own: Sequence[OwnPrice] = (),
        own_source: str = "",
        of_endpoints: Sequence[tuple[OwnPrice, str]] = (),
    ) -> None:
        # Stable: equals stay in their order.
        kinds = (
            sorted(prices, key=lambda priced: priced[0].specificity, reverse=True)
            for prices in ([(price, own_source) for price in own], of_endpoints)
        )
        self._own = [priced for prices in kinds for priced in prices]
        self._histories: dict[tuple[str, str], list[Price]] = {}

    @classmethod
    def read(cls, path: Path | None, of_endpoints: Sequence[tuple[OwnPrice, str]] = ()) -> "PriceList":
        """The list with the prices of the user's file; without a file only the others.

        Raises:
            ConfigurationError: The file cannot be read, or an entry is wrong; the message names it.
        """
        if path is None:
            return cls(of_endpoints=of_endpoints)
        try:
            content = path.read_bytes()
            entries = load_yaml(content)
        except OSError as error:
            raise ConfigurationError(f"price file {path} cannot be read: {error.strerror}") from error
        except yaml.YAMLError as error:
            raise ConfigurationError(f"price file {path} is not valid YAML: {error}") from error
        if not isinstance(entries, list):
            raise ConfigurationError(f"price file {path} must be a list of entries (- model: …)")
        own = [_entry(path, number, entry) for number, entry in enumerate(entries, 1)]
        return cls(own, f"{path.name} {hashlib.sha256(content).hexdigest()[:SHOWN_OF_SHA256]}", of_endpoints)

    def cost(self, call: Mapping[str, Any]) -> Cost | None:
        """Price one call, with its tokens from a cache at their own price.

        Args:
            call: A row of the table `calls`, or what will be one: model, base_url, tokens, created_at (or as ISO text).

        Returns:
            None when the price or the number of tokens is unknown, or the tokens cannot be.
        """
        created, prompt, completion = call["created_at"], call["prompt_tokens"], call["completion_tokens"]
        moment = (created if isinstance(created, datetime) else datetime.fromisoformat(created)).astimezone(UTC)
        prices = self.history(call["model"], call["base_url"])
        price = next((price for price in prices if price.holds(moment, prompt or 0)), None)
        if price is None:
            return None
        if price.source == EMBEDDED:
            return Cost(0.0, EMBEDDED)
        cached = call["cached_tokens"] or 0
        if prompt is None or completion is None or completion < 0 or not 0 <= cached <= prompt:
            return None
        tokens = (
            (prompt - cached) * price.input_usd_per_million
            + cached * price.cached_usd_per_million
            + completion * price.output_usd_per_million
        )
        return Cost(tokens / _PER_MILLION + price.usd_per_call, price.source)

    def is_price_known(self, model: str, base_url: str) -> bool:
        """Return whether `cost` can tell what a call of the model costs today."""
        tokens = {"prompt_tokens": 1, "completion_tokens": 1, "cached_tokens": None}
        return self.cost({"model": model, "base_url": base_url, "created_at": datetime.now(UTC)} | tokens) is not None

    def history(self, model: str, base_url: str) -> list[Price]:
        """List the prices of the model at the address, by time; empty when none is known."""
        key = model, base_url
        if key not in self._histories:
            self._histories[key] = list(self._history(model, base_url))
        return self._histories[key]

    def _history(self, model: str, base_url: str) -> Iterator[Price]:
        name = served_name(model, base_url)
        own = [(price, source) for price, source in self._own if price.matches(name, base_url)]
        listed = _listed(name, base_url) if base_url != EMBEDDED_URL else None
        at_any_time = Price(model, base_url, None, None, 0, _DAY_SECONDS, 0, None, 0.0, 0.0, 0.0, 0.0, EMBEDDED)

        def prices_on(day: date) -> list[Price]:
            if base_url == EMBEDDED_URL:
                return [at_any_time]
            if found := next((priced for priced in own if priced[0].holds_on(day)), None):
                entry, source = found
                return [
                    replace(
                        at_any_time,
                        input_usd_per_million=entry.input,
                        output_usd_per_million=entry.output,
                        cached_usd_per_million=entry.input if entry.cached is None else entry.cached,
                        source=source,
                    )
                ]
            return [replace(at_any_time, **columns) for columns in _listed_on(listed, day)] if listed else []

        days = {date.min, *(day for price, _ in own for day in price.changes), *(_days(listed) if listed else ())}
        periods = [(next(same), prices) for prices, same in groupby(sorted(days), prices_on)]
        for (first, prices), (end, _) in pairwise([*periods, (None, [])]):
            for price in prices:
                yield replace(price, valid_from=_midnight(first), valid_to=_midnight(end))


def _entry(path: Path, number: int, entry: object) -> OwnPrice:
    try:
        return OwnPrice.model_validate(entry)
    except ValidationError as error:
        name = f" ({entry['model']})" if isinstance(entry, dict) and isinstance(entry.get("model"), str) else ""
        wrong = "; ".join(": ".join([*map(str, problem["loc"]), message_of(problem)]) for problem in error.errors())
        raise ConfigurationError(f"price file {path}, entry {number}{name}: {wrong}") from error


def _midnight(day: date | None) -> datetime | None:
    return None if day is None or day == date.min else datetime.combine(day, time(), UTC)


# --- genai-prices ----------------------------------------------------------------------------------------------------


def _listed(model: str, base_url: str) -> "types.ModelInfo | None":
    import genai_prices

    try:
        nothing = genai_prices.Usage(input_tokens=0, output_tokens=0)
        return genai_prices.calc_price(nothing, model, provider_api_url=base_url).model
    except LookupError:
        return None


def _conditions(listed: "types.ModelInfo") -> "list[types.ConditionalPrice]":
    return listed.prices if isinstance(listed.prices, list) else []


def _days(listed: "types.ModelInfo") -> Iterator[date]:
    """The days on which its price changes."""
    from genai_prices import types

    for condition in _conditions(listed):
        if isinstance(condition.constraint, types.StartDateConstraint):
            yield condition.constraint.start_date


def _listed_on(listed: "types.ModelInfo", day: date) -> Iterator[dict[str, Any]]:
    """Its prices on a day by time of the day and length of the prompt, as columns of `Price`.

    A model whose price cannot be told from the tokens that we know has none: nothing is listed for the prompt or the
    completion, or reasoning or citations have a price of their own. Left out is what a plain chat call has not: images,
    sound, searches, writing to a cache on request, service tiers, batches.
    """
    import genai_prices
    from genai_prices import types

    times = {0, _DAY_SECONDS}
    for condition in _conditions(listed):
        if isinstance(condition.constraint, types.TimeOfDateConstraint):
            times |= {_second(condition.constraint.start_time), _second(condition.constraint.end_time)}
    for start, end in pairwise(sorted(times)):
        prices = listed.get_prices(datetime.combine(day, time(), UTC) + timedelta(seconds=start))
        if prices.input_mtok is None or prices.output_mtok is None:
            continue
        if prices.output_reasoning_mtok is not None or prices.output_citation_mtok is not None:
            continue
        kinds = prices.input_mtok, prices.output_mtok, prices.cache_read_mtok
        tiers = {tier.start + 1 for kind in kinds if isinstance(kind, types.TieredPrices) for tier in kind.tiers}
        for least, most in pairwise([*sorted({0} | tiers), None]):
            usd_in, usd_out, usd_cached = (_usd(kind, least or 0) for kind in kinds)
            yield {
                "day_seconds_from": start,
                "day_seconds_to": end,
                "prompt_tokens_from": least,
                "prompt_tokens_to": most,
                "input_usd_per_million": usd_in,
                "output_usd_per_million": usd_out,
                "cached_usd_per_million": usd_in if usd_cached is None else usd_cached,
                "usd_per_call": (_usd(prices.requests_kcount, least or 0) or 0.0) / 1000,
                "source": f"genai-prices {genai_prices.__version__}",
            }


def _second(moment: time) -> int:
    return moment.hour * 3600 + moment.minute * 60 + moment.second


def _usd(price: "Decimal | types.TieredPrices | None", prompt_tokens: int) -> float | None:
    """A price for prompts of that length: beyond a tier's start, all tokens cost what the tier says."""
    from genai_prices import types

    if isinstance(price, types.TieredPrices):
        return float(next((tier.price for tier in reversed(price.tiers) if prompt_tokens > tier.start), price.base))
    return None if price is None else float(price)
