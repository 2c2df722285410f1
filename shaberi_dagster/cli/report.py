"""`shaberi report`: what several `quick-eval` jobs found, as one Markdown document for a pull request."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from shaberi_dagster.cli.command import FAILED_PARTS, FINE, GATE_FAILED, INCONCLUSIVE, exit_code
from shaberi_dagster.cli.options import CommandOptions, OutputFile
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.runs.option import Option
from shaberi_dagster.settings import Settings
from shaberi_dagster.viewer.requests import FileRequest

EPILOG = """Examples:

\b
  shaberi report --ci results/standard.json results/elo.json --output report.md
  shaberi report quick.json                                one document of all strategies
  shaberi report --html report.html --model a --model b    leaderboard, comparison and answers, to send

Each file is what quick-eval wrote with --json or --output. Files of other settings or questions get tables of their
own. A file that is missing or cannot be read is named in the report.

Exit codes: 0 fine, 1 a gate found a regression (only with --ci), 2 usage error, 3 a file is missing or cannot be read,
or a run has failed parts, 4 a gate is inconclusive (only with --ci); where several apply, the first of 2, 1, 3, 4."""


class CombinedReport(CommandOptions):
    """Options of `shaberi report` beside the contents of an HTML file."""

    files: Annotated[
        Sequence[Path],
        Field(description="Documents of `quick-eval --json`, one of each job; none with --html"),
        Option("what", metavar="FILE", is_argument=True, repeated=True),
    ] = ()
    ci: Annotated[
        bool,
        Field(description="Begin with a hidden marker; end with 1 if a gate found a regression, 4 if one cannot tell"),
        Option("how"),
    ] = False
    output: Annotated[OutputFile, Field(description="Write here instead of stdout"), Option("how")] = None
    title: Annotated[str, Field(description="Heading of the report"), Option("how", metavar="TEXT")] = (
        "Consensus against a single answer"
    )
    html: Annotated[
        OutputFile,
        Field(description="Write leaderboard, comparison and answers of the lake as one HTML file instead"),
        Option("how"),
    ] = None


def report(request: FileRequest, how: CombinedReport) -> int:
    """Combine the results of several quick-eval jobs in one Markdown document, or show the lake in one HTML file."""
    from shaberi_dagster.cli import output
    from shaberi_dagster.reports import jobs
    from shaberi_dagster.show import ci
    from shaberi_dagster.viewer import html

    if how.html is not None:
        if how.files or how.ci:
            raise ConfigurationError("--html shows the lake: leave documents and --ci out")
        warehouse = Settings.from_environment().warehouse
        with output.waiting("reading the lake: leaderboard, comparison, questions"):
            written = html.write_file(how.html, warehouse, lambda source: html.about_lake(source, request))
        output.tell(written)
        return FINE
    if not how.files:
        raise ConfigurationError("name documents of quick-eval, or a file to write with --html")
    found = jobs.read_jobs(how.files)
    output.put(ci.markdown(found, how.title, marked=how.ci), how.output)
    codes = [FAILED_PARTS if found.problems or found.incomplete else FINE]
    if how.ci:
        codes += [GATE_FAILED for _ in found.gates("failed")] + [INCONCLUSIVE for _ in found.gates("inconclusive")]
    return exit_code(*codes)
