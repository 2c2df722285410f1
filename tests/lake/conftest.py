"""Fixtures of the tests of the lake."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.object_storage import Bucket, running_store


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with running_store(tmp_path / "store") as bucket:
        for name, value in bucket.environment.items():
            monkeypatch.setenv(name, value)
        yield bucket
