from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from shaberi_dagster.statistics import significance
from shaberi_dagster.statistics.significance import (
    fisher_lower_tail,
    holm,
    is_shown_by_sign_flips,
    mcnemar_exact,
    sign_flip_intervals,
    sign_flip_test,
)
from tests.statistics.published import mcnemar_corrected

pytestmark = pytest.mark.unit


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemars_exact_test_is_that_of_statsmodels(only_first, only_second):
    expected = mcnemar([[1, only_first], [only_second, 1]], exact=True).pvalue
    assert mcnemar_exact(only_first, only_second) == pytest.approx(expected)


def test_one_sided_mcnemar_is_a_binomial_tail():
    expected = stats.binomtest(3, 14, alternative="less").pvalue
    assert mcnemar_exact(3, 11, "less") == pytest.approx(expected)


def test_without_discordant_questions_nothing_is_shown():
    assert [mcnemar_exact(0, 0, alternative) for alternative in ("two-sided", "less")] == [1, 1]
    assert mcnemar_corrected(0, 0) == (0, 1)


def test_the_corrected_test_is_that_of_statsmodels():
    expected = mcnemar([[9, 10], [2, 8]], exact=False, correction=True)
    assert mcnemar_corrected(10, 2) == pytest.approx((expected.statistic, expected.pvalue))


def test_the_exact_test_of_sums_is_the_convolution_of_the_datasets_binomials():
    tables = [(1, 4), (3, 5), (0, 2)]
    distribution = [1.0]
    for pair in tables:
        distribution = np.convolve(distribution, stats.binom.pmf(np.arange(sum(pair) + 1), sum(pair), 0.5))

    assert mcnemar_exact(1 + 3 + 0, 4 + 5 + 2, "less") == pytest.approx(distribution[: 1 + 3 + 0 + 1].sum())


@given(*[st.integers(0, 40)] * 4)
def test_fishers_lower_tail_is_that_of_scipy(a, b, c, d):
    expected = stats.fisher_exact([[c, d], [a, b]], alternative="less").pvalue
    assert fisher_lower_tail(a, b, c, d) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_holms_adjustment_is_that_of_statsmodels(seed):
    # Two decimals, so that some are equal.
    p_values = (np.random.default_rng(seed).random(1 + 3 * seed) ** 3).round(2)
    assert holm(p_values.tolist()) == pytest.approx(multipletests(p_values, method="holm")[1].tolist())


def test_holm_of_nothing_is_nothing():
    assert holm([]) == []


def by_enumeration(differences, strata):
    sizes = {name: strata.count(name) for name in strata}
    shares = [value / sizes[name] for value, name in zip(differences, strata, strict=True)]
    sums = [
        sum(sign * share for sign, share in zip(signs, shares, strict=True))
        for signs in product((-1, 1), repeat=len(shares))
    ]
    observed = sum(shares)
    hits = [abs(one) >= abs(observed) - 1e-9 for one in sums]
    return sum(hits) / len(hits)


@given(
    st.lists(st.tuples(st.integers(-30, 30), st.sampled_from("abc")), min_size=1, max_size=9), st.sampled_from([1, 3])
)
def test_the_sign_flip_test_is_over_all_signs(pairs, parts):
    differences, strata = [value / parts for value, _ in pairs], [name for _, name in pairs]

    test = sign_flip_test(differences, strata)

    assert test.exact
    assert test.p_value == pytest.approx(by_enumeration(differences, strata))


def test_without_strata_the_sign_flip_test_of_zeros_and_ones_is_mcnemars():
    differences = [1.0] * 4 + [-1.0] * 13 + [0.0] * 50
    assert sign_flip_test(differences).p_value == pytest.approx(mcnemar_exact(4, 13))


def test_the_exact_test_is_scipys_with_as_many_permutations():
    differences = np.array([2.0, -1, 3, 0.5, 1, -0.5, 2, 4, 1, -2])
    expected = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    )
    assert sign_flip_test(differences.tolist()).p_value == pytest.approx(expected.pvalue)


def test_equal_scores_show_nothing():
    assert sign_flip_test([0.0, 0.0, 0.0]).p_value == 1


def test_differences_without_common_steps_are_tested_by_the_same_random_signs_each_time():
    differences = np.random.default_rng(1).normal(0.15, 1, 50).tolist()

    test = sign_flip_test(differences)

    assert not test.exact
    assert test == sign_flip_test(differences) == sign_flip_test([-one for one in reversed(differences)])
    expected = stats.ttest_1samp(differences, 0).pvalue
    assert test.p_value == pytest.approx(expected, abs=0.01)


def test_random_signs_never_say_that_something_is_impossible():
    differences = (5 + np.random.default_rng(2).random(100)).tolist()
    assert sign_flip_test(differences).p_value == 1e-5


def test_random_and_all_signs_agree():
    generator = np.random.default_rng(3)
    rounded = generator.normal(0.2, 1, 60).round(2)
    irrational = rounded + generator.normal(scale=1e-6, size=60)

    exact, sampled = sign_flip_test(rounded.tolist()), sign_flip_test(irrational.tolist())

    assert (exact.exact, sampled.exact) == (True, False)
    assert sampled.p_value == pytest.approx(exact.p_value, abs=0.01)


def test_false_positives_of_the_sign_flip_test_are_at_most_alpha():
    generator = np.random.default_rng(4)
    pairs = generator.choice(11, p=np.array([3, 2, 3, 1, 3, 3, 4, 4, 3, 9, 85]) / 120, size=(1500, 40, 2))

    positive = np.mean([sign_flip_test((pair[:, 0] - pair[:, 1]).tolist()).p_value <= 0.05 for pair in pairs])

    assert 0.025 < positive < 0.065


def test_mcnemar_and_fisher_keep_their_level():
    generator = np.random.default_rng(5)
    both = generator.random((1500, 30, 2)) < 0.7
    current, baseline = both[..., 0], both[..., 1]
    paired = [
        mcnemar_exact(int((a & ~b).sum()), int((b & ~a).sum()), "less") for a, b in zip(current, baseline, strict=True)
    ]
    unpaired = [
        fisher_lower_tail(int(b.sum()), int((~b).sum()), int(a.sum()), int((~a).sum()))
        for a, b in zip(current, baseline, strict=True)
    ]

    assert np.mean(np.array(paired) <= 0.1) < 0.11
    assert np.mean(np.array(unpaired) <= 0.1) < 0.11


@pytest.mark.parametrize("shift", [0.0, 0.05, 0.1, 0.2, 0.3, 1.0])
def test_hoeffdings_bound_shows_nothing_that_sign_flips_do_not_and_second_less_first_is_its_mirror(shift):
    differences, levels = np.random.default_rng(7).normal(shift, 1, 300).tolist(), (0.05, 0.01, 0.001)
    strata = ["few"] * 50 + ["many"] * 250
    p = sign_flip_test(differences, strata).p_value
    assert [is_shown_by_sign_flips(differences, level, strata) for level in levels] == [p <= level for level in levels]
    one, other = (sign_flip_intervals([side * d for d in differences], [0.95], strata)[0] for side in (1, -1))
    assert (one.lower, one.upper) == (-other.upper, -other.lower)


def test_many_times_its_error_is_shown_without_sign_patterns(monkeypatch):
    monkeypatch.setattr(significance, "sign_flip_test", None)
    assert is_shown_by_sign_flips([0.9, 1.1] * 40, 1e-6)
