"""Checks of what several machines share: the database, the store with its mirror, the workers."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from shaberi_dagster.errors import ShaberiError
from shaberi_dagster.journal.postgres import connect, query
from shaberi_dagster.lake.mirror import Mirror
from shaberi_dagster.reports.findings import CheckResult
from shaberi_dagster.settings import broker_url, database_label, database_url


def examine_database() -> Iterator[CheckResult]:
    """Check that the database answers, if one is named."""
    if url := database_url():
        try:
            with closing(connect(url)) as connection:
                ((version,),) = query(connection, "show server_version")
            yield CheckResult("database", True, f"PostgreSQL {version.split()[0]}, {database_label(url)}")
        except ShaberiError as error:
            yield CheckResult("database", False, str(error))


def examine_store(warehouse: Path) -> Iterator[CheckResult]:
    """Check that the store keeps writers apart, and measure its mirror, if the lake is on object storage."""
    mirror = Mirror.of(warehouse)
    if mirror is None:
        return
    try:
        mirror.check_conditions()
        yield CheckResult("store", True, f"{mirror.uri}, honours If-None-Match")
    except ShaberiError as error:
        yield CheckResult("store", False, str(error))
    sizes = [path.stat().st_size for path in warehouse.rglob("*") if path.is_file()]
    yield CheckResult("mirror", True, f"{warehouse}, {len(sizes):,} files, {sum(sizes) / 1e6:,.1f} MB")


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
