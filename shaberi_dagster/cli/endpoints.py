"""`shaberi endpoints`: where models can be asked, and whether one of them answers."""

import os
from datetime import UTC, datetime
from typing import Annotated, Literal

from shaberi_dagster.cli.command import FAILED_PARTS, FINE
from shaberi_dagster.cli.options import AsJson
from shaberi_dagster.runs.option import option
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError

EPILOG = """Examples:
  shaberi endpoints
  shaberi endpoints check gpt-5.1
  shaberi endpoints check my-model --base-url http://localhost:8000/v1 --param top_k=20 --param thinking=off"""


def endpoints(
    action: Annotated[
        Literal["check"] | None,
        option(
            "what", "check: make one tiny call; say what it cost, and which parameters were taken", metavar="[check]"
        ),
    ] = None,
    model: Annotated[str | None, option("what", "The model to check", metavar="[MODEL]", known="models")] = None,
    /,
    *,
    base_url: Annotated[str | None, option("how", "Its address, where its name does not say it", metavar="URL")] = None,
    parameters: Annotated[
        list[str] | None, option("how", "A parameter to try", name="--param", metavar="KEY=VALUE")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """List endpoints, or check that one answers."""
    from shaberi_dagster.cli import output
    from shaberi_dagster.lake import store
    from shaberi_dagster.reports import operations as reports
    from shaberi_dagster.runs import checking, known_endpoints
    from shaberi_dagster.runs.workspace import Workspace

    output_format = "json" if as_json else "table"
    if action is None:
        warehouse = Settings.from_environment().warehouse
        lake = store.Lake(warehouse)
        answered = lake.read("calls", {"status": "ok"}, ["base_url"])["base_url"].value_counts()
        found = known_endpoints.known_endpoints(
            os.environ, dict(answered.iter_rows()), known_endpoints.checks_in(warehouse)
        )
        output.show(reports.endpoints_result(found), output_format)
        return FINE
    if model is None:
        raise ConfigurationError("name the model to check: shaberi endpoints check ENDPOINT:MODEL")
    settings = Settings.from_environment()
    prices = Workspace(settings).prices
    checked = checking.check_model(model, base_url, parameters or (), os.environ, prices)
    if checked["status"] == "ok":
        known_endpoints.remember_check(settings.warehouse, checked["base_url"], datetime.now(UTC))
    output.show(reports.check_result(checked), output_format)
    return FINE if checked["status"] == "ok" else FAILED_PARTS
