"""Publishing: the catalog and `results/` are derived from the lake once per command or Dagster run.

Stages only say which runs they change, and those that take long keep `manifest.json` true. Whoever began, the command
or the Dagster run, writes everything else at its end, however that comes. A process killed with -9 does not: the next
reader then writes the catalog, and the manifest says `running` until the next command for the run, or `shaberi export`.
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from shaberi_dagster.errors import is_interrupt
from shaberi_dagster.exchange.results.results_tree import export_runs, reason_of, write_manifest
from shaberi_dagster.lake.catalog import logged_versions, refresh_catalog
from shaberi_dagster.runs.workspace import Unpublished, Workspace

_of_the_outermost: ContextVar[Unpublished | None] = ContextVar("unpublished", default=None)
# What hinders a manifest hinders the run's other files too.
_TOLD_AT_THE_END = contextlib.suppress(Exception)


@contextlib.contextmanager
def published_at_the_end(workspace: Workspace) -> Iterator[None]:
    """Publish what changes within this context when it ends, also by an error or an interrupt.

    Within another such context, and in Dagster runs that are started in one, that is left to the outermost one.

    Args:
        workspace: As for `publish`.
    """
    if _of_the_outermost.get() is not None:
        yield
        return
    token = _of_the_outermost.set(workspace.unpublished)
    try:
        yield
    finally:
        _of_the_outermost.reset(token)
        publish(workspace)


def begin(run_id: str, workspace: Workspace) -> None:
    """Let the manifest of a run say that it is running, before its first change."""
    if run_id not in _unpublished(workspace):
        with _TOLD_AT_THE_END:
            _tell(run_id, workspace)


def changed(run_id: str, workspace: Workspace, *, tells: bool = True) -> None:
    """Have a run published at the end; if it `tells`, its manifest says at once how far it is."""
    told = _unpublished(workspace).setdefault(run_id, {})
    if not tells:
        return
    with _TOLD_AT_THE_END:
        now = workspace.lake.versions()
        if now != told:  # a stage that had nothing to do has changed nothing
            _tell(run_id, workspace)
            told.update(now)


def publish(workspace: Workspace) -> None:
    """Bring the catalog up to date, and the results of the runs that changed; what hinders it stops nobody.

    Nothing is done within `published_at_the_end`.

    Args:
        workspace: Where the lake and the results are, which runs changed, and whom to tell of what hinders it.
    """
    lake, folder, note = workspace.lake, workspace.settings.results, workspace.reporter.note
    if _of_the_outermost.get() is not None or not logged_versions(lake.folder):
        return
    try:
        refresh_catalog(lake)
    except Exception as error:
        if is_interrupt(error):
            raise
        note(f"the catalog of {lake.folder} could not be written: {reason_of(error)}; its next reader tries again")
    run_ids = sorted(workspace.unpublished)
    workspace.unpublished.clear()
    if not run_ids:
        return
    try:
        failed = export_runs(
            lake, folder, run_ids=run_ids, environment=workspace.environment, hindrances=(Exception,)
        ).failed
    except Exception as error:
        if is_interrupt(error):
            raise
        failed = {", ".join(run_ids): reason_of(error)}
    for run, reason in failed.items():
        note(f"the results of run {run} in {folder} could not be written: {reason}; `shaberi export` writes them")


def _unpublished(workspace: Workspace) -> Unpublished:
    outermost = _of_the_outermost.get()
    return workspace.unpublished if outermost is None else outermost


def _tell(run_id: str, workspace: Workspace) -> None:
    write_manifest(workspace.lake, run_id, workspace.settings.results, environment=workspace.environment)
