"""`run-evals`: evaluate a model, from questions to scores."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from shaberi_dagster.cli.command import FAILED_PARTS, FINE, with_plugins
from shaberi_dagster.cli.options import AsJson, Audit, CommandOptions, Submit, application
from shaberi_dagster.cli.output import put
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.runs.option import Option
from shaberi_dagster.runs.request_file import as_yaml, read_values
from shaberi_dagster.runs.spec import CallOptions, RunRequest

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
  run-evals --model gpt-5.1 --judge-model gpt-5.1 --benchmark tengu --sweep reasoning_effort=low,medium,high
  run-evals --model my-model --tag july --runs 8 --submit

Exit codes: 0 fine, 2 usage or configuration error, 3 finished with failed parts, 130 interrupted."""


class RunEvals(CommandOptions):
    """Options of `run-evals` beside the request."""

    runs: Annotated[
        int | None,
        Field(ge=1, description="Independent runs, TAG-run1 ... TAG-runN"),
        Option("what", metavar="N"),
    ] = None
    sweep: Annotated[
        list[str] | None,
        Field(description="A run for each value, and a table of scores and costs"),
        Option("advanced", metavar="NAME=VALUES", repeated=True),
    ] = None
    rejudge: Annotated[bool, Field(description="Judge the stored answers anew; ask no model"), Option("how")] = False
    reprocess: Annotated[bool, Field(description="Parse, apply passes and score again; ask nobody"), Option("how")] = (
        False
    )
    config: Annotated[Path | None, Field(description="A request in YAML; options override it"), Option("how")] = None
    print_config: Annotated[
        bool, Field(description="Print the request in YAML; do nothing else"), Option("advanced")
    ] = False
    audit: Audit = None
    submit: Submit = False
    dry_run: Annotated[bool, Field(description="Show the plan and the calls it needs; make none"), Option("budget")] = (
        False
    )
    as_json: AsJson = False


def run_evals(request: RunRequest, calls: CallOptions, how: RunEvals) -> int:
    """Evaluate a model. What is there already is never paid for again."""
    from shaberi_dagster.cli import evaluation
    from shaberi_dagster.defs import operations, running

    if how.print_config:
        put(as_yaml(request, calls))
        return FINE
    if how.rejudge and how.reprocess:
        raise ConfigurationError("--rejudge asks judges and --reprocess asks nobody: leave one out")
    if how.reprocess:
        calls = calls.model_copy(update={"max_tokens_total": 0})
    if how.sweep and how.runs:
        raise ConfigurationError("--sweep makes a run for each value and --runs several of one: leave one out")
    requests = request.swept(how.sweep) if how.sweep else [request]
    made = running.Evaluation(
        requests, calls, rejudge=how.rejudge, reprocess=how.reprocess, runs=how.runs, submit=how.submit
    )
    audit = made.audit_of(how.audit)
    if how.dry_run:
        evaluation.show_plan(made, audit, as_json=how.as_json)
        return FINE
    status = made.run()
    if audit:
        operations.audit(audit, calls)
    show = evaluation.show_sweep if how.sweep else evaluation.show_scores
    show(made, as_json=how.as_json)
    page = "/sweep" if how.sweep else "/model"
    about = ("/run", "run", made.spec.run_id) if made.is_single else (page, "model", made.spec.model)
    evaluation.say_where_to_look(made, *about)
    if status == "complete":
        return FINE
    evaluation.say_what_failed(made)
    return FAILED_PARTS


app = application(run_evals, with_plugins(_EPILOG), files=read_values)
