"""Where the journals of a lake are: files of one machine, or a database that several hosts share."""

from functools import cache
from pathlib import Path

from shaberi_dagster.journal.base import Journals, News
from shaberi_dagster.journal.postgres import lake_name
from shaberi_dagster.settings import database_url

__all__ = ["Journals", "News", "journals_of"]


def journals_of(warehouse: Path) -> Journals:
    """The journals of the lake in a folder: in the database that the settings name, or else beside the lake."""
    if url := database_url():
        return _in_database(url, lake_name(warehouse))
    from shaberi_dagster.journal.files import FileJournals  # noqa: PLC0415  (each backend only where it is used)

    return FileJournals(warehouse)


@cache
def _in_database(url: str, lake: str) -> Journals:
    """One of each process, since it has a connection."""
    from shaberi_dagster.journal.tables import DatabaseJournals  # noqa: PLC0415

    return DatabaseJournals(url, lake)
