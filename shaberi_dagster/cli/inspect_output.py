"""`inspect-output`: read what models answered and what judges said."""

import sys
from dataclasses import replace
from typing import Annotated

import typer
from rich.console import Console

from shaberi_dagster.cli.command import FINE, Debug, Version, run_command
from shaberi_dagster.cli.completion import completer
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.rendering.answers import answers_text, question_text
from shaberi_dagster.reports.inspection import Filter, all_questions, read_runs, read_texts
from shaberi_dagster.settings import Settings

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)

_EPILOG = """Examples:

\b
  inspect-output                                    choose a run, or mark several for side by side
  inspect-output --model a --model b --benchmark elyza
  inspect-output --tag july --filter 'score<4 sort:disagreement'
  inspect-output --model a --filter failed --plain | less

A filter has words to look for, in questions and answers, and any of benchmark:NAME, judge:NAME, category:NAME,
score<N, score>N (reported scale), failed, and sort:score, sort:difference (of runs), sort:disagreement (of judges)."""


@app.command(epilog=_EPILOG)
def inspect_output(  # noqa: PLR0917
    model: Annotated[
        list[str] | None,
        typer.Option(help="Only this model; repeat for several.", autocompletion=completer("models")),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(help="Only runs with this tag or base tag; repeat for several.", autocompletion=completer("runs")),
    ] = None,
    benchmark: Annotated[
        str | None, typer.Option(help="Only this benchmark.", autocompletion=completer("benchmarks"))
    ] = None,
    chosen: Annotated[str, typer.Option("--filter", help="Which questions, as below; / changes it.")] = "",
    plain: Annotated[
        bool, typer.Option("--plain", help="Print everything as text, as it is done for a pipe anyway.")
    ] = False,
    version: Version = False,
    debug: Debug = False,
) -> int:
    """Browse answers and judgements, run by run or models side by side."""
    del version, debug
    questions = Filter.parse(chosen)
    if benchmark is not None:
        questions = replace(questions, benchmark=benchmark)
    with open_catalog(Settings.from_environment().warehouse) as catalog:
        runs = read_runs(catalog, models=model or (), tags=tag or (), benchmark=questions.benchmark)
        if not runs:
            raise ConfigurationError('no answers match; `shaberi sql "select run_id, status from runs"` lists the runs')
        if not plain and sys.stdout.isatty():
            from shaberi_dagster.viewer.terminal import Inspector  # noqa: PLC0415  (only a terminal needs it)

            Inspector(catalog, runs, questions, together=len(model or ()) > 1).run()
            return FINE
        console = Console(width=None if sys.stdout.isatty() else 100_000)
        run_ids = [run.run_id for run in runs]
        for question, texts in read_texts(catalog, run_ids, all_questions(catalog, run_ids, questions)):
            asked = [run for run in runs if texts.answers[run.run_id].samples]
            for part in (
                question_text(question, texts),
                *(answers_text(run, question.scores.get(run.run_id), texts) for run in asked),
            ):
                console.print(part, crop=False, soft_wrap=True)
                console.print()
    return FINE


def main() -> None:
    """Entry point."""
    run_command(app)
