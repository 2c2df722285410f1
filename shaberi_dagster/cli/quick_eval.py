"""`quick-eval`: whether several samples and a consensus of them beat a single answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from shaberi_dagster.cli.command import FINE, GATE_FAILED, INCONCLUSIVE, exit_code, with_plugins
from shaberi_dagster.cli.options import AsJson, Audit, OutputFile, Submit, application
from shaberi_dagster.cli.output import put, show, tell
from shaberi_dagster.reports import write
from shaberi_dagster.runs.option import FLAT, option
from shaberi_dagster.runs.presets import QuickRequest
from shaberi_dagster.runs.spec import USUAL_CALLS, CallOptions
from shaberi_dagster.util.errors import ConfigurationError

if TYPE_CHECKING:
    from shaberi_dagster.defs import running
    from shaberi_dagster.reports import gate


_OF_GATE = {"passed": FINE, "failed": GATE_FAILED, "inconclusive": INCONCLUSIVE}

EPILOG = with_plugins("""Examples:
  quick-eval --model gpt-4.1-mini --questions hub
  quick-eval --model gpt-4.1-mini --strategy elo --baseline main --json > elo.json
  quick-eval --model embedded/smollm2-135m --datasets gsm8k,arc --sample 2 --strategy standard,plurality
  quick-eval --model gpt-4.1-mini --ensemble gpt-4.1-mini,gemini-2.5-flash,gpt-5-mini

Samples that are stored, from this command or from `shaberi generate-cache`, are not asked for again: only consensus and
grading are left to do. Other settings are another run with a tag of its own.

Exit codes: 0 fine, 1 the gate found a regression, 2 usage or configuration error, 3 finished with failed parts, 4 the
gate is inconclusive, 130 interrupted; where several apply, the first of 130, 2, 1, 3, 4.""")


@FLAT
@dataclass(frozen=True, kw_only=True)
class GateOptions:
    """How a run is compared with its baseline."""

    gate: Annotated[
        Literal["paired", "fisher"], option("as the original", "paired by question; fisher as the original has it")
    ] = "paired"
    per_dataset: Annotated[
        bool, option("as the original", "With fisher: test each benchmark instead of all together")
    ] = False
    failures_count: Annotated[
        bool, option("how", "Failed calls count as wrong in the gate; else left out, up to 5 % of a side's questions")
    ] = False
    significance: Annotated[float, Field(gt=0, lt=1), option("advanced", "Level of the gate")] = 0.10


USUAL_GATE = GateOptions()


def quick_eval(
    *,
    request: QuickRequest,
    calls: CallOptions = USUAL_CALLS,
    baseline: Annotated[str | None, option("how", "Compare with it; worse is exit code 1, no telling 4")] = None,
    test: GateOptions = USUAL_GATE,
    audit: Audit = None,
    submit: Submit = False,
    dry_run: Annotated[bool, option("budget", "Show the calls that are needed; make none")] = False,
    notes: Annotated[bool, option("how", "Each benchmark, and how the numbers are made")] = False,
    as_json: AsJson = False,
    output: Annotated[OutputFile, option("how", "Also write the JSON document here")] = None,
    html: Annotated[
        OutputFile, option("how", "Also write report, gate, questions and some answers as one HTML file")
    ] = None,
) -> int:
    """Evaluate single answers and consensus strategies on samples that they share."""
    from shaberi_dagster.cli import evaluation
    from shaberi_dagster.deciding.audit_request import AuditRequest
    from shaberi_dagster.defs import operations, running
    from shaberi_dagster.lake import catalog
    from shaberi_dagster.reports import gate as gates

    if test.failures_count and baseline is None:
        raise ConfigurationError("--failures-count is of a gate: add --baseline NAME")
    asked = request.with_imported(fresh=calls.fresh).to_request()
    made = running.Evaluation([asked], calls, command="quick-eval", submit=submit)
    check = None
    if baseline is not None:  # that it is not there should be known before anything is paid for
        with catalog.open_catalog(made.workspace.settings.warehouse) as lake:
            gates.baseline_of(lake, baseline)
        check = partial(
            gates.check_regression,
            run_id=made.spec.run_id,
            baseline=baseline,
            strategies=asked.strategies or [],
            **vars(test),
        )
    audited = AuditRequest.of_runs(audit, made.specs, made.benchmarks)
    if dry_run:
        evaluation.show_plan(made, audited, as_json=as_json)
        return FINE
    status = made.run()
    if audited:
        operations.audit(audited, calls)
    verdict = _show(made, asked.strategies or [], status, check, output=output, html=html, notes=notes, as_json=as_json)
    evaluation.say_where_to_look(made, "/ensemble", "run", made.spec.run_id)
    of_run = evaluation.end(made, complete=status == "complete")
    return exit_code(of_run, _OF_GATE[verdict.result] if verdict else FINE)


def _show(
    made: "running.Evaluation",
    strategies: Sequence[str],
    status: str,
    check: "Callable[..., gate.GateReport] | None",
    *,
    output: Path | None,
    html: Path | None,
    notes: bool,
    as_json: bool,
) -> "gate.GateReport | None":
    """Print the report.

    Returns:
        What the gate found, if there is one.

    Raises:
        ConfigurationError: The gate cannot compare the run with its baseline; the report is printed without it.
    """
    from shaberi_dagster.lake import catalog
    from shaberi_dagster.reports import ensemble
    from shaberi_dagster.viewer import html as pages

    verdict, objection = None, None
    warehouse = made.workspace.settings.warehouse
    with catalog.open_catalog(warehouse) as lake:
        report = ensemble.read_report(
            lake, made.spec, made.benchmarks, strategies, status=status, calls_made=made.calls_made
        )
        if check is not None:
            try:
                verdict = check(lake)
            except ConfigurationError as error:
                objection = error
    document = ensemble.ensemble_result(report, verdict, notes=notes)
    if output is not None:
        put(write.as_json(document.data()), output)
    show(document, "json" if as_json else "table")
    if html is not None:
        tell(pages.write_file(html, warehouse, lambda source: pages.about_ensemble(source, report, verdict)))
    if objection:
        raise objection
    return verdict


app = application(quick_eval)
