import numpy as np
import polars as pl
import pytest
from scipy import stats

from shaberi_dagster.statistics.comparison import compare
from shaberi_dagster.statistics.significance import holm, sign_flip_test
from tests.sizes import size

pytestmark = pytest.mark.unit


def frame(**benchmarks):
    """Of each benchmark the scores of A and of B."""
    return pl.concat(
        pl.DataFrame(
            {"benchmark": [name] * len(a), "score_a": a, "score_b": b},
            schema={"benchmark": pl.String, "score_a": pl.Float64, "score_b": pl.Float64},
        )
        for name, (a, b) in benchmarks.items()
    )


def scores(seed, n, shift=0.0):
    generator = np.random.default_rng(seed)
    first = generator.integers(2, 9, n).astype(float)
    return (first + shift + generator.integers(-1, 2, n)).tolist(), first.tolist()


def test_a_benchmark_is_compared_by_the_paired_differences():
    a, b = scores(1, 40)
    (row,) = compare(frame(tengu=(a, b))).rows
    reference = stats.ttest_rel(a, b).confidence_interval()

    assert (row.n, row.mean_a, row.mean_b) == (40, pytest.approx(np.mean(a)), pytest.approx(np.mean(b)))
    assert row.difference == pytest.approx(np.mean(a) - np.mean(b))
    assert (row.interval.lower, row.interval.upper) == pytest.approx((reference.low, reference.high), abs=0.02)
    assert row.confidence == 0.95
    assert row.p_value == row.adjusted_p_value == sign_flip_test(np.subtract(a, b).tolist()).p_value
    assert row.verdict == "tied"
    assert 0 < row.minimum_detectable_effect < 1


@pytest.mark.parametrize(("shift", "verdict"), [(2, "better"), (-2, "worse"), (0, "tied")])
def test_the_verdict_is_about_a(shift, verdict):
    (row,) = compare(frame(tengu=scores(2, 40, shift))).rows
    assert row.verdict == verdict


def test_benchmarks_are_adjusted_together_and_overall_is_one_test_of_their_unweighted_mean():
    parts = {"tengu": scores(3, 30, 0.3), "elyza": scores(4, 60), "rakuda": scores(5, 10, -0.2)}
    comparison = compare(frame(**parts))

    assert [row.benchmark for row in comparison.benchmarks] == list(parts)
    assert [row.adjusted_p_value for row in comparison.benchmarks] == holm(
        [row.p_value for row in comparison.benchmarks]
    )
    overall = comparison.overall
    assert overall.n == 100
    assert overall.difference == pytest.approx(np.mean([row.difference for row in comparison.benchmarks]))
    about = [np.subtract(a, b) - overall.difference for a, b in parts.values()]
    variance = sum(np.mean(part**2) / len(part) for part in about) / 9
    assert overall.interval.upper - overall.interval.lower == pytest.approx(4 * np.sqrt(variance), rel=0.1)
    assert overall.adjusted_p_value == overall.p_value
    assert comparison.rows == (*comparison.benchmarks, overall)


def test_one_benchmark_has_no_overall():
    assert compare(frame(tengu=scores(6, 20))).overall is None


def test_questions_without_one_of_the_scores_do_not_count():
    (row,) = compare(frame(tengu=([1.0, 2.0, None, 4.0], [1.0, None, 3.0, 2.0]))).rows
    assert (row.n, row.mean_a, row.mean_b) == (2, 2.5, 1.5)


def test_without_a_common_question_there_is_nothing_to_compare():
    with pytest.raises(ValueError, match="no question"):
        compare(frame(tengu=([1.0, None], [None, 1.0])))


def test_a_few_questions_are_too_few_however_clear_they_are():
    (five,) = compare(frame(tengu=([9.0, 8.0, 9.0, 9.0, 8.0], [1.0] * 5))).rows
    (six,) = compare(frame(tengu=([9.0, 8.0, 9.0, 9.0, 8.0, 9.0], [1.0] * 6))).rows

    assert (five.verdict, six.verdict) == ("too few", "better")


def test_the_same_scores_are_tied_without_an_interval():
    (row,) = compare(frame(tengu=([5.0] * 10, [5.0] * 10))).rows
    assert (row.verdict, row.interval, row.minimum_detectable_effect, row.p_value) == ("tied", None, None, 1)


def test_one_question_has_a_difference_and_no_interval():
    first, _ = compare(frame(tengu=([5.0], [4.0]), elyza=scores(7, 20))).benchmarks
    assert (first.difference, first.interval, first.verdict) == (1, None, "too few")


def excludes_zero(interval):
    return interval is not None and not interval.lower <= 0 <= interval.upper


@pytest.mark.acceptance
@pytest.mark.parametrize("seed", range(size(15, 40)))
def test_zero_is_outside_the_interval_exactly_where_a_difference_is_shown(seed):
    generator = np.random.default_rng(seed)
    sizes, shifts = generator.integers(4, 40, 4), generator.choice([0.0, 0.2, 0.4], 4)
    names = ("elyza", "tengu", "mt_bench", "rakuda")
    parts = {name: scores([seed, n], int(n), shift) for name, n, shift in zip(names, sizes, shifts, strict=True)}

    for row in compare(frame(**parts)).rows:
        assert excludes_zero(row.interval) == (row.verdict in {"better", "worse"}), row


def test_of_several_benchmarks_the_intervals_are_as_wide_as_holms_adjustment_asks():
    parts = {"tengu": scores(1, 40, 2), "elyza": scores(2, 40), "rakuda": scores(3, 40)}
    tengu, elyza, _, overall = compare(frame(**parts)).rows

    assert (tengu.verdict, elyza.verdict) == ("better", "tied")
    assert (tengu.confidence, elyza.confidence, overall.confidence) == (0.975, 0.975, 0.95)


def test_scores_are_equal_only_if_a_difference_beyond_the_margin_is_refused():
    nearly = [5.0, 6.0] * 60, [5.0, 6.0] * 58 + [6.0, 5.0, 6.0, 5.0]
    (near,) = compare(frame(tengu=nearly), {"tengu": 0.2}).rows
    (unclear,) = compare(frame(tengu=scores(1, 20)), {"tengu": 0.2}).rows
    (unasked,) = compare(frame(tengu=nearly)).rows
    at_the_margin = [5.0, 6.0] * 60, [5.0, 5.6] * 60  # 0.2 on average
    above_and_below = [
        compare(frame(tengu=sides), {"tengu": 0.2}).rows[0].equal for sides in (at_the_margin, at_the_margin[::-1])
    ]

    assert above_and_below == [False, False]
    assert (near.verdict, near.equal, near.margin) == ("tied", True, 0.2)
    assert (unclear.verdict, unclear.equal) == ("tied", False)
    assert (unasked.equal, unasked.margin) == (False, None)


def test_questions_of_one_cluster_change_their_sign_together():
    a, b = scores(8, 60, 0.3)
    alone = frame(tengu=(a, b))
    together = alone.with_columns(cluster=pl.int_range(pl.len()) // 6)
    (one,), (other,) = compare(alone).rows, compare(together).rows

    sums = np.subtract(a, b).reshape(10, 6).sum(axis=1).tolist()
    assert other.p_value == sign_flip_test(sums).p_value != one.p_value
    assert other.n == 60
