"""`view-scores`: the scores of runs, with their denominators."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer
from pydantic import Field

from shaberi_dagster.cli.command import FINE
from shaberi_dagster.cli.options import CommandOptions, OptionsCommand, OutputFormat, takes_models
from shaberi_dagster.reports.requests import BY, ScoreSelection, check_choice, moment
from shaberi_dagster.runs.option import Option

if TYPE_CHECKING:
    from shaberi_dagster.show.scores import ScoreView

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)

_EPILOG = """Examples:

\b
  view-scores                                             one line a model, best first
  view-scores --by judge                                  what each judge says
  view-scores --model my-model --by run --notes --cost    everything of a model's runs
  view-scores --tag july --null-policy zero
  view-scores --model my-model --runs 3 --format md
  view-scores --judge gpt-5.1 --format csv > scores.csv
  view-scores --tag legacy --question-set tengu@115       as the published tables have it
  view-scores --as-of 2026-07-01T12:00                    what this showed then

A missing score is left out under the policy legacy, counts as the scale's minimum under zero, and leaves the
mean undefined under strict."""


class ViewScores(CommandOptions):
    """Options of `view-scores` beside the selection."""

    as_of: Annotated[
        str | None,
        Field(description="What the lake had then: 2026-07-01 or 2026-07-01T12:00+09:00 (default: local)"),
        Option("what", metavar="TIME"),
    ] = None
    by: Annotated[
        str,
        Field(description="One line a model with its benchmarks (model) or judges (judge); or all of each run (run)"),
        Option("how", metavar="|".join(BY)),
    ] = "model"
    notes: Annotated[bool, Field(description="What the numbers are and what does not compare"), Option("how")] = False
    cost: Annotated[bool, Field(description="Tokens and cost by stage"), Option("how")] = False
    wide: Annotated[bool, Field(description="All columns, however wide the terminal is"), Option("how")] = False
    output_format: OutputFormat = "table"


def view_scores(selection: ScoreSelection, how: ViewScores) -> int:
    """Show scores on the reported scale, with how many samples they stand for."""
    from shaberi_dagster.settings import Settings  # noqa: PLC0415
    from shaberi_dagster.show.scores import ScoreView  # noqa: PLC0415  (help needs none)

    check_choice("--by", how.by, BY)
    as_of = moment(how.as_of) if how.as_of is not None else None
    view = ScoreView(cast("Literal['model', 'judge', 'run']", how.by), notes=how.notes, cost=how.cost, wide=how.wide)
    selection = replace(selection, as_of=as_of, aggregate=selection.runs is not None)
    show_scores(Settings.from_environment().warehouse, selection, how.output_format, view)
    return FINE


def show_scores(
    warehouse: Path, selection: ScoreSelection, output_format: str, view: "ScoreView | None" = None
) -> None:
    """Print the selected scores on stdout.

    Raises:
        ConfigurationError: There is no lake, no such run, or no such policy or format; or the runs that are to be put
            into one aggregate are not alike.
    """
    from shaberi_dagster.cli.output import show  # noqa: PLC0415  (DuckDB, which help needs not)
    from shaberi_dagster.lake.catalog import open_as_of, open_catalog  # noqa: PLC0415
    from shaberi_dagster.reports.score_reading import read_scores  # noqa: PLC0415
    from shaberi_dagster.show.formats import check_format  # noqa: PLC0415
    from shaberi_dagster.show.scores import ScoreDocument, ScoreView  # noqa: PLC0415

    selection.check()
    check_format(output_format)
    with open_as_of(warehouse, selection.as_of) if selection.as_of else open_catalog(warehouse) as catalog:
        report = read_scores(catalog, selection)
    show(ScoreDocument(report, view or ScoreView()), output_format)


app.command(cls=OptionsCommand, epilog=_EPILOG)(takes_models(view_scores))
