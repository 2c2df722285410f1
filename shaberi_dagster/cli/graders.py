"""`shaberi graders`: the verdicts of rules by form, their audits, and what a person has to settle."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from shaberi_dagster.cli.command import FINE
from shaberi_dagster.cli.options import CommandOptions, OutputFormat
from shaberi_dagster.deciding.audit_request import AuditRequest
from shaberi_dagster.reports.declared.graders import DISAGREEMENTS, GRADERS
from shaberi_dagster.reports.requests import RunSelection
from shaberi_dagster.runs.option import Option
from shaberi_dagster.runs.spec import CallOptions
from shaberi_dagster.settings import Settings

EPILOG = (
    """Examples:

\b
  shaberi graders --model my-model --tag july
  shaberi graders audit 200 --judge-model gpt-5-mini --dry-run
  shaberi graders disagreements --format csv > settle.csv
  shaberi graders --settle settle.csv     its column person says right, wrong or no_answer

More examples:

\b
  shaberi graders                         all runs

"""
    + GRADERS.more
    + " What was audited is not paid for again; a larger N pays for the rest."
)


class GradersOptions(CommandOptions):
    """Options of `shaberi graders` beside the runs and the audit."""

    action: Annotated[
        Literal["audit", "disagreements"] | None,
        Field(
            description="audit: have N verdicts of rules, drawn at random, graded again by a model; "
            "disagreements: show where both differ, for a person to settle"
        ),
        Option("what", metavar="[audit|disagreements]", is_argument=True),
    ] = None
    settle: Annotated[
        Path | None, Field(description="Take what a person filled in from this CSV file"), Option("what")
    ] = None
    dry_run: Annotated[bool, Field(description="Show calls and dollars; ask nobody"), Option("budget")] = False
    output_format: OutputFormat = "table"


def graders(how: GradersOptions, request: AuditRequest, selection: RunSelection, calls: CallOptions) -> int:
    """Show which forms of answers the verdicts of rules rest on, and how often each form errs."""
    from shaberi_dagster import api
    from shaberi_dagster.cli import output
    from shaberi_dagster.deciding import audit
    from shaberi_dagster.defs import operations
    from shaberi_dagster.exchange import installation
    from shaberi_dagster.show import formats

    formats.check_format(how.output_format)
    settings = Settings.from_environment()
    if how.settle:
        output.tell(audit.settle(how.settle, installation.Installation(settings)))
    if how.dry_run:
        workspace = installation.Installation(settings, options=calls)
        output.show(audit.audit_plan(audit.prepare(request, workspace), datetime.now(UTC)), how.output_format)
        return FINE
    if how.action == "audit":
        operations.audit(request, calls)
    report = DISAGREEMENTS if how.action == "disagreements" else GRADERS
    output.show(api.LakeReader(settings.warehouse).read(report, selection), how.output_format)
    return FINE
