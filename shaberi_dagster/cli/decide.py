"""`shaberi decide`: which of some models is better, with as few questions as it takes."""

from datetime import UTC, datetime
from typing import Annotated

from shaberi_dagster.cli.command import FINE, INCONCLUSIVE
from shaberi_dagster.cli.options import AsJson, DryRun, OutputFormat
from shaberi_dagster.cli.output import show
from shaberi_dagster.deciding.request import USUAL_SETTINGS, DecisionRequest, DecisionSettings
from shaberi_dagster.reports.write import check_format
from shaberi_dagster.runs.option import option
from shaberi_dagster.runs.spec import USUAL_CALLS, CallOptions
from shaberi_dagster.settings import Settings

EPILOG = """Examples:
  shaberi decide my-model other-model --judge gpt-5.1
  shaberi decide gpt-4.1-mini gpt-4.1-nano gpt-5-mini --judge gpt-5.1 --benchmark tengu,elyza --max-cost 2
  shaberi decide gpt-5.1 --judge gpt-5.1 --sweep reasoning_effort=low,medium,high

It asks the most telling questions first, in rounds, until the models are told apart or are equal within the margin.
Stored scores are used. The answer is about these questions; `shaberi compare` is about similar questions.

Exit codes: 0 decided, 2 usage or configuration error, 4 not decidable with these questions, 130 interrupted (the same
command continues)."""


def decide(
    candidates: Annotated[
        list[str],
        option("what", "Two or more models (of --sweep one), or MODEL@@TAG for runs that are there", name="model"),
    ],
    /,
    *,
    settings: DecisionSettings = USUAL_SETTINGS,
    calls: CallOptions = USUAL_CALLS,
    dry_run: DryRun = False,
    output_format: OutputFormat = "table",
    as_json: AsJson = False,
) -> int:
    """Decide which model is better, with few questions."""
    from shaberi_dagster.deciding import decision, expected
    from shaberi_dagster.defs import operations
    from shaberi_dagster.reports import decision as shown
    from shaberi_dagster.runs.workspace import Workspace

    request = DecisionRequest(candidates=candidates, **settings.model_dump(exclude_unset=True))
    output_format = "json" if as_json else output_format
    check_format(output_format)
    if dry_run:
        workspace = Workspace(Settings.from_environment(), options=calls)
        prepared = decision.prepare(request, workspace)
        found = expected.expected(prepared, workspace, datetime.now(UTC))
        document = expected.expected_result(found, prepared.decision_id, prepared.boundary.name, prepared.n_history)
        show(document, output_format)
        return FINE

    report, full_evaluations = operations.decide(request, calls)
    show(shown.decision_result(report, full_evaluations, notes=False), output_format)
    return FINE if report["decision"]["state"] == "decided" else INCONCLUSIVE
