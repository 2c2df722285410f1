"""All graders by name."""

import pytest

from shaberi_dagster.tasks.benchmarks.registry import ENSEMBLE_BENCHMARKS
from shaberi_dagster.tasks.judges.rules.registry import GRADERS

pytestmark = pytest.mark.unit


def test_each_grader_is_found_by_its_own_name():
    assert {name: grader.name for name, grader in GRADERS.items()} == {name: name for name in GRADERS}


def test_the_benchmarks_need_all_of_them_and_no_other():
    assert {one.grader for one in ENSEMBLE_BENCHMARKS.values()} == set(GRADERS)
