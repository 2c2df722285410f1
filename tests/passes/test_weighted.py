"""Precision and recall of a sample drawn by strata."""

import pytest

from shaberi_dagster.statistics.intervals import wilson_interval
from tests.passes.weighted import rates


def measured(*answers):
    """Rates of (faulty, found, weight)."""
    labels = [{"faulty": faulty, "found": found, "weight": weight} for faulty, found, weight in answers]
    return rates(labels, lambda label: label["faulty"], lambda label: label["found"])


def test_an_answer_counts_for_as_many_as_it_was_drawn_from():
    got = measured((True, True, 9), (False, True, 1), (True, False, 3), (False, False, 500))
    assert (got.answers, got.right, got.wrong, got.missed) == (4, 1, 1, 1)
    assert got.precision.value == pytest.approx(0.9)
    assert got.recall.value == pytest.approx(0.75)


def test_the_interval_of_equal_weights_is_that_of_the_counts():
    got = measured(*[(True, True, 7)] * 18, *[(False, True, 7)] * 2)
    assert got.precision.interval == wilson_interval(18, 20)


def test_unequal_weights_tell_less():
    equal = measured(*[(True, True, 2)] * 20).precision.interval
    unequal = measured(*[(True, True, 1)] * 10, *[(True, True, 9)] * 10).precision.interval
    assert unequal.lower < equal.lower < equal.upper == 1


def test_where_nothing_is_found_or_faulty_there_is_no_share():
    got = measured((False, False, 1))
    assert got.precision is None
    assert got.recall is None
