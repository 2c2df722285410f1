"""`run-evals`: evaluate a model, from questions to scores."""

import gc
from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field

from shaberi_dagster.cli.command import FAILED_PARTS, FINE, end_at_once, run_command, with_plugins
from shaberi_dagster.cli.options import AsJson, CommandOptions, OptionsCommand, Submit, takes_models
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.runs.option import Option
from shaberi_dagster.runs.request_file import as_yaml, read_values
from shaberi_dagster.runs.spec import CallOptions, RunRequest

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)

_EPILOG = """\b
Examples:
  run-evals --model embedded/smollm2-135m
  run-evals --model gpt-4.1-mini --judge-model gpt-5.1 --tag july --max-cost 5

More examples:
  run-evals --model my-model --base-url http://localhost:8000/v1 --judge-model gpt-5.1 --judge-model gemini-3-pro
  run-evals --model my-model --tag july --rejudge --judge-model gpt-5.1
  run-evals --model my-model --tag july --rejudge --judge-model gpt-5.1 --judge-prompt strict
  run-evals --model imported__model --tag legacy --judge-model gpt-5.1
  run-evals --model my-model --tag july --passes lang_mixing,repetition
  run-evals --model my-model --tag july --reprocess
  run-evals --model gpt-4.1-mini --judge-model gpt-5.1 --benchmark elyza,tengu --limit 10 --questions hub
  run-evals --model gpt-4.1-mini --judge-model gpt-5.1 --benchmark tengu --samples 5 --strategy plurality,council
  run-evals --model gpt-4.1-mini --judge-model gpt-5.1 --benchmark tengu,gsm8k --sample 30
  run-evals --model gpt-4.1-mini --judge-model gpt-5.1 --dry-run
  run-evals --model gpt-4.1-mini --judge-model gpt-5.1 --print-config > july.yaml
  run-evals --config july.yaml --tag august
  run-evals --model my-model --tag july --runs 8 --submit

Exit codes: 0 fine, 2 usage or configuration error, 3 finished with failed parts, 130 interrupted."""


class RunEvals(CommandOptions):
    """What `run-evals` can be told beside the request."""

    runs: Annotated[int, Field(ge=1, description="Independent runs, TAG-run1 ... TAG-runN"), Option("what")] = 1
    rejudge: Annotated[bool, Field(description="Judge the stored answers anew; ask no model"), Option("how")] = False
    reprocess: Annotated[bool, Field(description="Parse, apply passes and score again; ask nobody"), Option("how")] = (
        False
    )
    config: Annotated[Path | None, Field(description="A request in YAML; options override it"), Option("how")] = None
    print_config: Annotated[bool, Field(description="Print the request in YAML; do nothing else"), Option("how")] = (
        False
    )
    submit: Submit = False
    dry_run: Annotated[bool, Field(description="Show the plan and the calls it needs; make none"), Option("budget")] = (
        False
    )
    as_json: AsJson = False


def run_evals(request: RunRequest, calls: CallOptions, how: RunEvals) -> int:
    """Evaluate a model. What is there already is never paid for again."""
    if how.print_config:
        from shaberi_dagster.cli.output import put  # noqa: PLC0415

        put(as_yaml(request, calls))
        return FINE
    if how.rejudge and how.reprocess:
        raise ConfigurationError("--rejudge asks judges and --reprocess asks nobody: leave one out")
    if how.reprocess:
        calls = calls.model_copy(update={"max_tokens_total": 0})
    # Only now, so that --help and usage errors are quick. Imports leave no garbage, so none is looked for among them.
    gc.disable()
    from shaberi_dagster.cli.evaluation import (  # noqa: PLC0415
        say_what_failed,
        say_where_to_look,
        show_plan,
        show_scores,
    )
    from shaberi_dagster.defs.running import Evaluation  # noqa: PLC0415

    gc.freeze()
    gc.enable()

    evaluation = Evaluation(
        request.independent(how.runs),
        calls,
        rejudge=how.rejudge,
        reprocess=how.reprocess,
        submit=how.submit,
    )
    if how.dry_run:
        show_plan(evaluation, as_json=how.as_json)
        return FINE
    status = evaluation.run()
    show_scores(evaluation, as_json=how.as_json)
    about = ("/run", "run", evaluation.spec.run_id) if how.runs == 1 else ("/model", "model", evaluation.spec.model)
    say_where_to_look(evaluation, *about)
    if status == "complete":
        return FINE
    say_what_failed(evaluation)
    return FAILED_PARTS


app.command(cls=OptionsCommand, epilog=with_plugins(_EPILOG))(takes_models(run_evals, files=read_values))


def main() -> None:
    """Entry point."""
    try:
        run_command(app)
    except SystemExit as stop:
        if not isinstance(stop.code, int):
            raise
        end_at_once(stop.code)
