"""Current prices of the models that were called."""

from typing import Any

import duckdb
import orjson

from shaberi_dagster.lake.statements import fetch
from shaberi_dagster.llm.endpoints import endpoint_prices
from shaberi_dagster.llm.prices import Price, PriceList
from shaberi_dagster.settings import Settings


def known_prices(catalog: duckdb.DuckDBPyConnection, known: PriceList) -> dict[str, Any]:
    """Return the prices of the models that were called, as they are known now.

    Returns:
        `called`: models and the base URLs where they were called; `prices`: of each of them those of its whole history;
        `unknown`: those that have none; `table_is_current`: whether the table `prices`, by which SQL prices calls
        again, says the same.
    """
    called = [(row["model"], row["base_url"]) for row in fetch(catalog, "called_models")]
    histories = {pair: known.history(*pair) for pair in called}
    prices = [price for history in histories.values() for price in history]
    recorded = {Price(**row) for row in fetch(catalog, "recorded_prices")}
    unknown = [pair for pair, history in histories.items() if not history]
    is_current = recorded == set(prices)
    return {"called": called, "prices": prices, "unknown": unknown, "table_is_current": is_current}


def price_list(catalog: duckdb.DuckDBPyConnection) -> str:
    """Return the prices that new calls of these models have, as JSON for `cost_at` in SQL."""
    known = known_prices(catalog, PriceList.read(Settings.from_environment().prices, endpoint_prices()))
    return orjson.dumps([vars(price) for price in known["prices"]]).decode()
