"""`view-scores`: the scores of runs, with their denominators."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, cast

import typer
from rich.console import Console

from shaberi_dagster.cli.command import FINE, Debug, Version, run_command
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.lake.catalog import open_as_of, open_catalog
from shaberi_dagster.rendering.document import check_format, write
from shaberi_dagster.rendering.scores import BY, ScoreDocument, ScoreView
from shaberi_dagster.reports.reading import BASELINE, check_choice
from shaberi_dagster.reports.score_reading import ScoreSelection, read_scores
from shaberi_dagster.settings import Settings

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


@app.command(epilog=_EPILOG)
def view_scores(  # noqa: PLR0917
    model: Annotated[list[str] | None, typer.Option(help="Only this model; repeat for several.")] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="Only runs with this tag or base tag; repeat for several.")
    ] = None,
    runs: Annotated[int | None, typer.Option(min=1, help="Statistics over runs 1 to N of multi-runs.")] = None,
    judge: Annotated[list[str] | None, typer.Option(help="Only this judge; repeat for several.")] = None,
    passes: Annotated[str, typer.Option(help="Pass pipeline, e.g. lang_mixing,repetition.")] = BASELINE,
    null_policy: Annotated[str, typer.Option(help="legacy, zero or strict.")] = "legacy",
    question_set: Annotated[
        list[str] | None,
        typer.Option(help="Over the questions of this set only, e.g. tengu@115; repeat for several benchmarks."),
    ] = None,
    object_scores: Annotated[
        str, typer.Option(help="Imported objects in place of scores: none, or recovered (the number inside).")
    ] = "none",
    over: Annotated[
        str, typer.Option(help="What else could have been asked: other questions, or other categories of them.")
    ] = "questions",
    as_of: Annotated[
        str | None, typer.Option(help="What the lake had then: 2026-07-01 or 2026-07-01T12:00+09:00 (default: local).")
    ] = None,
    by: Annotated[
        str,
        typer.Option(help="One line a model with its benchmarks (model) or judges (judge); or all of each run (run)."),
    ] = "model",
    notes: Annotated[bool, typer.Option("--notes", help="What the numbers are and what does not compare.")] = False,
    cost: Annotated[bool, typer.Option("--cost", help="Tokens and cost by stage.")] = False,
    wide: Annotated[bool, typer.Option("--wide", help="All columns, however wide the terminal is.")] = False,
    output_format: Annotated[
        str, typer.Option("--format", help="table, json, csv or md; the last three have everything.")
    ] = "table",
    version: Version = False,
    debug: Debug = False,
) -> int:
    """Show scores on the reported scale, with how many samples they stand for."""
    del debug, version
    selection = ScoreSelection(
        models=model or [],
        tags=tag or [],
        judges=judge or [],
        runs=runs,
        pipeline=",".join(name.strip() for name in passes.split(",")),
        null_policy=null_policy,
        question_sets=question_set or [],
        object_scores=object_scores,
        over=over,
        as_of=_time(as_of),
        aggregate=runs is not None,
    )
    check_choice("--by", by, BY)
    view = ScoreView(cast("Literal['model', 'judge', 'run']", by), notes=notes, cost=cost, wide=wide)
    show(Settings.from_environment().warehouse, selection, output_format, view)
    return FINE


def show(warehouse: Path, selection: ScoreSelection, output_format: str, view: ScoreView | None = None) -> None:
    """Print the selected scores on stdout.

    Raises:
        ConfigurationError: There is no lake, no such run, or no such policy or format; or the runs that are to be put
            into one aggregate are not alike.
    """
    selection.check()
    check_format(output_format)
    with open_as_of(warehouse, selection.as_of) if selection.as_of else open_catalog(warehouse) as catalog:
        report = read_scores(catalog, selection)
    write(ScoreDocument(report, view or ScoreView()), output_format, Console())


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise ConfigurationError(f"--as-of must be a time such as 2026-07-01T12:00, not {text!r}") from None


def main() -> None:
    """Entry point."""
    run_command(app)
