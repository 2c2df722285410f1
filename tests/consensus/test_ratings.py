import math
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shaberi_dagster.tasks.consensus.ratings import (
    K_HIGH,
    K_LOW,
    combined,
    expected_score,
    leader,
    ratings_after,
    swapped,
    updated,
)

pytestmark = pytest.mark.unit

RATING = st.floats(-1e6, 1e6)


def test_odds_beyond_ten_to_the_tenth_are_not_told_apart():
    assert expected_score(0, 4000) == expected_score(0, 400_000) == 1 / (1 + 10.0**10)
    assert expected_score(400_000, 0) == expected_score(4000, 0) == 1 / (1 + 10.0**-10)


@given(RATING, RATING)
def test_the_expected_scores_of_both_add_up_to_one(one, other):
    assert math.isclose(expected_score(one, other) + expected_score(other, one), 1.0, abs_tol=1e-12)


@given(RATING, RATING, st.sampled_from(["first", "second", "tie"]), st.sampled_from([K_HIGH, K_LOW]))
def test_a_game_moves_points_and_makes_none(one, other, verdict, k):
    after = updated(one, other, verdict, k)
    assert math.isclose(sum(after), one + other, abs_tol=1e-6)
    assert abs(after[0] - one) <= k + 1e-6


def test_both_ratings_change_from_what_they_were_before_the_game():
    first, second = updated(1300.0, 1200.0, "second", K_HIGH)
    expected = expected_score(1300.0, 1200.0)
    assert (first, second) == pytest.approx((1300.0 - 32 * expected, 1200.0 + 32 * expected), abs=1e-12)


def test_the_order_of_the_games_matters():
    games = [(a, b, "first", K_HIGH) for a, b in combinations(range(3), 2)]
    assert ratings_after(range(3), games) != ratings_after(range(3), reversed(games))


@pytest.mark.parametrize(
    ("forward", "backward", "result"),
    [
        (None, None, None),
        ("first", None, ("first", K_LOW)),
        (None, "second", ("second", K_LOW)),
        ("tie", None, ("tie", K_LOW)),
        (None, "tie", ("tie", K_LOW)),
        ("first", "first", ("first", K_HIGH)),
        ("second", "second", ("second", K_HIGH)),
        ("tie", "tie", ("tie", K_HIGH)),
        ("first", "tie", ("first", K_LOW)),
        ("tie", "first", ("first", K_LOW)),
        ("second", "tie", ("second", K_LOW)),
        ("tie", "second", ("second", K_LOW)),
        ("first", "second", ("tie", K_LOW)),
        ("second", "first", ("tie", K_LOW)),
    ],
)
def test_two_orders_of_a_pair_give_one_verdict(forward, backward, result):
    assert combined(forward, backward) == result


def test_showing_a_pair_the_other_way_round_swaps_its_verdict_and_nothing_else():
    for forward, backward in product(["first", "second", "tie", None], repeat=2):
        result, mirrored = combined(forward, backward), combined(swapped(forward), swapped(backward))
        assert mirrored == (result and (swapped(result[0]), result[1]))


@pytest.mark.parametrize(
    ("ratings", "first"),
    [({4: 1200.0}, 4), ({1: 1216.0, 0: 1184.0}, 1), ({0: 1208.0, 1: 1208.0, 2: 1184.0}, None)],
)
def test_only_who_is_alone_at_the_top_leads(ratings, first):
    assert leader(ratings) == first
