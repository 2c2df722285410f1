"""`shaberi question`: one question with what was answered and judged."""

from typing import Annotated

from pydantic import Field

from shaberi_dagster.cli.command import FINE
from shaberi_dagster.cli.options import CommandOptions, OutputFormat
from shaberi_dagster.reports.requests import Models
from shaberi_dagster.runs.option import Option

EPILOG = """Examples:

\b
  shaberi question tengu 12
  shaberi question tengu 12 --model my-model --model other-model --format md
  shaberi question tengu 12 --question-set tengu@115 --format json

inspect-output finds questions by their scores and texts; shaberi view shows models side by side."""


class QuestionOptions(CommandOptions):
    """What `shaberi question` can be told."""

    benchmark: Annotated[
        str,
        Field(description="Its benchmark"),
        Option("what", metavar="BENCHMARK", is_argument=True, known="benchmarks"),
    ]
    position: Annotated[
        int,
        Field(ge=1, description="Its place in the question set, from 1"),
        Option("what", metavar="POSITION", is_argument=True),
    ]
    question_set: Annotated[
        str | None,
        Field(description="Which version of the questions, e.g. tengu@115; none: the largest"),
        Option("what", metavar="SET"),
    ] = None
    models: Models = ()
    output_format: OutputFormat = "table"


def question(how: QuestionOptions) -> int:
    """Show one question with all answers and what judges said of them."""
    # DuckDB and polars, which other commands need not load.
    from shaberi_dagster.cli.output import show  # noqa: PLC0415
    from shaberi_dagster.lake.catalog import open_catalog  # noqa: PLC0415
    from shaberi_dagster.reports.question import read_question  # noqa: PLC0415
    from shaberi_dagster.settings import Settings  # noqa: PLC0415
    from shaberi_dagster.show.formats import check_format  # noqa: PLC0415
    from shaberi_dagster.show.question import QuestionDocument  # noqa: PLC0415

    check_format(how.output_format)
    with open_catalog(Settings.from_environment().warehouse) as catalog:
        report = read_question(catalog, how.benchmark, how.position, question_set=how.question_set, models=how.models)
    show(QuestionDocument(report), how.output_format)
    return FINE
