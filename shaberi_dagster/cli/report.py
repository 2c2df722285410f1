"""`shaberi report`: what several `quick-eval` jobs found, as one Markdown document for a pull request."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from shaberi_dagster.cli.command import FAILED_PARTS, FINE, GATE_FAILED, INCONCLUSIVE, Debug, exit_code

EPILOG = """Examples:

\b
  shaberi report --ci results/standard.json results/elo.json --output report.md
  shaberi report quick.json                                one document of all strategies

Each file is what quick-eval wrote with --json or --output. Files of other settings or questions get tables of their
own. A file that is missing or cannot be read is named in the report.

Exit codes: 0 fine, 1 a gate found a regression (only with --ci), 2 usage error, 3 a file is missing or cannot be read,
or a run has failed parts, 4 a gate is inconclusive (only with --ci); where several apply, the first of 2, 1, 3, 4."""


def report(
    file: Annotated[list[Path], typer.Argument(help="Documents of `quick-eval --json`, one of each job.")],
    ci: Annotated[
        bool,
        typer.Option(
            "--ci",
            help="Begin with a hidden marker; end with 1 if a gate found a regression, 4 if one cannot tell.",
        ),
    ] = False,
    output: Annotated[Path | None, typer.Option(help="Write here instead of stdout.")] = None,
    title: Annotated[str, typer.Option(help="Heading of the report.")] = "Consensus against a single answer",
    debug: Debug = False,
) -> int:
    """Combine the results of several quick-eval jobs in one Markdown document."""
    del debug
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
