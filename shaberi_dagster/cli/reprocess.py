"""`shaberi reprocess`: make stored runs anew, without any call."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from shaberi_dagster.cli.command import FINE
from shaberi_dagster.cli.options import CommandOptions
from shaberi_dagster.reports.requests import RunSelection
from shaberi_dagster.runs.option import Option
from shaberi_dagster.settings import Settings

EPILOG = """Examples:

\b
  shaberi reprocess --passes lang_mixing,repetition        every run, imported ones too
  shaberi reprocess --tag legacy --passes lang_mixing --pass-option lang_mixing.minimum_severity=0.1
  shaberi reprocess --model my-model                       after a parser or a pass was changed

Judges' outputs are parsed again, passes look at the answers that they have not seen, scores and metrics are derived.
The scores without passes stay beside the others, as the pipeline baseline."""


class Reprocess(CommandOptions):
    """Options of `shaberi reprocess` beside the selection."""

    passes: Annotated[
        Sequence[str],
        Field(description="One more pipeline of passes, in order"),
        Option("how", known="passes"),
    ] = ()
    pass_options: Annotated[
        Sequence[str],
        Field(description="NAME.SETTING=VALUE for one of the passes"),
        Option("how", ("--pass-option",), metavar="SETTING", repeated=True),
    ] = ()


def reprocess(how: Reprocess, selection: RunSelection) -> int:
    """Make stored runs anew without any call: parse, apply passes, derive scores."""
    from shaberi_dagster.defs import operations

    operations.reprocess_runs(Settings.from_environment(), how.passes, how.pass_options, selection)
    return FINE
