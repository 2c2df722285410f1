"""`quick-eval`: whether several samples and a consensus of them beat a single answer."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from shaberi_dagster.cli.command import (
    FAILED_PARTS,
    FINE,
    GATE_FAILED,
    INCONCLUSIVE,
    exit_code,
    with_plugins,
)
from shaberi_dagster.cli.options import AsJson, Audit, CommandOptions, OutputFile, Submit, application
from shaberi_dagster.cli.output import put, show, tell
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.runs.option import Option
from shaberi_dagster.runs.presets import QuickRequest
from shaberi_dagster.runs.spec import CallOptions, RunRequest
from shaberi_dagster.show.data import as_json

if TYPE_CHECKING:
    from shaberi_dagster.defs import running
    from shaberi_dagster.reports import gate


_OF_GATE = {"passed": FINE, "failed": GATE_FAILED, "inconclusive": INCONCLUSIVE}

_EPILOG = """\b
Examples:
  quick-eval --model gpt-4.1-mini --questions hub
  quick-eval --model gpt-4.1-mini --strategy elo --baseline main --json > elo.json

More examples:
  quick-eval --model embedded/smollm2-135m --datasets gsm8k,arc --sample 2 --strategy standard,plurality
  quick-eval --model my-model --base-url http://localhost:8000/v1 --judge-model none
  quick-eval --model gpt-4.1-mini --ensemble gpt-4.1-mini,gemini-2.5-flash,gpt-5-mini

Samples that are stored, from this command or from `shaberi generate-cache`, are not asked for again: only consensus and
grading are left to do. Other settings are another run with a tag of its own.

Exit codes: 0 fine, 1 the gate found a regression, 2 usage or configuration error, 3 finished with failed parts, 4 the
gate is inconclusive, 130 interrupted; where several apply, the first of 130, 2, 1, 3, 4."""


class QuickEval(CommandOptions):
    """Options of `quick-eval` beside the request: the regression gate, and the file of the report."""

    baseline: Annotated[
        str | None, Field(description="Compare with it; worse is exit code 1, no telling 4"), Option("how")
    ] = None
    gate: Annotated[
        Literal["paired", "fisher"],
        Field(description="paired by question; fisher as the original has it"),
        Option("as the original"),
    ] = "paired"
    per_dataset: Annotated[
        bool,
        Field(description="With fisher: test each benchmark instead of all together"),
        Option("as the original"),
    ] = False
    failures_count: Annotated[
        bool,
        Field(description="Failed calls count as wrong in the gate; else left out, up to 5 % of a side's questions"),
        Option("how"),
    ] = False
    significance: Annotated[float, Field(description="Level of the gate, above 0 and below 1"), Option("advanced")] = (
        0.10
    )
    audit: Audit = None
    submit: Submit = False
    dry_run: Annotated[bool, Field(description="Show the calls that are needed; make none"), Option("budget")] = False
    as_json: AsJson = False
    output: Annotated[OutputFile, Field(description="Also write the JSON document here"), Option("how")] = None
    html: Annotated[
        OutputFile,
        Field(description="Also write report, gate, questions and some answers as one HTML file"),
        Option("how"),
    ] = None


def quick_eval(request: QuickRequest, calls: CallOptions, how: QuickEval) -> int:
    """Evaluate single answers and consensus strategies on samples that they share."""
    from shaberi_dagster.cli import evaluation
    from shaberi_dagster.defs import operations, running
    from shaberi_dagster.lake import catalog
    from shaberi_dagster.reports import verdicts

    if not 0 < how.significance < 1:
        raise ConfigurationError(f"--significance must be above 0 and below 1, not {how.significance:g}")
    if how.failures_count and how.baseline is None:
        raise ConfigurationError("--failures-count is of a gate: add --baseline NAME")
    asked = request.with_imported(fresh=calls.fresh).to_request()
    made = running.Evaluation([asked], calls, command="quick-eval", submit=how.submit)
    if how.baseline is not None:  # that it is not there should be known before anything is paid for
        with catalog.open_catalog(made.workspace.settings.warehouse) as lake:
            verdicts.baseline_of(lake, how.baseline)
    audit = made.audit_of(how.audit)
    if how.dry_run:
        evaluation.show_plan(made, audit, as_json=how.as_json)
        return FINE
    status = made.run()
    if audit:
        operations.audit(audit, calls)
    verdict = _show(made, asked, status, how)
    evaluation.say_where_to_look(made, "/ensemble", "run", made.spec.run_id)
    if status != "complete":
        evaluation.say_what_failed(made)
    of_run = FINE if status == "complete" else FAILED_PARTS
    return exit_code(of_run, _OF_GATE[verdict.result] if verdict else FINE)


def _show(made: "running.Evaluation", request: RunRequest, status: str, how: QuickEval) -> "gate.GateReport | None":
    """Print the report.

    Returns:
        What the gate found, if there is one.

    Raises:
        ConfigurationError: The gate cannot compare the run with its baseline; the report is printed without it.
    """
    from shaberi_dagster.lake import catalog
    from shaberi_dagster.reports import ensemble, gate
    from shaberi_dagster.show import ensemble as shown
    from shaberi_dagster.viewer import html

    strategies, verdict, objection = request.strategies or [], None, None
    warehouse = made.workspace.settings.warehouse
    with catalog.open_catalog(warehouse) as lake:
        report = ensemble.read_report(
            lake, made.spec, made.benchmarks, strategies, status=status, calls_made=made.calls_made
        )
        if how.baseline is not None:
            try:
                verdict = gate.check_regression(
                    lake,
                    made.spec.run_id,
                    how.baseline,
                    gate=how.gate,
                    significance=how.significance,
                    per_dataset=how.per_dataset,
                    failures_count=how.failures_count,
                    strategies=strategies,
                )
            except ConfigurationError as error:
                objection = error
    document = shown.ensemble_result(report, verdict)
    if how.output is not None:
        put(as_json(document.data()), how.output)
    show(document, "json" if how.as_json else "table")
    if how.html is not None:
        tell(html.write_file(how.html, warehouse, lambda source: html.about_ensemble(source, report, verdict)))
    if objection:
        raise objection
    return verdict


app = application(quick_eval, with_plugins(_EPILOG))
