"""`shaberi import-answers`: answers that another tool made."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from shaberi_dagster.cli.command import FAILED_PARTS, FINE
from shaberi_dagster.cli.options import AsJson
from shaberi_dagster.cli.output import say
from shaberi_dagster.runs.option import option
from shaberi_dagster.runs.spec import Questions
from shaberi_dagster.settings import Settings

EPILOG = """Examples:
  shaberi import-answers answers.jsonl --model my-model --benchmark elyza
  shaberi import-answers batch-output.jsonl --model my-model --tag vllm

`run-evals --model my-model --tag vllm --judge-model gpt-5.1` then judges them; the model is not asked.

A row has question or question_id, and answer; thinking, prompt_tokens, completion_tokens, finish_reason, sample_index
and benchmark are read where they are. Outputs of batches whose requests `shaberi export --format requests` wrote are
read as they are. Rows without a known question, and second answers, are set aside, counted and named.

Exit codes: 0 fine, 2 usage or configuration error, 3 some rows were set aside, 130 interrupted."""


def import_answers(
    paths: Annotated[
        Sequence[Path], option("what", "Files: CSV, JSON Lines, JSON, Parquet, or outputs of batches", metavar="FILE")
    ],
    /,
    *,
    model: Annotated[str, option("what", "Whose answers they are", known="models")],
    tag: Annotated[str, option("what", "Tag of their run")] = "default",
    benchmarks: Annotated[
        list[str] | None,
        option(
            "what",
            "What they answer; default: the four of Shaberi",
            name="--benchmark",
            known="benchmarks",
            commas=True,
        ),
    ] = None,
    questions: Annotated[Questions, option("what", "Where they are from, as of run-evals")] = None,
    as_json: AsJson = False,
) -> int:
    """Import answers that were made elsewhere."""
    from shaberi_dagster.exchange import answer_files, outcomes
    from shaberi_dagster.runs.workspace import Workspace

    workspace = Workspace(Settings.from_environment())
    done = answer_files.import_answers(
        paths, workspace, model=model, tag=tag, benchmarks=benchmarks or ["all"], questions=questions
    )
    say(outcomes.answers_result(done), as_json=as_json)
    return FAILED_PARTS if done.report.quarantine.height or done.report.n_unreadable else FINE
