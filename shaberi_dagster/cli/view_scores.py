"""`view-scores`: the scores of runs, with their denominators."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from shaberi_dagster.cli.options import OutputFormat, application
from shaberi_dagster.reports.requests import (
    ALL_SCORES,
    BY,
    DEFAULT_VIEW,
    TABLES,
    ScoreSelection,
    ScoreView,
    check_choice,
    moment,
)
from shaberi_dagster.runs.option import option
from shaberi_dagster.settings import Settings

_OTHER_LINES = 16
"""Lines of a terminal that are not of the ranking."""

EPILOG = """Examples:
  view-scores                                             one line a model, best first
  view-scores --by judge                                  what each judge says
  view-scores --model my-model --by run --notes --cost    everything of a model's runs
  view-scores --judge gpt-5.1 --format csv --table scores > scores.csv
  view-scores --tag legacy --question-set tengu@115       as the published tables have it
  view-scores --as-of 2026-07-01T12:00                    what this showed then

Missing scores are left out (legacy), count as the scale's minimum (zero), or leave the mean undefined (strict)."""


def view_scores(
    *,
    selection: ScoreSelection = ALL_SCORES,
    view: ScoreView = DEFAULT_VIEW,
    as_of: Annotated[
        str | None,
        option("what", "What the lake had then: 2026-07-01 or 2026-07-01T12:00+09:00 (default: local)", metavar="TIME"),
    ] = None,
    output_format: OutputFormat = "table",
) -> None:
    """Show scores on the reported scale, with how many samples they stand for."""
    check_choice("--by", view.by, BY)
    check_choice("--table", view.table, TABLES)
    time = moment(as_of) if as_of is not None else None
    selection = replace(selection, as_of=time, aggregate=selection.runs is not None)
    show_scores(Settings.from_environment().warehouse, selection, output_format, view)


def show_scores(warehouse: Path, selection: ScoreSelection, output_format: str, view: ScoreView = DEFAULT_VIEW) -> None:
    """Print the selected scores on stdout.

    Raises:
        ConfigurationError: There is no lake, no such run, or no such policy or format; or the runs that are to be put
            into one aggregate are not alike.
    """
    from shaberi_dagster import api
    from shaberi_dagster.cli import output
    from shaberi_dagster.reports import score_page, write

    selection.check()
    usual = output.lines_left(_OTHER_LINES) if output_format == "table" else 0
    top = usual if view.top is None else view.top
    view = replace(view, top=top)

    write.check_format(output_format)
    with output.waiting():
        report = api.LakeReader(warehouse).scores(**vars(selection), top=top)
    output.show(score_page.ScoreDocument(report, view), output_format)


app = application(view_scores)
