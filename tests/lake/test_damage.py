"""Damaged files: how they are found, and the one behind an error."""

from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from shaberi_dagster.lake.damage import damage_behind, find_damage
from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.lake.writer import RowWriter


@pytest.mark.unit
def test_an_error_that_stands_behind_itself_ends_the_search(tmp_path: Path) -> None:
    first, second = ValueError("first"), OSError("second")
    first.__cause__, second.__context__ = second, first

    assert damage_behind(first, tmp_path) is None


def _rows(table: str) -> pl.DataFrame:
    """Two rows of a table, with a value where there must be one."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    values = {pl.String: "x" * 30, pl.Int64: 1, pl.Float64: 0.5, pl.Boolean: True, pl.Datetime: now}
    required = [column for column in TABLES[table].columns if column.required]
    return pl.DataFrame({column.name: [values[column.type.base_type()]] * 2 for column in required})


@pytest.mark.integration
@pytest.mark.parametrize("table", TABLES)
def test_one_flipped_bit_in_any_data_file_is_found(table: str, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    rows = _rows(table)
    lake.append(table, rows)  # by delta-rs
    with RowWriter(lake, table) as writer:  # by us
        for row in rows.to_dicts():
            writer.add(row)
        writer.commit()
    assert list(find_damage(lake.folder, thorough=True)) == []

    for name in lake.files(table):
        file = lake.folder / name
        whole = file.read_bytes()
        for place in range(0, len(whole), max(len(whole) // 12, 1)):
            changed = bytearray(whole)
            changed[place] ^= 1 << place % 8
            file.write_bytes(changed)
            assert [damage.file for damage in find_damage(lake.folder, thorough=True)] == [name]
        file.write_bytes(whole)
