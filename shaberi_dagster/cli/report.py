"""`shaberi report`: what several `quick-eval` jobs found, as one Markdown document for a pull request."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from shaberi_dagster.cli.command import FAILED_PARTS, FINE, GATE_FAILED, INCONCLUSIVE, Debug, exit_code
from shaberi_dagster.errors import ConfigurationError

EPILOG = """Examples:

\b
  shaberi report --ci results/standard.json results/elo.json --output report.md
  shaberi report quick.json                                one document of all strategies
  shaberi report --html report.html --model a --model b    leaderboard, comparison and answers, to send

Each file is what quick-eval wrote with --json or --output. Files of other settings or questions get tables of their
own. A file that is missing or cannot be read is named in the report.

Exit codes: 0 fine, 1 a gate found a regression (only with --ci), 2 usage error, 3 a file is missing or cannot be read,
or a run has failed parts, 4 a gate is inconclusive (only with --ci); where several apply, the first of 2, 1, 3, 4."""


def report(  # noqa: PLR0917
    file: Annotated[
        list[Path] | None, typer.Argument(help="Documents of `quick-eval --json`, one of each job; none with --html.")
    ] = None,
    ci: Annotated[
        bool,
        typer.Option(
            "--ci",
            help="Begin with a hidden marker; end with 1 if a gate found a regression, 4 if one cannot tell.",
        ),
    ] = False,
    output: Annotated[Path | None, typer.Option(help="Write here instead of stdout.")] = None,
    title: Annotated[str, typer.Option(help="Heading of the report.")] = "Consensus against a single answer",
    html_file: Annotated[
        Path | None,
        typer.Option("--html", help="Write leaderboard, comparison and answers of the lake as one HTML file."),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="--html: compare this model, or MODEL@@TAG; repeat. Default: the best two.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="--html: only runs with this tag; repeat for several.")] = None,
    judge: Annotated[list[str] | None, typer.Option(help="--html: only this judge; repeat for several.")] = None,
    passes: Annotated[str | None, typer.Option(help="--html: pass pipeline, e.g. lang_mixing,repetition.")] = None,
    questions: Annotated[
        int, typer.Option(min=0, max=100, help="--html: of how many questions, those that differ most, answers are in.")
    ] = 5,
    debug: Debug = False,
) -> int:
    """Combine the results of several quick-eval jobs in one Markdown document, or show the lake in one HTML file."""
    del debug
    if html_file is not None:
        # DuckDB, Polars and Jinja, which Markdown does not need.
        from shaberi_dagster.cli.html_file import write_file  # noqa: PLC0415
        from shaberi_dagster.settings import Settings  # noqa: PLC0415
        from shaberi_dagster.viewer.html import FileRequest, about_lake  # noqa: PLC0415

        request = FileRequest(model or (), tag or (), judge or (), passes, questions)
        write_file(html_file, Settings.from_environment().warehouse, lambda source: about_lake(source, request))
        return FINE
    if not file:
        raise ConfigurationError("name documents of quick-eval, or a file to write with --html")
    from shaberi_dagster.rendering.ci import markdown  # noqa: PLC0415  (polars only when it is needed)
    from shaberi_dagster.reports.jobs import read_jobs  # noqa: PLC0415

    found = read_jobs(file)
    text = markdown(found, title, marked=ci)
    if output is None:
        sys.stdout.write(text)
    else:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
    codes = [FAILED_PARTS if found.problems or found.incomplete else FINE]
    if ci:
        codes += [GATE_FAILED for _ in found.gates("failed")] + [INCONCLUSIVE for _ in found.gates("inconclusive")]
    return exit_code(*codes)
