"""The cost of calls that a running run makes, which are not in the lake yet."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings


def cost_of_calls(settings: Settings) -> Callable[[Mapping[str, Any]], float | None]:
    """Return a function from a call to its cost in US dollars, by today's prices; None is unknown."""

    @cache
    def prices() -> Any:
        return Workspace(settings).prices

    def cost(call: Mapping[str, Any]) -> float | None:
        found = prices().cost(call)
        return None if found is None else float(found.usd)

    return cost
