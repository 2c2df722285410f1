import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from scipy import stats

from perf.simulation import Design, simulated
from shaberi_dagster.statistics.comparison import OVERALL
from shaberi_dagster.statistics.linking import (
    chance_granted,
    clustered_error,
    error_needed,
    offsets,
    planned_error,
)

MARGIN = 0.2
SPREADS = {"elyza": 0.45, "tengu": 0.46, "mt_bench": 0.62, "rakuda": 0.64}


@pytest.mark.unit
def test_the_standard_error_of_two_ways_of_clustering_is_that_of_statsmodels():
    generator = np.random.default_rng(3)
    models, questions = np.repeat(np.arange(6), 20), np.tile(np.arange(20), 6)
    values = generator.normal(size=120) + generator.normal(size=6)[models] + generator.normal(size=20)[questions]
    fitted = sm.OLS(values, np.ones(120))

    def variance(groups, corrected):
        settings = {"groups": groups, "use_correction": corrected}
        return fitted.fit(cov_type="cluster", cov_kwds=settings).cov_params()[0, 0]

    expected = variance(models, True) + variance(questions, False) - variance(np.arange(120), False)

    error, free = clustered_error((values - values.mean()) / 120, models, questions)
    assert error**2 == pytest.approx(expected)
    assert 5 < free < 24


@pytest.mark.unit
def test_the_interval_is_that_of_the_models_means_where_no_question_is_asked_twice():
    generator = np.random.default_rng(4)
    rows = [
        ("elyza", f"m{model}", f"q{model}-{n}", 5.0, 5.0 + generator.normal()) for model in range(7) for n in range(9)
    ]
    frame = pl.DataFrame(rows, ["benchmark", "model", "question_id", "old", "new"], orient="row")
    means = frame.group_by("model").agg(pl.mean("new") - 5)["new"]

    (found,) = offsets(frame)

    expected = stats.ttest_1samp(means, 0).confidence_interval()
    assert found.offset == pytest.approx(means.mean())
    assert (found.interval.lower, found.interval.upper) == pytest.approx((expected.low, expected.high))


@pytest.mark.unit
def test_overall_is_the_unweighted_mean_of_benchmarks_and_the_slope_is_the_main_axis():
    generator = np.random.default_rng(5)
    old = generator.normal(6, 2, 300)
    new = 1 + 0.8 * old + generator.normal(0, 0.1, 300)
    names = ["tengu"] * 200 + ["elyza"] * 100
    frame = pl.DataFrame({"benchmark": names, "old": old, "new": new}).with_row_index("question_id")
    frame = frame.with_columns(model=pl.format("m{}", pl.col("question_id") % 5))

    *of_benchmarks, overall = offsets(frame)

    assert overall.benchmark == OVERALL
    assert overall.offset == pytest.approx(np.mean([found.offset for found in of_benchmarks]))
    axis = np.linalg.svd(np.stack([old[:200], new[:200]], axis=1) - [old[:200].mean(), new[:200].mean()])[2][0]
    assert of_benchmarks[0].slope == pytest.approx(axis[1] / axis[0])
    assert overall.slope_interval.lower < 0.8 < overall.slope_interval.upper < 1


@pytest.mark.unit
def test_a_judge_that_repeats_itself_is_granted_and_one_model_never_is():
    rows = [("elyza", f"m{model}", f"q{n}", float(n), float(n)) for model in range(5) for n in range(9)]
    frame = pl.DataFrame(rows, ["benchmark", "model", "question_id", "old", "new"], orient="row")

    assert offsets(frame)[0].is_granted(MARGIN)
    assert offsets(frame)[0].share_equal == 1
    assert not offsets(frame.filter(model="m0"))[0].is_granted(MARGIN)


@pytest.mark.unit
@pytest.mark.parametrize("offset", [0.0, 0.1, 0.2])
def test_the_chance_is_how_often_the_interval_of_a_t_test_lies_within_the_margin(offset):
    values = np.random.default_rng(6).normal(offset, 0.1, (20_000, 6))
    reach = stats.t.ppf(0.975, 5) * stats.sem(values, axis=1)
    granted = np.mean(np.abs(values.mean(axis=1)) + reach < MARGIN)

    assert chance_granted(0.1 / np.sqrt(6), 6, MARGIN, offset) == pytest.approx(granted, abs=0.01)


@pytest.mark.unit
def test_the_error_needed_is_the_largest_that_is_enough():
    error = error_needed(5, MARGIN, 0.05)

    assert chance_granted(error, 5, MARGIN, 0.05) >= 0.8 > chance_granted(error * 1.01, 5, MARGIN, 0.05)
    assert error_needed(5, MARGIN, MARGIN) is None


@pytest.mark.unit
def test_the_planned_error_is_that_of_independent_differences():
    generator = np.random.default_rng(8)
    names, each = list(SPREADS), 25
    means = [np.mean([generator.normal(0, SPREADS[name], 6 * each).mean() for name in names]) for _ in range(2000)]

    assert planned_error(SPREADS, dict.fromkeys(names, each), 6) == pytest.approx(np.std(means), rel=0.06)


@pytest.mark.corpus
@pytest.mark.parametrize("offset", [0.0, 0.3])
def test_simulated_links_are_covered_granted_and_refused_as_promised(corpus, offset):
    history = pl.read_parquet(corpus / "history/scores.parquet").filter(judge="gpt-4.1-2025-04-14")
    generator = np.random.default_rng(7)
    found = [simulated(history, Design(offset, 8, 100), generator)[-1] for _ in range(150)]

    covered = np.mean([link.interval.lower <= offset <= link.interval.upper for link in found])
    granted = np.mean([link.is_granted(MARGIN) for link in found])
    assert 0.9 <= covered <= 0.99
    assert granted >= 0.8 if offset == 0 else granted <= 0.02
