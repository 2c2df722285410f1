import numpy as np
import pytest
from scipy import stats

from shaberi_dagster.statistics.significance import holm
from shaberi_dagster.statistics.ties import tied_groups

pytestmark = pytest.mark.unit

QUESTIONS = ["elyza"] * 30 + ["tengu"] * 50


def runs(abilities, seed=1, noise=1.0):
    generator = np.random.default_rng(seed)
    difficulty = generator.normal(size=len(QUESTIONS))
    return (
        6 + np.array(abilities)[:, None] + difficulty + noise * generator.normal(size=(len(abilities), len(QUESTIONS)))
    )


def test_for_one_benchmark_a_pair_has_the_p_of_the_paired_t_test():
    scores = runs([0, 0.2, 0.4])[:, :30]
    pairs = [(0, 1), (0, 2), (1, 2)]
    expected = holm([stats.ttest_rel(scores[i], scores[j]).pvalue for i, j in pairs])

    ties = tied_groups(scores, QUESTIONS[:30])

    assert [ties.adjusted_p_values[i, j] for i, j in pairs] == pytest.approx(expected)
    assert ties.adjusted_p_values == pytest.approx(ties.adjusted_p_values.T, nan_ok=True)
    assert (ties.n_common == 30).all()


def test_over_benchmarks_it_is_welchs_test_of_the_mean_of_means():
    first, second = runs([0, 0.3])
    difference = first - second
    expected = stats.ttest_ind(difference[:30], -difference[30:], equal_var=False).pvalue

    assert tied_groups([first, second], QUESTIONS).adjusted_p_values[0, 1] == pytest.approx(expected)


def test_a_pair_is_compared_over_what_both_have():
    scores = runs([0, 1])
    scores[0, :5], scores[1, 40:] = np.nan, np.nan
    both = ~np.isnan(scores).any(axis=0)

    ties = tied_groups(scores, QUESTIONS)

    alone = tied_groups(scores[:, both], [name for name, there in zip(QUESTIONS, both, strict=True) if there])
    assert ties.n_common[0, 1] == 35
    assert ties.adjusted_p_values[0, 1] == pytest.approx(alone.adjusted_p_values[0, 1])


def test_groups_are_stretches_of_neighbours_of_which_no_two_differ():
    scores = runs([0, 3, 2.9, 1.5, 1.6], noise=0.7)

    ties = tied_groups(scores, QUESTIONS)

    assert [set(group) for group in ties.groups] == [{1, 2}, {3, 4}, {0}]
    assert ties.tied_with_best == (False, True, True, False, False)


def test_groups_overlap_where_the_middle_is_tied_with_both_sides():
    scores = runs([0.5, 0.25, 0.0], seed=14, noise=0.55)

    ties = tied_groups(scores, QUESTIONS)

    assert ties.groups == ((0, 1), (1, 2))
    assert ties.tied_with_best == (True, True, False)


def test_equal_runs_are_tied_and_a_constant_difference_is_not():
    scores = runs([0])[[0, 0, 0]]
    scores[2] += 1

    ties = tied_groups(scores, QUESTIONS)

    assert ties.adjusted_p_values[0, 1] == 1
    assert ties.groups == ((2,), (0, 1))


def test_runs_without_common_questions_are_not_shown_to_differ():
    scores = runs([0, 5])
    scores[0, :40], scores[1, 40:] = np.nan, np.nan

    ties = tied_groups(scores, QUESTIONS)

    assert np.isnan(ties.adjusted_p_values).all()
    assert ties.tied_with_best == (True, True)


def test_one_run_is_the_best():
    assert tied_groups(runs([0]), QUESTIONS).groups == ((0,),)


def test_of_equal_runs_rarely_one_is_said_to_differ():
    wrong = [len(tied_groups(runs([0] * 12, seed), QUESTIONS).groups) > 1 for seed in range(300)]
    assert np.mean(wrong) < 0.08
