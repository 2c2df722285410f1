"""What calls cost that a run at work makes, which the lake does not say yet."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from shaberi_dagster.exchange.installation import Installation
from shaberi_dagster.settings import Settings


def cost_of_calls(settings: Settings) -> Callable[[Mapping[str, Any]], float | None]:
    """What tells the cost of a call in US dollars, by today's prices; None is unknown."""

    @cache
    def prices() -> Any:
        return Installation(settings).prices

    def cost(call: Mapping[str, Any]) -> float | None:
        found = prices().cost(call)
        return None if found is None else float(found.usd)

    return cost
