import time
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from shaberi_dagster.statistics.intervals import Interval
from shaberi_dagster.statistics.significance import holm
from shaberi_dagster.statistics.ties import compare_pairs
from tests.sizes import size

pytestmark = pytest.mark.unit

QUESTIONS = ["elyza"] * 30 + ["tengu"] * 50


def runs(abilities, seed=1, noise=1.0):
    generator = np.random.default_rng(seed)
    difficulty = generator.normal(size=len(QUESTIONS))
    return (
        6 + np.array(abilities)[:, None] + difficulty + noise * generator.normal(size=(len(abilities), len(QUESTIONS)))
    )


def tied(scores, benchmarks=QUESTIONS):
    """The pairs of runs that one judge scored."""
    return compare_pairs(np.asarray(scores)[:, :, None], benchmarks)


def test_for_one_benchmark_a_pair_has_the_p_of_the_paired_t_test():
    scores = runs([0, 0.2, 0.4])[:, :30]
    pairs = [(0, 1), (0, 2), (1, 2)]
    expected = holm([stats.ttest_rel(scores[i], scores[j]).pvalue for i, j in pairs])

    ties = tied(scores, QUESTIONS[:30])

    assert [ties.adjusted_p_values[i, j] for i, j in pairs] == pytest.approx(expected)
    assert ties.adjusted_p_values == pytest.approx(ties.adjusted_p_values.T, nan_ok=True)
    assert (ties.n_common == 30).all()


def test_over_benchmarks_it_is_welchs_test_of_the_mean_of_means():
    first, second = runs([0, 0.3])
    difference = first - second
    expected = stats.ttest_ind(difference[:30], -difference[30:], equal_var=False).pvalue

    assert tied([first, second], QUESTIONS).adjusted_p_values[0, 1] == pytest.approx(expected)


def test_a_pair_is_compared_over_what_both_have():
    scores = runs([0, 1])
    scores[0, :5], scores[1, 40:] = np.nan, np.nan
    both = ~np.isnan(scores).any(axis=0)

    ties = tied(scores, QUESTIONS)

    alone = tied(scores[:, both], [name for name, there in zip(QUESTIONS, both, strict=True) if there])
    assert ties.n_common[0, 1] == 35
    assert ties.adjusted_p_values[0, 1] == pytest.approx(alone.adjusted_p_values[0, 1])


def test_equal_runs_are_tied_and_a_constant_difference_is_not():
    scores = runs([0])[[0, 0, 0]]
    scores[2] += 1

    ties = tied(scores, QUESTIONS)

    assert ties.adjusted_p_values[0, 1] == 1
    assert (ties.adjusted_p_values[2, :2] == 0).all()
    assert ties.interval(2, 0) == Interval(1.0, 1.0)


def test_runs_without_common_questions_are_not_shown_to_differ():
    scores = runs([0, 5])
    scores[0, :40], scores[1, 40:] = np.nan, np.nan

    ties = tied(scores, QUESTIONS)

    assert np.isnan(ties.adjusted_p_values).all()


def test_of_equal_runs_rarely_one_is_said_to_differ():
    wrong = [(tied(runs([0] * 12, seed)).adjusted_p_values <= 0.05).any() for seed in range(300)]
    assert np.mean(wrong) < 0.08


def test_on_each_question_only_the_judges_count_that_scored_both():
    generator = np.random.default_rng(3)
    scores = runs([0, 0.3, 0.5])[:, :, None] + np.array([-3.0, 0.0, 1.0]) + generator.normal(size=(3, 80, 3))
    scores[generator.random(scores.shape) < 0.3] = np.nan
    pairs = compare_pairs(scores, QUESTIONS)

    p_values = []
    for first, second in ((0, 1), (0, 2), (1, 2)):
        both = ~np.isnan(scores[first] + scores[second])
        shared = both.any(axis=1)
        own = [np.nanmean(np.where(both, scores[run], np.nan)[shared], axis=1) for run in (first, second)]
        difference, in_elyza = own[0] - own[1], np.arange(80)[shared] < 30
        test = stats.ttest_ind(difference[in_elyza], -difference[~in_elyza], equal_var=False)
        p_values.append(test.pvalue)
        expected = (difference[in_elyza].mean() + difference[~in_elyza].mean()) / 2
        assert pairs.differences[first, second] == pytest.approx(expected)
        assert pairs.n_common[first, second] == shared.sum()
        ends = np.array(test.confidence_interval(pairs.confidence)) / 2
        assert list(vars(pairs.interval(first, second)).values()) == pytest.approx(ends)
    assert pairs.adjusted_p_values[[0, 0, 1], [1, 2, 2]] == pytest.approx(holm(p_values))


@pytest.mark.parametrize("seed", range(20))
def test_zero_is_outside_of_an_interval_exactly_where_a_difference_is_shown(seed):
    pairs = tied(runs(np.linspace(0, 0.6, 7), seed))
    for first, second in combinations(range(7), 2):
        interval = pairs.interval(first, second)
        shown = pairs.adjusted_p_values[first, second] <= 0.05
        assert (interval.lower <= 0 <= interval.upper) == (not shown)


def test_complete_questions_and_single_ones_give_the_same():
    """A run without a judge on each question takes the other way through all of them."""
    scores = runs([0, 0.2, 0.4])[:, :, None] + np.random.default_rng(2).normal(size=(3, 80, 3))
    other = np.full((1, 80, 3), 5.0)
    other[:, :, 0] = np.nan
    alone, beside = compare_pairs(scores, QUESTIONS), compare_pairs(np.concatenate([scores, other]), QUESTIONS)
    assert beside.differences[:3, :3] == pytest.approx(alone.differences)
    assert beside.standard_errors[:3, :3] == pytest.approx(alone.standard_errors)


@pytest.mark.acceptance
def test_many_runs_with_missing_scores_are_compared_quickly():
    n_runs, benchmarks = size(60, 355), ["a"] * 100 + ["b"] * 120 + ["c"] * 60 + ["d"] * 40
    generator = np.random.default_rng(1)
    scores = np.round(6 + generator.normal(size=(n_runs, 320, 6)))
    scores[generator.random(scores.shape) < 0.2] = np.nan
    started = time.process_time()
    compare_pairs(scores, benchmarks)
    assert time.process_time() - started < 1.5
