import numpy as np
import pytest
from scipy import stats

from shaberi_dagster.statistics.calibration import (
    Pairs,
    calibrate,
    class_results,
    family_of,
    paired_p_values,
)
from shaberi_dagster.statistics.sequential import question_weights
from tests.sizes import size
from tests.statistics.test_sequential import BENCHMARKS, models

pytestmark = pytest.mark.unit

WEIGHTS = question_weights(BENCHMARKS)
N_MODELS = size(60, 80)
FAMILIES = [f"family{number % 10}" for number in range(N_MODELS)]


def calibrated(scores, families, error=0.01):
    rng = np.random.default_rng(1)
    return calibrate(scores, families, BENCHMARKS, WEIGHTS, margin=0.2, error=error, rng=rng)


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("meta-llama/Llama-3.1-8B", "llama"),
        ("meta-llama__Llama-3.1-8B", "llama"),
        ("ablation-12-x", "ablation"),
        ("20240422", "20240422"),
        ("gpt-4.1", "gpt"),
    ],
)
def test_a_family_is_the_first_word_of_a_models_own_name(model, family):
    assert family_of(model) == family


def test_on_one_benchmark_the_test_is_the_paired_t_test():
    a, b = models(2, seed=3)
    expected = stats.ttest_rel(a, b).pvalue

    assert paired_p_values((a - b)[None], ["x"] * 100) == pytest.approx([expected])


def test_a_pair_without_any_difference_is_undecided():
    assert paired_p_values(np.zeros((1, 100)), BENCHMARKS).tolist() == [1.0]


def test_wrong_is_another_order_or_equality_of_what_is_further_apart_than_the_margin():
    none = np.empty((4, 0))
    pairs = Pairs(none, none, np.array([0.5, -0.1, 0.1, -0.3]), np.zeros(4, dtype=np.intp))

    assert pairs.wrong(np.array([1, 1, 0, 0]), 0.2).tolist() == [False, True, False, True]


def test_results_are_by_class():
    results = class_results(
        np.array([0, 0, 2]), np.array([24, 40, 100]), np.array([1, -1, 0]), np.array([False, True, False])
    )

    assert [(one.name, one.n_pairs) for one in results] == [("p<0.001", 2), ("p0.001-0.05", 0), ("p>0.05", 1)]
    assert (results[0].mean_questions, results[0].share_wrong, results[2].share_equal) == (32, 0.5, 1)
    assert results[1].mean_questions is None


@pytest.mark.acceptance
def test_a_history_is_calibrated_within_the_limits():
    calibration = calibrated(models(N_MODELS), FAMILIES)

    assert calibration.holds
    clear, middle, undecided = (one.share_wrong or 0 for one in calibration.classes)
    assert clear <= 0.005
    assert middle <= 0.005
    assert undecided <= 0.025
    assert calibration.mean_questions < 100
    assert (calibration.n_models, calibration.n_families) == (N_MODELS, 10)


@pytest.mark.acceptance
def test_less_error_takes_more_questions():
    strict, loose = (calibrated(models(N_MODELS, noise=2.0), FAMILIES, error=error) for error in (0.005, 0.1))

    assert strict.mean_questions > loose.mean_questions


@pytest.mark.acceptance
def test_where_the_limits_cannot_be_kept_there_is_no_constant():
    rng = np.random.default_rng(1)
    scores = np.repeat(rng.uniform(5, 7, (N_MODELS, 1)), 100, axis=1) + rng.normal(0, 0.001, (N_MODELS, 100))
    disasters = rng.random((N_MODELS, 100)) < 0.02 * (np.arange(N_MODELS) % 3)[:, None]
    scores[disasters] -= 50  # of which the questions before say nothing

    calibration = calibrated(scores, FAMILIES)

    assert not calibration.holds
    assert calibration.constant is None


@pytest.mark.parametrize(("n_models", "n_families"), [(59, 10), (80, 5)])
def test_with_little_history_nothing_is_calibrated(n_models, n_families):
    assert calibrated(models(n_models), [f"f{number % n_families}" for number in range(n_models)]) is None
