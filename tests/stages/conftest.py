"""What the tests of stages leave out."""

from collections.abc import Iterator

import pytest

from tests.example_runs import without_results


@pytest.fixture(autouse=True, scope="module")
def results_left_out() -> Iterator[None]:
    with without_results():
        yield
