"""The picture of the rooms in docs/architecture.md is the one that the imports draw."""

import pytest

from tests.architecture import picture


@pytest.mark.unit
def test_the_page_has_the_picture_of_today() -> None:
    assert picture.page() == picture.PAGE.read_text(encoding="utf-8"), "run python -m tests.architecture.picture"
