"""`run-evals`: evaluate a model, from questions to scores."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, ArgumentCollection, Token
from pydantic import Field

from shaberi_dagster.cli.command import FINE, with_plugins
from shaberi_dagster.cli.options import AsJson, Audit, Submit, application
from shaberi_dagster.cli.output import put
from shaberi_dagster.deciding.audit_request import AuditRequest
from shaberi_dagster.runs.option import option
from shaberi_dagster.runs.request_file import as_yaml, read_values, request_from
from shaberi_dagster.runs.spec import USUAL_CALLS, CallOptions, RunRequest
from shaberi_dagster.util.errors import ConfigurationError

EPILOG = with_plugins("""Examples:
  run-evals --model embedded/smollm2-135m
  run-evals --model gpt-4.1-mini --judge-model gpt-5.1 --tag july --max-cost 5
  run-evals --model my-model --base-url http://localhost:8000/v1 --judge-model gpt-5.1 --judge-model gemini-3-pro
  run-evals --model my-model --tag july --rejudge --judge-model gpt-5.1
  run-evals --model my-model --tag july --passes lang_mixing,repetition
  run-evals --model my-model --tag july --reprocess
  run-evals --model gpt-4.1-mini --judge-model gpt-5.1 --benchmark elyza,tengu --limit 10 --questions hub
  run-evals --model gpt-4.1-mini --judge-model gpt-5.1 --benchmark tengu --samples 5 --strategy plurality,council
  run-evals --model gpt-4.1-mini --judge-model gpt-5.1 --print-config > july.yaml
  run-evals --config july.yaml --tag august
  run-evals --model gpt-5.1 --judge-model gpt-5.1 --benchmark tengu --sweep reasoning_effort=low,medium,high
  run-evals --model my-model --tag july --runs 8 --submit

Exit codes: 0 fine, 2 usage or configuration error, 3 finished with failed parts, 130 interrupted.""")


def run_evals(
    *,
    request: RunRequest,
    calls: CallOptions = USUAL_CALLS,
    runs: Annotated[int | None, Field(ge=1), option("what", "Independent runs, TAG-run1 ... TAG-runN")] = None,
    sweep: Annotated[
        list[str] | None,
        option("advanced", "A run for each value, and a table of scores and costs", metavar="NAME=VALUES"),
    ] = None,
    rejudge: Annotated[bool, option("how", "Judge the stored answers again; does not call the model")] = False,
    reprocess: Annotated[bool, option("how", "Score stored outputs again; makes no API calls")] = False,
    config: Annotated[Path | None, option("how", "A request in YAML; options override it")] = None,
    print_config: Annotated[bool, option("advanced", "Print the request in YAML; do nothing else")] = False,
    audit: Audit = None,
    submit: Submit = False,
    dry_run: Annotated[bool, option("budget", "Show the plan and the calls it needs; make none")] = False,
    as_json: AsJson = False,
) -> int:
    """Evaluate a model. What is there already is never paid for again."""
    from shaberi_dagster.cli import evaluation
    from shaberi_dagster.defs import running

    if config:
        given = request.model_dump(exclude_unset=True) | calls.model_dump(exclude_unset=True)
        request, calls = request_from(read_values(config, given))
    if print_config:
        put(as_yaml(request, calls))
        return FINE
    if rejudge and reprocess:
        raise ConfigurationError("--rejudge calls judges and --reprocess makes no calls: leave one out")
    if reprocess:
        calls = calls.model_copy(update={"max_tokens_total": 0})
    if sweep and runs:
        raise ConfigurationError("--sweep makes a run for each value and --runs several of one: leave one out")
    requests = request.swept(sweep) if sweep else [request]
    made = running.Evaluation(requests, calls, rejudge=rejudge, reprocess=reprocess, runs=runs, submit=submit)
    audited = AuditRequest.of_runs(audit, made.specs, made.benchmarks)
    if dry_run:
        evaluation.show_plan(made, audited, as_json=as_json)
        return FINE
    status = made.run()
    if audited:
        from shaberi_dagster.defs import operations

        operations.audit(audited, calls)
    (evaluation.show_sweep if sweep else evaluation.show_scores)(made, as_json=as_json)
    evaluation.say_where_to_look(made, "/sweep" if sweep else "/model", "model", made.spec.model)
    return evaluation.end(made, complete=status == "complete")


def _model_of_file(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Take the model from the file of `--config` where no option names one."""
    del app, commands
    model, files = arguments["--model"], arguments["--config"].tokens
    if files and not model.tokens and (name := read_values(Path(files[0].value)).get("model")):
        model.append(Token(keyword="--model", value=name))


app = application(run_evals, config=[_model_of_file])
