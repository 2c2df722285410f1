"""Decisions between simulated candidates, like past models and unlike them: no verdict more is wrong than is allowed."""

from itertools import combinations

import numpy as np
import pytest

from shaberi_dagster.deciding.decision import Boundary, Contest
from shaberi_dagster.deciding.history import outside
from shaberi_dagster.statistics.calibration import calibrate, error_of_pair
from shaberi_dagster.statistics.sequential import Anytime, History, looks, mean_differences, question_weights
from tests.sizes import size

N_QUESTIONS, MARGIN, ERROR = 96, 0.2, 0.05
BENCHMARKS = ["a"] * 48 + ["b"] * 48
WEIGHTS = question_weights(BENCHMARKS)
DIFFICULTY = np.random.default_rng(3).normal(0, 1.2, N_QUESTIONS)
LOADS = np.random.default_rng(4).normal(0, 0.4, (3, N_QUESTIONS))


def candidates(rng, n, ability=None, spread=1.0, loads=LOADS):
    """Scores of models on the questions; without an ability each has its own."""
    abilities = rng.normal(0, 0.7, (n, 1)) if ability is None else np.full((n, 1), ability)
    effects = rng.normal(size=(n, 3)) @ loads + rng.normal(0, 0.8, (n, N_QUESTIONS))
    return np.clip(6 + abilities + DIFFICULTY + spread * effects, 0, 10).round(1)


@pytest.fixture(scope="module")
def past():
    return candidates(np.random.default_rng(1), 120)


@pytest.fixture(scope="module")
def boundaries(past):
    """By the number of candidates, what tells when a pair is decided; the replay takes a while."""
    made = {}

    def boundary(k, rng):
        error = error_of_pair(ERROR, k)
        if k not in made:
            families = [f"family {number % 12}" for number in range(len(past))]
            made[k] = calibrate(
                past, families, BENCHMARKS, WEIGHTS, margin=MARGIN, error=error, rng=np.random.default_rng(2)
            )
        history = History.of(past, WEIGHTS)
        assert made[k].holds
        return Boundary(WEIGHTS, MARGIN, history.order(rng), history, made[k], Anytime(WEIGHTS, 10.0, error))

    return boundary


def played(boundary, past, scores, seed):
    """A contest to its end, and whether one of its verdicts is contradicted by all questions."""
    contest = Contest(boundary, past, len(scores), seed)
    for n_asked in looks(N_QUESTIONS):
        contest.look(scores, n_asked)
        if contest.is_decided:
            break
    truth = {
        (a, b): float(mean_differences(scores[a], scores[b], WEIGHTS)) for a, b in combinations(range(len(scores)), 2)
    }
    wrong = [
        abs(truth[pair]) > MARGIN + 1e-9 if verdict == "equal" else (truth[pair] > 0) != (verdict == "A")
        for pair, verdict in contest.verdicts.items()
    ]
    return contest, any(wrong)


def results(boundaries, past, k, n, **kind):
    """Of so many contests, whether one of the verdicts is wrong, and the contests."""
    wrong, contests = [], []
    for seed in range(n):
        rng = np.random.default_rng([7, k, seed])
        contest, is_wrong = played(boundaries(k, rng), past, candidates(rng, k, **kind), seed)
        wrong.append(is_wrong)
        contests.append(contest)
    return wrong, contests


@pytest.mark.acceptance
@pytest.mark.parametrize("k", [2, 4, 8])
def test_of_equal_candidates_no_more_decisions_have_a_wrong_verdict_than_is_allowed(boundaries, past, k):
    n = size(48, 1600) // k
    wrong, _ = results(boundaries, past, k, n, ability=0.0)
    assert np.mean(wrong) <= ERROR + 2.6 * np.sqrt(ERROR * (1 - ERROR) / n)


@pytest.mark.acceptance
@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ({"ability": -3.0}, "lower scores"),
        ({"ability": 2.5}, "higher scores"),
        ({"ability": 0.0, "spread": 2.0}, "a wider spread"),
    ],
)
def test_candidates_outside_of_the_history_are_told_and_go_wrong_no_more_often(boundaries, past, k, kind, words):
    n = size(16, 400) // k
    wrong, contests = results(boundaries, past, k, n, **kind)
    told = [words in contest.beyond.get(number, ()) for contest in contests for number in range(k)]
    assert np.mean(told) > 0.7
    assert np.mean(wrong) <= ERROR + 2.6 * np.sqrt(ERROR * (1 - ERROR) / n)


@pytest.mark.unit
def test_candidates_like_the_history_are_rarely_outside(past):
    new = candidates(np.random.default_rng(9), 200)
    assert np.mean([bool(outside(past, scores)) for scores in new]) < 0.08
    assert outside(past, candidates(np.random.default_rng(9), 1, ability=0.0, loads=-6 * LOADS)[0])


def test_a_verdict_has_to_hold_without_what_a_rule_could_not_decide():
    rng = np.random.default_rng(7)
    bets = Anytime(WEIGHTS, 10.0, ERROR)
    boundary = Boundary(WEIGHTS, MARGIN, bets.order(rng), None, None, bets)
    scores = np.array([np.full(N_QUESTIONS, 10.0), np.full(N_QUESTIONS, 0.0)])
    undecided = scores.copy()
    undecided[1, ::2] = np.nan  # those that are decided are wrong as well
    same = undecided.copy()
    same[0] = np.where(np.isnan(same[1]), 10.0, 0.0)  # on those that are decided, both are wrong
    nothing = np.where(np.arange(2)[:, None] == 1, np.nan, scores)
    found = [
        Contest(boundary, None, 2, 7).look(known, N_QUESTIONS, decided)[0].verdict
        for known, decided in ((scores, scores), (scores, undecided), (np.nan_to_num(same), same), (scores, nothing))
    ]
    assert found == ["A", "A", "open", "open"]
