"""Current prices of the models that were called."""

from dataclasses import dataclass

from shaberi_dagster.lake.catalog import write_catalog
from shaberi_dagster.llm.prices import Price
from shaberi_dagster.runs.workspace import Workspace


@dataclass(frozen=True)
class KnownPrices:
    """Prices of all models that were called.

    Attributes:
        prices: Of each model at each address, those of its whole history.
        unknown: Models and addresses that have none.
        table_is_current: Whether the table `prices`, by which SQL prices calls anew, says the same.
    """

    prices: tuple[Price, ...]
    unknown: tuple[tuple[str, str], ...]
    table_is_current: bool


def known_prices(workspace: Workspace, *, refresh: bool = False) -> KnownPrices:
    """The prices of the models that were called.

    Args:
        workspace: Whose lake, and whose price file.
        refresh: Write them into the table first.
    """
    called = sorted(workspace.lake.read("calls", columns=["model", "base_url"]).unique().iter_rows())
    histories = {pair: workspace.prices.history(*pair) for pair in called}
    if refresh and workspace.record_prices(called):
        write_catalog(workspace.lake)
    prices = tuple(price for history in histories.values() for price in history)
    recorded = {Price(**row) for row in workspace.lake.read("prices").drop("created_at").iter_rows(named=True)}
    unknown = tuple(pair for pair, history in histories.items() if not history)
    return KnownPrices(prices, unknown, recorded == set(prices))
