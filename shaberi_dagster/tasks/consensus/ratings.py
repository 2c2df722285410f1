"""Elo ratings as the original keeps them."""

from collections.abc import Iterable, Mapping, Sequence

from shaberi_dagster.tasks.consensus.parse import Verdict

INITIAL = 1200.0
K_HIGH = 32.0  # both orders of a pair agree
K_LOW = 16.0  # they do not, or one of them says nothing
_SCALE = 400.0  # points that stand for odds of ten to one (Elo, The Rating of Chessplayers, 1978)
_MOST_EXPONENT = 10.0  # odds beyond 10**10 are not told apart
_SWAPPED: dict[Verdict, Verdict] = {"first": "second", "second": "first"}
_SCORE: dict[Verdict, float] = {"first": 1.0, "tie": 0.5, "second": 0.0}

Game = tuple[int, int, Verdict, float]  # two players, who won, and the most a rating can change (K)


def expected_score(rating: float, opponent: float) -> float:
    """Predict a player's score against an opponent, 0 to 1."""
    exponent = (opponent - rating) / _SCALE
    return float(1.0 / (1.0 + 10.0 ** min(max(exponent, -_MOST_EXPONENT), _MOST_EXPONENT)))


def updated(first: float, second: float, verdict: Verdict, k: float) -> tuple[float, float]:
    """Both ratings after a game, each from the ratings before it."""
    score = _SCORE[verdict]
    return (
        first + k * (score - expected_score(first, second)),
        second + k * ((1.0 - score) - expected_score(second, first)),
    )


def ratings_after(players: Sequence[int], games: Iterable[Game]) -> dict[int, float]:
    """Everybody's rating after the games, one after the other: their order matters.

    Returns:
        Ratings by player, the best first; equals in the order in which they were given.
    """
    ratings = dict.fromkeys(players, INITIAL)
    for first, second, verdict, k in games:
        ratings[first], ratings[second] = updated(ratings[first], ratings[second], verdict, k)
    return dict(sorted(ratings.items(), key=lambda item: -item[1]))


def leader(ratings: Mapping[int, float]) -> int | None:
    """Find the player who is rated above all others; None if no one is alone at the top.

    Args:
        ratings: Ratings by player, the best first.
    """
    (best, rating), *others = ratings.items()
    return None if others and others[0][1] == rating else best


def combined(forward: Verdict | None, backward: Verdict | None) -> tuple[Verdict, float] | None:
    """Combine the verdicts on both orders of a pair into one, with how much it counts (K).

    Args:
        forward: The verdict when the first was shown first; None if it said nothing.
        backward: The verdict when the second was shown first, but of the same first and second.

    Returns:
        The same verdict twice counts in full. A winner against a tie or against nothing wins with half of it; two
        different winners are a tie with half of it. None if neither said anything.
    """
    verdicts = {verdict for verdict in (forward, backward) if verdict is not None}
    if not verdicts:
        return None
    if forward == backward:
        return verdicts.pop(), K_HIGH
    winners = verdicts - {"tie"}
    return (winners.pop() if len(winners) == 1 else "tie"), K_LOW


def swapped(verdict: Verdict | None) -> Verdict | None:
    """Turn the verdict on a pair that was shown the other way round."""
    return _SWAPPED.get(verdict, verdict) if verdict else None
