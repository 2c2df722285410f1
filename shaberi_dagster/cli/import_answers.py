"""`shaberi import-answers`: answers that another tool made."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from shaberi_dagster.cli.command import FAILED_PARTS, FINE
from shaberi_dagster.cli.options import AsJson, CommandOptions
from shaberi_dagster.cli.output import say
from shaberi_dagster.runs.option import Option
from shaberi_dagster.runs.spec import Questions
from shaberi_dagster.settings import Settings

EPILOG = """Examples:

\b
  shaberi import-answers answers.jsonl --model my-model --benchmark elyza
  shaberi import-answers batch-output.jsonl --model my-model --tag vllm

`run-evals --model my-model --tag vllm --judge-model gpt-5.1` then judges them; the model is not asked.

A row has question or question_id, and answer; thinking, prompt_tokens, completion_tokens, finish_reason, sample_index
and benchmark are read where they are. Outputs of batches whose requests `shaberi export --format requests` wrote are
read as they are. Rows without a known question, and second answers, are set aside, counted and named.

Exit codes: 0 fine, 2 usage or configuration error, 3 some rows were set aside, 130 interrupted."""


class ImportAnswers(CommandOptions):
    """Options of `shaberi import-answers`."""

    paths: Annotated[
        Sequence[Path],
        Field(description="Files: CSV, JSON Lines, JSON, Parquet, or outputs of batches"),
        Option("what", metavar="FILE", is_argument=True, repeated=True),
    ]
    model: Annotated[str, Field(description="Whose answers they are"), Option("what", known="models")]
    tag: Annotated[str, Field(description="Tag of their run"), Option("what")] = "default"
    benchmarks: Annotated[
        list[str] | None,
        Field(description="What they answer; default: the four of Shaberi"),
        Option("what", ("--benchmark",), known="benchmarks"),
    ] = None
    questions: Questions = None
    as_json: AsJson = False


def import_answers(how: ImportAnswers) -> int:
    """Bring answers that were made elsewhere into the lake, as a run that can be judged and compared."""
    from shaberi_dagster.exchange import answer_files, installation, outcomes

    workspace = installation.Installation(Settings.from_environment())
    done = answer_files.import_answers(
        how.paths,
        workspace,
        model=how.model,
        tag=how.tag,
        benchmarks=how.benchmarks or ["all"],
        questions=how.questions,
    )
    say(outcomes.answers_result(done), as_json=how.as_json)
    return FAILED_PARTS if done.report.quarantine.height or done.report.n_unreadable else FINE
