"""Checks of the Dagster side: the workers that answer, and the instance."""

from collections.abc import Iterator

from shaberi_dagster.defs.execution import close_dead_runs, open_instance
from shaberi_dagster.reports.operations import CheckResult
from shaberi_dagster.settings import Settings, broker_url, database_label
from shaberi_dagster.util.errors import ConfigurationError


def examine_workers() -> Iterator[CheckResult]:
    """List the workers that answer, if a broker is named."""
    url = broker_url()
    if url is None:
        return
    from shaberi_dagster.defs import submission  # it needs the extra of clusters

    try:
        names = sorted(submission.ask_workers("ping"))
    except Exception as error:  # noqa: BLE001  (each transport has its own errors)
        yield CheckResult("workers", False, f"{database_label(url)} cannot be reached: {' '.join(str(error).split())}")
        return
    detail = f"{len(names)} answer through {database_label(url)}: {', '.join(names)}"
    none = f"none answers through {database_label(url)}: start one with `shaberi cluster worker`"
    yield CheckResult("workers", bool(names), detail if names else none)


def examine_instance(settings: Settings) -> CheckResult:
    """Open the instance, and close its runs of dead processes."""
    try:
        opened = open_instance(settings.dagster_home)
    except ConfigurationError as error:
        return CheckResult("Dagster instance", fine=False, detail=str(error))
    with opened as instance:
        closed = close_dead_runs(instance)
        storage = type(instance.run_storage).__name__.removesuffix("RunStorage")
    return CheckResult(
        "Dagster instance", fine=True, detail=f"{settings.dagster_home} ({storage}), {len(closed)} dead runs closed"
    )
