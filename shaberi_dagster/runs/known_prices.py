"""Current prices of the models that were called."""

from dataclasses import dataclass

import duckdb
import orjson

from shaberi_dagster.lake.statements import fetch
from shaberi_dagster.llm.endpoints import endpoint_prices
from shaberi_dagster.llm.prices import Price, PriceList
from shaberi_dagster.settings import Settings


@dataclass(frozen=True)
class KnownPrices:
    """Prices of all models that were called.

    Attributes:
        called: Models and the base URLs where they were called.
        prices: Of each of them those of its whole history.
        unknown: Those that have none.
        table_is_current: Whether the table `prices`, by which SQL prices calls again, says the same.
    """

    called: tuple[tuple[str, str], ...]
    prices: tuple[Price, ...]
    unknown: tuple[tuple[str, str], ...]
    table_is_current: bool


def known_prices(catalog: duckdb.DuckDBPyConnection, known: PriceList) -> KnownPrices:
    """The prices of the models that were called, as they are known now."""
    called = tuple((row["model"], row["base_url"]) for row in fetch(catalog, "called_models"))
    histories = {pair: known.history(*pair) for pair in called}
    prices = tuple(price for history in histories.values() for price in history)
    recorded = {Price(**row) for row in fetch(catalog, "recorded_prices")}
    unknown = tuple(pair for pair, history in histories.items() if not history)
    return KnownPrices(called, prices, unknown, recorded == set(prices))


def price_list(catalog: duckdb.DuckDBPyConnection) -> str:
    """Return the prices that new calls of these models have, as JSON for `cost_at` in SQL."""
    known = known_prices(catalog, PriceList.read(Settings.from_environment().prices, endpoint_prices()))
    return orjson.dumps([vars(price) for price in known.prices]).decode()
