"""`shaberi adopt`: the old suite's prompts, parameters and score parsers, read from a checkout of it."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from shaberi_dagster.cli.command import FAILED_PARTS, FINE
from shaberi_dagster.cli.options import CommandOptions
from shaberi_dagster.cli.output import say, tell
from shaberi_dagster.reports.report import Result, Sentences
from shaberi_dagster.runs.option import Option
from shaberi_dagster.settings import Settings

EPILOG = """Examples:

\b
  shaberi adopt ../shaberi
  shaberi adopt ../shaberi --commit 23ffa1e --name old
  run-evals --preset old --model my-model --base-url http://localhost:8000/v1 --judge-model gpt-4.1-2025-04-14"""


class Adopt(CommandOptions):
    """Options of `shaberi adopt`."""

    path: Annotated[
        Path,
        Field(description="A checkout: a git repository or a folder"),
        Option("what", metavar="PATH", is_argument=True),
    ]
    commit: Annotated[
        str | None, Field(description="Hash, tag or branch; default: HEAD"), Option("what", metavar="COMMIT")
    ] = None
    name: Annotated[
        str | None,
        Field(description="Of the set; default: of repository and commit"),
        Option("what", metavar="NAME"),
    ] = None


def adopt(how: Adopt) -> int:
    """Adopt the old suite's prompts, parameters and score parsers from a checkout; none of its code is run."""
    from shaberi_dagster.exchange import installation
    from shaberi_dagster.exchange.suite import writing
    from shaberi_dagster.judges import own

    settings = Settings.from_environment()
    taken = {*own.JUDGES, *installation.Installation(settings).prompts.variants}
    adoption = writing.adopt(how.path, how.commit, how.name, settings.plugins[0], taken)
    say(Result([Sentences(adoption.sentences)]))
    if not adoption.refusals:
        return FINE
    tell(adoption.refusals)
    return FAILED_PARTS
