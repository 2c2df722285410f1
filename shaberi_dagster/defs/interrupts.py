"""A run that is interrupted, by Ctrl-C or by Terminate, is a canceled run."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from shaberi_dagster.util.errors import is_interrupt

INTERRUPTS = (KeyboardInterrupt, dg.DagsterExecutionInterruptedError)
CANCELED = "interrupted; finished calls are in the journal"
LOCK_TAG = "shaberi/lock"
"""Tag of a command's runs, each of which has a lock as long as its process lives: the host."""


@contextmanager
def canceled_when_interrupted(context: dg.OpExecutionContext | dg.AssetExecutionContext) -> Iterator[None]:
    """Within this context Ctrl-C, `kill` and the end of the server cancel the Dagster run.

    Dagster itself takes only the UI's Terminate for a cancellation and calls all other interrupts failures, except
    of runs that go on on another worker when theirs ends: those are left to it.
    """
    try:
        yield
    except BaseException as error:
        if not is_interrupt(error):
            raise
        run = context.instance.get_run_by_id(context.run.run_id)
        if run and run.status == dg.DagsterRunStatus.STARTED and not _goes_on_elsewhere(run, context.instance):
            context.instance.report_run_canceling(run, CANCELED)
        if isinstance(error, INTERRUPTS):
            raise
        raise KeyboardInterrupt from None


def _goes_on_elsewhere(run: dg.DagsterRun, instance: dg.DagsterInstance) -> bool:
    """Return whether the daemon will give a run to another worker; one that a command makes has none."""
    return LOCK_TAG not in run.tags and instance.run_will_resume(run.run_id)
