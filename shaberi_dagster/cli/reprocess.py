"""`shaberi reprocess`: make stored runs again, without any call."""

from collections.abc import Sequence
from typing import Annotated

from shaberi_dagster.reports.requests import ALL_RUNS, RunSelection
from shaberi_dagster.runs.option import option
from shaberi_dagster.settings import Settings

EPILOG = """Examples:
  shaberi reprocess --passes lang_mixing,repetition        every run, imported ones too
  shaberi reprocess --model my-model                       after a parser or a pass was changed

Judges' outputs are parsed again, passes look at the answers that they have not seen, scores and metrics are derived.
The scores without passes stay beside the others, as the pipeline baseline."""


def reprocess(
    *,
    passes: Annotated[
        Sequence[str], option("how", "One more pipeline of passes, in order", known="passes", commas=True)
    ] = (),
    pass_options: Annotated[
        Sequence[str],
        option("how", "NAME.SETTING=VALUE for one of the passes", name="--pass-option", metavar="SETTING"),
    ] = (),
    selection: RunSelection = ALL_RUNS,
) -> None:
    """Score stored runs again, without API calls."""
    from shaberi_dagster.defs import operations

    operations.reprocess_runs(Settings.from_environment(), passes, pass_options, selection)
