"""`shaberi link`: a measured link between imported scores of a judge and its new ones."""

from datetime import UTC, datetime

from shaberi_dagster.cli.command import FINE, INCONCLUSIVE
from shaberi_dagster.cli.options import AsJson, DryRun, OutputFormat
from shaberi_dagster.cli.output import show
from shaberi_dagster.deciding.link_request import LinkRequest
from shaberi_dagster.reports.write import check_format
from shaberi_dagster.runs.spec import USUAL_CALLS, CallOptions
from shaberi_dagster.settings import Settings

EPILOG = """Examples:
  shaberi link --judge gpt-5.1 --source shisa --preset strict --dry-run
  shaberi links                                      all links that were measured

A random sample of stored answers is judged again by the same judge with the prompt set NAME. Where the interval of the
offset lies within the margin, old and new scores compare. The same command continues where it was stopped, and one with
more questions pays only for the rest.

Exit codes: 0 linked, 2 usage or configuration error, 4 not linked, 130 interrupted (the same command continues)."""


def link(
    *,
    request: LinkRequest,
    calls: CallOptions = USUAL_CALLS,
    dry_run: DryRun = False,
    output_format: OutputFormat = "table",
    as_json: AsJson = False,
) -> int:
    """Measure whether old and new scores of a judge compare."""
    from shaberi_dagster.deciding import link as linking
    from shaberi_dagster.deciding import link_plan
    from shaberi_dagster.defs import operations
    from shaberi_dagster.reports.declared import links
    from shaberi_dagster.runs.workspace import Workspace

    output_format = "json" if as_json else output_format
    check_format(output_format)
    if dry_run:
        workspace = Workspace(Settings.from_environment(), options=calls)
        plan = link_plan.link_plan(linking.prepare(request, workspace), workspace, datetime.now(UTC))
        show(plan, output_format)
        return FINE
    rows = operations.link(request, calls)
    show(links.LINK.result({"rows": rows}, ()), output_format)
    return FINE if rows[-1]["granted"] else INCONCLUSIVE
