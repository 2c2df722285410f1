"""`shaberi graders`: the verdicts of rules by form, their audits, and what a person has to settle."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from shaberi_dagster.cli.options import OutputFormat
from shaberi_dagster.deciding.audit_request import ANY_AUDIT, AuditRequest
from shaberi_dagster.reports.declared.graders import DISAGREEMENTS, GRADERS
from shaberi_dagster.reports.requests import ALL_RUNS, RunSelection
from shaberi_dagster.runs.option import option
from shaberi_dagster.runs.spec import USUAL_CALLS, CallOptions
from shaberi_dagster.settings import Settings

EPILOG = (
    """Examples:
  shaberi graders --model my-model --tag july
  shaberi graders audit 200 --judge-model gpt-5-mini --dry-run
  shaberi graders disagreements --format csv > settle.csv
  shaberi graders --settle settle.csv     its column person says right, wrong or no_answer

"""
    + GRADERS.more
    + " What was audited is not paid for again; a larger N pays for the rest."
)


def graders(
    action: Annotated[
        Literal["audit", "disagreements"] | None,
        option(
            "what",
            "audit: have N verdicts of rules, drawn at random, graded again by a model; "
            "disagreements: show where both differ, for a person to settle",
            metavar="[audit|disagreements]",
        ),
    ] = None,
    n: Annotated[int | None, Field(ge=1), option("what", "Of an audit: how many verdicts")] = None,
    /,
    *,
    request: AuditRequest = ANY_AUDIT,
    settle: Annotated[Path | None, option("what", "Take what a person filled in from this CSV file")] = None,
    dry_run: Annotated[bool, option("budget", "Show calls and dollars; make no calls")] = False,
    output_format: OutputFormat = "table",
    selection: RunSelection = ALL_RUNS,
    calls: CallOptions = USUAL_CALLS,
) -> None:
    """Show which forms of answers the verdicts of rules rest on, and how often each form errs."""
    from shaberi_dagster import api
    from shaberi_dagster.cli import output
    from shaberi_dagster.deciding import audit
    from shaberi_dagster.defs import operations
    from shaberi_dagster.reports import write
    from shaberi_dagster.runs.workspace import Workspace

    write.check_format(output_format)
    runs = {name: list(names) or None for name, names in vars(selection).items()}
    request = request.model_copy(update={"audit": n, **runs})
    settings = Settings.from_environment()
    if settle:
        output.tell(audit.settle(settle, Workspace(settings)))
    if dry_run:
        workspace = Workspace(settings, options=calls)
        output.show(audit.audit_plan(audit.prepare(request, workspace), datetime.now(UTC)), output_format)
        return
    if action == "audit":
        operations.audit(request, calls)
    report = DISAGREEMENTS if action == "disagreements" else GRADERS
    output.show(api.LakeReader(settings.warehouse).read(report, selection), output_format)
