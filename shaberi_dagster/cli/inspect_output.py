"""`inspect-output`: read what models answered and what judges said."""

import sys
from dataclasses import replace
from typing import Annotated

from shaberi_dagster.cli.options import application
from shaberi_dagster.cli.output import endless_console
from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.reports.questions import Filter, check_filter, place_of, print_answers, read_runs
from shaberi_dagster.reports.requests import ALL_RUNS, RunSelection
from shaberi_dagster.runs.option import option
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.streams import ending_with_reader

EPILOG = """Examples:
  inspect-output                                    choose a run, or mark several for side by side
  inspect-output --tag july --filter 'score<4 sort:disagreement'

A filter has words to look for, in questions and answers, and any of benchmark:NAME, judge:NAME, category:NAME,
score<N, score>N (reported scale), failed, loses (A, the first of several runs, is below another one), and sort:score,
sort:difference (of runs), sort:disagreement (of judges)."""


def inspect_output(
    *,
    selection: RunSelection = ALL_RUNS,
    benchmark: Annotated[str | None, option("what", "Only this benchmark", known="benchmarks")] = None,
    chosen: Annotated[
        str, option("what", "Which questions, as below; / changes it", name="--filter", metavar="FILTER")
    ] = "",
    plain: Annotated[bool, option("how", "Print everything as text, as it is done for a pipe anyway")] = False,
) -> None:
    """Browse answers and judgements, run by run or models side by side."""
    from shaberi_dagster.viewer import terminal

    questions = Filter.parse(chosen or ("sort:difference" if len(selection.models) > 1 else ""))
    if benchmark is not None:
        questions = replace(questions, benchmark=benchmark)
    with open_catalog(Settings.from_environment().warehouse) as catalog:
        runs = read_runs(catalog, **vars(selection), benchmark=questions.benchmark)
        if not runs:
            raise ConfigurationError('no answers match; `shaberi sql "select run_id, status from runs"` lists the runs')
        runs.sort(key=lambda run: place_of(run, selection.models))  # A before B, as they are named
        check_filter(catalog, questions, runs)
        if not plain and sys.stdout.isatty():
            terminal.Inspector(catalog, runs, questions, together=len(selection.models) > 1).run()
            return

        with ending_with_reader():
            print_answers(catalog, runs, questions, endless_console())


app = application(inspect_output)
