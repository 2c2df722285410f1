"""`shaberi compare`: two models or runs over the questions that both were asked, judge by judge."""

from pathlib import Path
from typing import Annotated

import typer

from shaberi_dagster.cli.command import FINE, Debug
from shaberi_dagster.cli.completion import completer

COMPARE_EPILOG = """Examples:

\b
  shaberi compare my-model other-model
  shaberi compare my-model my-model-v2 --tag july --judge gpt-5.1
  shaberi compare my-model@@july my-model@@august            two runs of one model
  shaberi compare my-model other-model --benchmark tengu,elyza --format md
  shaberi compare my-model other-model --html compared.html   with questions and answers, to send

Of a multi-run (tags TAG-run1, TAG-run2, ...) name TAG: the scores of a question are averaged over its runs first. The
difference is A - B; its interval over questions and p are of the paired sign-flip test, Holm's adjustment is over the
benchmarks. `no difference shown` does not mean that there is none; `equal within` a margin does."""


def compare(  # noqa: PLR0917
    a: Annotated[
        str, typer.Argument(metavar="A", help="Model, or MODEL@@TAG for a run.", autocompletion=completer("models"))
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="What to compare it with.", autocompletion=completer("models"))],
    tag: Annotated[
        str | None,
        typer.Option(
            help="Tag or base tag of the runs; not needed where a model has one.", autocompletion=completer("runs")
        ),
    ] = None,
    judge: Annotated[
        list[str] | None, typer.Option(help="Only this judge; repeat for several.", autocompletion=completer("judges"))
    ] = None,
    benchmark: Annotated[
        str, typer.Option(help="Benchmarks, separated by commas, or all.", autocompletion=completer("benchmarks"))
    ] = "all",
    passes: Annotated[
        str, typer.Option(help="Pass pipeline, e.g. lang_mixing,repetition.", autocompletion=completer("passes"))
    ] = "baseline",
    null_policy: Annotated[str, typer.Option(help="legacy, zero or strict.")] = "legacy",
    question_set: Annotated[
        list[str] | None,
        typer.Option(help="Over the questions of this set only, e.g. tengu@115; repeat for several benchmarks."),
    ] = None,
    over: Annotated[
        str, typer.Option(help="What else could have been asked: other questions, or other categories of them.")
    ] = "questions",
    margin: Annotated[
        float | None,
        typer.Option(help="Up to which difference scores are equal; default: 0.2 of ten, 2 points of accuracy."),
    ] = None,
    output_format: Annotated[str, typer.Option("--format", help="table, json, csv or md.")] = "table",
    html_file: Annotated[
        Path | None,
        typer.Option("--html", help="Also write it as one HTML file, with the questions and answers that differ most."),
    ] = None,
    debug: Debug = False,
) -> int:
    """Compare two models or runs question by question: is one better, are they equal, or is no difference shown?"""
    del debug
    # DuckDB, Polars and SciPy, which other commands need not load.
    from rich.console import Console  # noqa: PLC0415

    from shaberi_dagster.lake.catalog import open_catalog  # noqa: PLC0415
    from shaberi_dagster.rendering.comparison import ComparisonDocument  # noqa: PLC0415
    from shaberi_dagster.rendering.document import check_format, write  # noqa: PLC0415
    from shaberi_dagster.reports.comparison import ComparisonRequest  # noqa: PLC0415
    from shaberi_dagster.reports.comparison import compare as read_comparison  # noqa: PLC0415
    from shaberi_dagster.settings import Settings  # noqa: PLC0415

    check_format(output_format)
    request = ComparisonRequest(
        a,
        b,
        tag=tag,
        judges=judge or (),
        benchmarks=benchmark,
        pipeline=passes,
        null_policy=null_policy,
        question_sets=question_set or (),
        over=over,
        margin=margin,
    )
    warehouse = Settings.from_environment().warehouse
    with open_catalog(warehouse) as catalog:
        report = read_comparison(catalog, request)
    write(ComparisonDocument(report), output_format, Console())
    if html_file is not None:
        from shaberi_dagster.cli.html_file import write_file  # noqa: PLC0415  (Jinja and what only pages need)
        from shaberi_dagster.viewer.html import about_comparison  # noqa: PLC0415

        write_file(html_file, warehouse, lambda source: about_comparison(source, report))
    return FINE
