"""What commands that evaluate print: the plan, the scores, and what has failed."""

import sys

from shaberi_dagster.cli.output import say
from shaberi_dagster.cli.view_scores import show
from shaberi_dagster.rendering.plan import PlanDocument
from shaberi_dagster.running import Evaluation
from shaberi_dagster.viewer.web.ask import address, command_for


def show_plan(evaluation: Evaluation, *, as_json: bool) -> None:
    """Print what would be done, on stdout."""
    say(PlanDocument(evaluation.plan()), as_json=as_json)


def show_scores(evaluation: Evaluation, *, as_json: bool) -> None:
    """Print the scores of its runs, on stdout."""
    show(evaluation.workspace.settings.warehouse, evaluation.selection, "json" if as_json else "table")


def say_where_to_look(evaluation: Evaluation, path: str, name: str, about: str) -> None:
    """Name on stderr the viewer's page of what was made; nothing where no call was.

    Args:
        evaluation: What was made.
        path: Of the page.
        name: Its parameter that says what it is about.
        about: Its value.
    """
    if evaluation.calls_made:
        print(f"In a browser: {command_for(address(path, [(name, about)]))}", file=sys.stderr)  # noqa: T201


def say_what_failed(evaluation: Evaluation) -> None:
    """Say on stderr why not all is complete: the last line of a command that ends so."""
    print(evaluation.failures(), file=sys.stderr)  # noqa: T201
