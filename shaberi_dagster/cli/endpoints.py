"""`shaberi endpoints`: where models can be asked, and whether one of them answers."""

import os
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import Field

from shaberi_dagster.cli.command import FAILED_PARTS, FINE
from shaberi_dagster.cli.options import AsJson, CommandOptions
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.runs.option import Option
from shaberi_dagster.settings import Settings

EPILOG = """Examples:

\b
  shaberi endpoints
  shaberi endpoints check gpt-5.1
  shaberi endpoints check my-model --base-url http://localhost:8000/v1 --param top_k=20 --param thinking=off"""


class Endpoints(CommandOptions):
    """Options of `shaberi endpoints`."""

    action: Annotated[
        Literal["check"] | None,
        Field(description="check: make one tiny call; say what it cost, and which parameters were taken"),
        Option("what", metavar="[check]", is_argument=True),
    ] = None
    model: Annotated[
        str | None,
        Field(description="The model to check"),
        Option("what", metavar="[MODEL]", known="models", is_argument=True),
    ] = None
    base_url: Annotated[
        str | None, Field(description="Its address, where its name does not say it"), Option("how", metavar="URL")
    ] = None
    parameters: Annotated[
        list[str] | None,
        Field(description="A parameter to try"),
        Option("how", ("--param",), metavar="KEY=VALUE", repeated=True),
    ] = None
    as_json: AsJson = False


def endpoints(how: Endpoints) -> int:
    """List where models can be asked, with address, key and parameters; or check that one answers."""
    from shaberi_dagster.cli import output
    from shaberi_dagster.exchange import installation
    from shaberi_dagster.lake import store
    from shaberi_dagster.reports import endpoints as reports
    from shaberi_dagster.runs import checking, known_endpoints

    output_format = "json" if how.as_json else "table"
    if how.action is None:
        warehouse = Settings.from_environment().warehouse
        lake = store.Lake(warehouse)
        answered = lake.read("calls", {"status": "ok"}, ["base_url"])["base_url"].value_counts()
        found = known_endpoints.known_endpoints(
            os.environ, dict(answered.iter_rows()), known_endpoints.checks_in(warehouse)
        )
        output.show(reports.endpoints_result(found), output_format)
        return FINE
    if how.model is None:
        raise ConfigurationError("name the model to check: shaberi endpoints check ENDPOINT:MODEL")
    settings = Settings.from_environment()
    prices = installation.Installation(settings).prices
    checked = checking.check_model(how.model, how.base_url, how.parameters or (), os.environ, prices)
    if checked.status == "ok":
        known_endpoints.remember_check(settings.warehouse, checked, datetime.now(UTC))
    output.show(reports.check_result(checked), output_format)
    return FINE if checked.status == "ok" else FAILED_PARTS
