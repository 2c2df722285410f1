"""Fixtures of the tests of the lake."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from shaberi_dagster.lake.catalog import connect
from shaberi_dagster.lake.store import Lake
from tests.object_storage import Bucket, running_store


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with running_store(tmp_path / "store") as bucket:
        for name, value in bucket.environment.items():
            monkeypatch.setenv(name, value)
        yield bucket


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake without anything."""
    return Lake(tmp_path / "warehouse")


@pytest.fixture
def ask(lake: Lake) -> Callable[..., list[dict[str, Any]]]:
    """The rows of a statement over `lake`."""

    def asked(sql: str, **values: Any) -> list[dict[str, Any]]:
        with connect(lake) as connection:
            return pl.DataFrame(connection.sql(sql, params=values or None).to_arrow_table()).to_dicts()

    return asked
