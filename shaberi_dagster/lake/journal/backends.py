"""The choice of a backend: files of one machine, or a database that several hosts share."""

from functools import cache
from pathlib import Path

from shaberi_dagster.lake.journal.base import Journals
from shaberi_dagster.lake.journal.files import FileJournals
from shaberi_dagster.lake.journal.postgres import lake_name
from shaberi_dagster.lake.journal.tables import DatabaseJournals
from shaberi_dagster.settings import database_url

_in_database = cache(DatabaseJournals)  # one of each process, since it has a connection


def journals_of(warehouse: Path) -> Journals:
    """Find the journals of the lake in a folder: in the database that the settings name, or else beside the lake."""
    url = database_url()
    return _in_database(url, lake_name(warehouse)) if url else FileJournals(warehouse)
