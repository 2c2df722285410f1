"""`shaberi report`: what several `quick-eval` jobs found, as one Markdown document for a pull request."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from shaberi_dagster.cli.command import FAILED_PARTS, FINE, GATE_FAILED, INCONCLUSIVE, exit_code
from shaberi_dagster.cli.options import OutputFile
from shaberi_dagster.runs.option import option
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.viewer.requests import DEFAULT_FILE, FileRequest

EPILOG = """Examples:
  shaberi report --ci results/standard.json results/elo.json --output report.md
  shaberi report quick.json                                one document of all strategies
  shaberi report --html report.html --model a --model b    leaderboard, comparison and answers, to send

Each file is what quick-eval wrote with --json or --output. Files of other settings or questions get tables of their
own. A file that is missing or cannot be read is named in the report.

Exit codes: 0 fine, 1 a gate found a regression (only with --ci), 2 usage error, 3 a file is missing or cannot be read,
or a run has failed parts, 4 a gate is inconclusive (only with --ci); where several apply, the first of 2, 1, 3, 4."""


_OF_GATES = {"passed": FINE, "failed": GATE_FAILED, "inconclusive": INCONCLUSIVE}
_TITLE = "Consensus against a single answer"


def report(
    files: Annotated[
        Sequence[Path],
        option("what", "Documents of `quick-eval --json`, one of each job; none with --html", metavar="FILE"),
    ] = (),
    /,
    *,
    request: FileRequest = DEFAULT_FILE,
    ci: Annotated[
        bool, option("how", "Begin with a hidden marker; end with 1 if a gate found a regression, 4 if one cannot tell")
    ] = False,
    output: Annotated[OutputFile, option("how", "Write here instead of stdout")] = None,
    title: Annotated[str, option("how", "Heading of the report; none with --html", metavar="TEXT")] = _TITLE,
    html: Annotated[
        OutputFile, option("how", "Write leaderboard, comparison and answers of the lake as one HTML file instead")
    ] = None,
) -> int:
    """Write the lake, or quick-eval jobs, as one document."""
    from shaberi_dagster.cli.output import put, tell, waiting
    from shaberi_dagster.reports import ci as jobs_of_ci
    from shaberi_dagster.viewer import html as pages

    if html is not None:
        if files or ci or title != _TITLE:
            raise ConfigurationError("--html shows the lake: leave documents, --ci and --title out")
        warehouse = Settings.from_environment().warehouse
        with waiting("reading the lake: leaderboard, comparison, questions"):
            written = pages.write_file(html, warehouse, lambda source: pages.about_lake(source, request))
        tell(written)
        return FINE
    if not files:
        raise ConfigurationError("name documents of quick-eval, or a file to write with --html")
    jobs, problems = jobs_of_ci.read_jobs(files)
    put(jobs_of_ci.markdown(jobs, problems, title, marked=ci), output)
    codes = [FAILED_PARTS if problems or jobs_of_ci.incomplete(jobs) else FINE]
    if ci:
        codes += [_OF_GATES[job.gate.result] for job in jobs if job.gate]
    return exit_code(*codes)
