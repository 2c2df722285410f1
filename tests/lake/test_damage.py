"""The damaged file behind an error."""

from pathlib import Path

import pytest

from shaberi_dagster.lake.damage import damage_behind

pytestmark = pytest.mark.unit


def test_an_error_that_stands_behind_itself_ends_the_search(tmp_path: Path) -> None:
    first, second = ValueError("first"), OSError("second")
    first.__cause__, second.__context__ = second, first

    assert damage_behind(first, tmp_path) is None
