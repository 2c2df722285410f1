"""Checks of what several machines share: the database, and the store with its mirror."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from shaberi_dagster.lake.journal.postgres import connect, query
from shaberi_dagster.lake.mirror import Mirror
from shaberi_dagster.reports.operations import CheckResult
from shaberi_dagster.settings import database_label, database_url
from shaberi_dagster.util.errors import ShaberiError


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
