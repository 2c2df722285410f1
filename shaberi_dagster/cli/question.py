"""`shaberi question`: one question with what was answered and judged."""

from typing import Annotated

import typer

from shaberi_dagster.cli.command import FINE, Debug
from shaberi_dagster.cli.completion import completer

QUESTION_EPILOG = """Examples:

\b
  shaberi question tengu 12
  shaberi question tengu 12 --model my-model --model other-model --format md
  shaberi question tengu 12 --question-set tengu@115 --format json

inspect-output finds questions by their scores and texts; shaberi view shows models side by side."""


def question(  # noqa: PLR0917
    benchmark: Annotated[str, typer.Argument(help="Its benchmark.", autocompletion=completer("benchmarks"))],
    position: Annotated[int, typer.Argument(min=1, help="Its place in the question set, from 1.")],
    question_set: Annotated[
        str | None, typer.Option(help="Which version of the questions, e.g. tengu@115; none: the largest.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Only this model; repeat for several.", autocompletion=completer("models"))
    ] = None,
    output_format: Annotated[str, typer.Option("--format", help="table, json, csv or md.")] = "table",
    debug: Debug = False,
) -> int:
    """Show one question with all answers and what judges said of them."""
    del debug
    # DuckDB and polars, which other commands need not load.
    from rich.console import Console  # noqa: PLC0415

    from shaberi_dagster.lake.catalog import open_catalog  # noqa: PLC0415
    from shaberi_dagster.rendering.document import check_format, write  # noqa: PLC0415
    from shaberi_dagster.rendering.question import QuestionDocument  # noqa: PLC0415
    from shaberi_dagster.reports.question import read_question  # noqa: PLC0415
    from shaberi_dagster.settings import Settings  # noqa: PLC0415

    check_format(output_format)
    with open_catalog(Settings.from_environment().warehouse) as catalog:
        report = read_question(catalog, benchmark, position, question_set=question_set, models=model or ())
    write(QuestionDocument(report), output_format, Console())
    return FINE
