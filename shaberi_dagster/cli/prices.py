"""`shaberi prices`: what the models that were called cost, and where that is from."""

from typing import Annotated

from shaberi_dagster.cli.options import AsJson
from shaberi_dagster.runs.option import option
from shaberi_dagster.settings import Settings

EPILOG = """Examples:
  shaberi prices
  SHABERI_PRICES=prices.yaml shaberi prices --refresh      own prices, also for what was called before
  shaberi sql reprice_run --param tag=july                 what runs cost at the prices of the table

An entry of the price file, in US dollars for a million tokens; of those that hold on the call's day, the most specific:

  - {model: my-model*, base_url: http://localhost:8000, from: 2026-07-01, input: 0.2, output: 0.6, cached: 0.05}"""


def prices(
    *,
    refresh: Annotated[bool, option("how", "Write them into the table prices, by which SQL prices calls again")] = (
        False
    ),
    as_json: AsJson = False,
) -> None:
    """Show what models cost, as it is known now."""
    from shaberi_dagster.cli import output
    from shaberi_dagster.lake import catalog
    from shaberi_dagster.llm import endpoints
    from shaberi_dagster.llm import prices as list_of_prices
    from shaberi_dagster.reports import operations as reports
    from shaberi_dagster.runs import known_prices
    from shaberi_dagster.runs.workspace import Workspace

    settings = Settings.from_environment()
    listed = list_of_prices.PriceList.read(settings.prices, endpoints.endpoint_prices())
    with catalog.open_catalog(settings.warehouse) as views:
        known = known_prices.known_prices(views, listed)
    if refresh and not known["table_is_current"]:
        Workspace(settings).record_prices(known["called"])
        with catalog.open_catalog(settings.warehouse) as views:
            known = known_prices.known_prices(views, listed)
    output.show(reports.price_result(known), "json" if as_json else "table")
