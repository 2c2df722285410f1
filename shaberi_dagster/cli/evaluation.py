"""Output of commands that evaluate: the plan, the scores, and failures."""

from shaberi_dagster.cli.command import FAILED_PARTS, FINE
from shaberi_dagster.cli.output import say, show, tell
from shaberi_dagster.deciding.audit_request import AuditRequest
from shaberi_dagster.defs.running import Evaluation
from shaberi_dagster.viewer.web.address import where_to_look


def show_plan(evaluation: Evaluation, audit: AuditRequest | None, *, as_json: bool) -> None:
    """Print what would be done, on stdout, and say on stderr what an audit adds, which cannot be counted before."""
    from shaberi_dagster.reports.operations import plan_result

    say(plan_result(evaluation.plan()), as_json=as_json)
    tell(*evaluation.remarks)
    if audit:
        tell(audit.in_plan)


def show_scores(evaluation: Evaluation, *, as_json: bool) -> None:
    """Print the scores of its runs, on stdout."""
    from shaberi_dagster.cli import view_scores

    warehouse = evaluation.workspace.settings.warehouse
    view_scores.show_scores(warehouse, evaluation.selection, "json" if as_json else "table")


def show_sweep(evaluation: Evaluation, *, as_json: bool) -> None:
    """Print the settings of a sweep side by side, on stdout."""
    from shaberi_dagster import api
    from shaberi_dagster.reports.declared import sweep

    lake = api.LakeReader(evaluation.workspace.settings.warehouse)
    selection = evaluation.selection
    show(sweep.sweep_result(lake.sweep(selection.models, selection.tags)), "json" if as_json else "table")


def say_where_to_look(evaluation: Evaluation, path: str, name: str, about: str) -> None:
    """Name on stderr the viewer's page of what was made, see `where_to_look`; nothing where no call was."""
    if evaluation.calls_made:
        tell(where_to_look(path, name, about))


def end(evaluation: Evaluation, *, complete: bool) -> int:
    """Return the exit code, and say on stderr why not all is complete: the last line of a command that ends so."""
    if complete:
        return FINE
    tell(evaluation.failures())
    return FAILED_PARTS
