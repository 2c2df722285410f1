"""Lakes as older programs left them."""

import shutil

from deltalake import write_deltalake

from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.lake.upgrades import FORMAT_NAME, LOCKS_FOLDER

_SINCE_2 = {"runs": "created_by", "judgements": "superseded_at"}


def as_format_1(lake: Lake) -> Lake:
    """Make the lake what it would be if it had been written before there was a format.

    Returns:
        It, for reading.
    """
    for table, column in _SINCE_2.items():
        if lake.exists(table):
            rows = lake.read(table).drop(column)
            shutil.rmtree(lake.path(table))
            write_deltalake(lake.path(table), rows.to_arrow(), partition_by=list(TABLES[table].partition_by) or None)
    shutil.rmtree(lake.path("prompts"), ignore_errors=True)
    shutil.rmtree(lake.folder / LOCKS_FOLDER, ignore_errors=True)
    for name in (FORMAT_NAME, "catalog.duckdb"):
        (lake.folder / name).unlink(missing_ok=True)
    return Lake(lake.folder)
