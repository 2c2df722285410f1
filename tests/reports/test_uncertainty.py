from functools import cache
from itertools import product

import numpy as np
import polars as pl
import pytest
from statsmodels.stats.contingency_tables import mcnemar

from shaberi_dagster.reports.blocks import interval_of
from shaberi_dagster.reports.rows import JudgeScores
from shaberi_dagster.reports.ties import ties_between
from shaberi_dagster.statistics import comparison
from shaberi_dagster.statistics.comparison import compare
from shaberi_dagster.statistics.missing import unequal_missing
from tests.sizes import size, some

LENIENCY = (-2.0, 0.0, 0.5, 1.0, -0.5, 0.8)
SHARES = (0.0, 0.1, 0.2, 0.35, 0.4)
JUDGE_COUNTS = range(2, 7)


def judged(random, n, n_judges, shift=0.0):
    """What judges of different leniency give two models that are equal, or of which the first is better.

    Returns:
        models x questions x judges, and how well each model answered each question: judges agree on that.
    """
    answered = 0.9 * random.normal(size=(2, n))
    shown = 7 + 1.2 * random.normal(size=n) + answered + np.array([[shift], [0.0]])
    given = shown[:, :, None] + np.array(LENIENCY[:n_judges]) + 0.6 * random.normal(size=(2, n, n_judges))
    return np.clip(np.round(given), 1, 10), answered


def against(scores):
    """How the second of two lines by mean is beside the first; NaN is a missing score."""
    runs = [
        [
            JudgeScores("b", str(judge), range(len(own)), np.where(np.isnan(own), None, own).tolist())
            for judge, own in enumerate(model.T)
        ]
        for model in scores
    ]
    ties = ties_between(np.nanmean(scores, axis=(1, 2)), runs)
    (tie,) = (tie for tie in ties.values() if tie["against_best"] != "best")
    return tie


def lost_at_random(random, shape, share, sides, judges):
    """Which scores are missing: of one side or both, by the harsh judge or any, or all of an answer."""
    lost = random.random(shape) < share
    if judges == "whole answers":
        lost = np.repeat(lost[:, :, :1], shape[2], axis=2)
    elif judges == "the harsh judge":
        lost[:, :, 1:] = False
    if sides == "one":
        lost[1] = False
    return lost


def verdicts(seed, repeats, n_judges, loses, *, n=100, shift=0.0):
    """The shares of `below` and of `withheld`; intervals, which no verdict depends on, take half of the time."""
    random = np.random.default_rng(seed)
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "sign_flip_intervals", lambda _, confidences, *__: [None] * len(confidences))
        for _ in range(repeats):
            scores, answered = judged(random, n, n_judges, shift)
            scores[loses(random, scores.shape, answered)] = np.nan
            found.append(against(scores)["against_best"])
    return found.count("below") / repeats, found.count("withheld") / repeats


@cache
def shares_below(repeats, sides, judges, share):
    """The shares of `below` among equal models with two to six judges, of whose scores such a share is missing."""

    def loses(random, shape, _):
        return lost_at_random(random, shape, share, sides, judges)

    first = SHARES.index(share) * len(JUDGE_COUNTS)
    return [verdicts(seed, repeats, n_judges, loses)[0] for seed, n_judges in enumerate(JUDGE_COUNTS, first)]


@pytest.mark.unit
def test_a_harsh_judge_that_is_missing_on_one_side_puts_no_equal_model_below():
    random = np.random.default_rng(4)
    scores, _ = judged(random, 60, 3)
    scores[1] = scores[0]
    scores[1, ::9, 0] = np.nan  # 7 of 60: as many may be missing by chance
    tie = against(scores)
    assert (tie["against_best"], tie["difference"], tie["n_common_questions"]) == ("tied", 0.0, 60)
    assert abs(tie["difference_of_means"]) > 0.05


@pytest.mark.unit
def test_where_more_is_missing_on_one_side_there_is_no_verdict_and_it_says_why():
    random = np.random.default_rng(4)
    scores, _ = judged(random, 100, 2, shift=0.7)
    assert against(scores)["against_best"] == "below"
    scores[0, :20, 1] = np.nan
    tie = against(scores)
    assert tie["against_best"] == "withheld"
    assert tie["why_withheld"].startswith("0.0 % of its and 10.0 % of the best's scores are missing (p < 0.01)")


@pytest.mark.unit
def test_a_difference_that_no_missing_score_could_change_has_a_verdict():
    random = np.random.default_rng(4)
    scores, _ = judged(random, 100, 1, shift=4.0)
    scores[0, :9] = np.nan
    assert against(scores)["against_best"] == "below"


@pytest.mark.unit
def test_the_best_is_the_line_that_none_is_shown_to_be_better_than():
    """A line has the highest mean as the harsh judge is missing: on what both have the other one is better."""
    random = np.random.default_rng(5)
    scores, _ = judged(random, 200, 2, shift=0.4)
    scores[1, :100, 0] = np.nan
    scores[0, 100:, 1] = np.nan  # as many on either side
    tie = against(scores)
    means = np.nanmean(scores, axis=(1, 2))
    assert means[1] > means[0]
    assert (tie["against_best"], tie["difference"] < 0, tie["difference_of_means"] > 0) == ("below", True, True)


@pytest.mark.unit
@pytest.mark.parametrize("seed", range(30))
def test_two_lines_get_the_verdict_that_they_get_as_a_pair(seed):
    """Around the border the t test of many lines and the sign-flip test of a pair would say different things."""
    random = np.random.default_rng(seed)
    scores, _ = judged(random, 12, 1, shift=0.9)
    a, b = sorted(scores[:, :, 0], key=lambda own: -own.mean())
    (row,) = compare(pl.DataFrame({"benchmark": "b", "score_a": b, "score_b": a})).rows

    tie = against(np.stack([a, b])[:, :, None])

    assert tie["against_best"] == ("below" if row.verdict == "worse" else "tied")
    assert (tie["p_value"], tie["difference"], interval_of(tie, "difference_")) == (
        row.p_value,
        row.difference,
        row.interval,
    )


@pytest.mark.unit
@pytest.mark.parametrize(("only_a", "only_b", "both"), [*product((0, 3, 9, 14), (0, 4, 12), (0, 5))])
def test_with_one_judge_missing_scores_are_tested_as_mcnemar_does(only_a, only_b, both):
    missing_a = [1.0] * only_a + [0.0] * only_b + [1.0] * both
    missing_b = [0.0] * only_a + [1.0] * only_b + [1.0] * both
    p = mcnemar([[both, only_a], [only_b, 20]], exact=True).pvalue
    assert bool(unequal_missing(missing_a, missing_b, n_scores=50, sides=("A's", "B's"))) == (p < 0.01)


@pytest.mark.unit
def test_answers_that_failed_count_once_however_many_judges_lack_them():
    """Six judges lack the same three answers: three questions show nothing."""
    assert unequal_missing([6.0] * 3, [0.0] * 3, n_scores=600, sides=("A's", "B's")) == ""


def longest_lost(n_lost):
    """As many of one side's answers lose their scores: the longest, which are the better ones."""

    def loses(random, shape, answered):
        lost = np.zeros(shape, dtype=bool)
        lost[0, np.argsort(answered[0] + random.normal(size=shape[1]))[-n_lost:]] = True
        return lost

    return loses


@pytest.mark.unit
def test_two_missing_scores_of_one_side_withhold_only_what_a_bad_score_could_change():
    found = {
        shift: [verdicts(seed, 1, 1, longest_lost(2), n=40, shift=shift)[1] for seed in range(20)] for shift in (0.4, 3)
    }
    assert sum(found[0.4]) > 0
    assert sum(found[3]) == 0


@pytest.mark.acceptance
@pytest.mark.parametrize("n_judges", [1, 4])
@pytest.mark.parametrize(("n", "n_lost"), [(40, 2), (40, 3), (100, 3)])
def test_where_the_longest_few_answers_lose_their_scores_few_equal_models_are_below(n, n_lost, n_judges):
    repeats = size(60, 1500)
    assert verdicts(3, repeats, n_judges, longest_lost(n_lost), n=n)[0] <= 0.05 + (0 if repeats > 1000 else 0.05)


@pytest.mark.acceptance
def test_two_scores_that_one_side_lacks_by_chance_hide_a_true_difference_from_time_to_time():
    def loses(n_lost):
        return lambda _random, shape, _: np.arange(shape[1])[None, :, None] < np.array([n_lost, 0])[:, None, None]

    repeats = size(60, 1000)
    complete, lacking = (verdicts(2, repeats, 1, loses(n_lost), n=40, shift=0.62)[0] for n_lost in (0, 2))
    assert lacking > complete - 0.18 - 2 * np.sqrt(0.5 / repeats)


@pytest.mark.acceptance
@pytest.mark.parametrize("sides", ["one", "both"])
@pytest.mark.parametrize("judges", some(["the harsh judge", "all judges", "whole answers"], 2))
def test_of_equal_models_scores_that_are_missing_at_random_put_few_below(sides, judges):
    repeats = size(40, 600)
    wrong = [*shares_below(repeats, "one", "all judges", 0.0)]  # the same, whatever would be missing
    for share in SHARES[1:]:
        wrong += shares_below(repeats, sides, judges, share)
    assert np.mean(wrong) < 0.05 + 2 * np.sqrt(0.05 * 0.95 / repeats / len(wrong))
    assert max(wrong) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / repeats)


@pytest.mark.acceptance
@pytest.mark.parametrize("by", ["the harsh judge", "all judges"])
@pytest.mark.parametrize("n_judges", [1, 4])
@pytest.mark.parametrize("share", some([0.1, 0.2, 0.4], 2))
@pytest.mark.parametrize("n", some([40, 80, 100, 320], 2))
def test_where_long_answers_lose_their_scores_equal_models_get_no_verdict(n, share, n_judges, by):
    def loses(random, shape, answered):
        length = answered[0] + random.normal(size=shape[1])
        lost = np.zeros(shape, dtype=bool)
        lost[0, length >= np.quantile(length, 1 - share), : 1 if by == "the harsh judge" else None] = True
        return lost

    repeats = size(40, 600)
    wrong, withheld = verdicts(1, repeats, n_judges, loses, n=n)
    assert wrong <= size(0.1, 0.05), "of 40 evaluations 2 are expected, and more than 4 in one of 20 times"
    assert (
        withheld > 0.99 or n * share <= 8
    )  # fewer cannot be told from chance, but where a difference seems to be shown


@pytest.mark.acceptance
def test_a_true_difference_is_seen_as_often_as_the_scores_that_are_left_allow():
    """A judge that lacks a fifth on both sides costs next to nothing, a fifth of the answers what fewer questions do."""
    repeats = size(60, 1000)
    noise = 3 * np.sqrt(0.5 / repeats)

    def power(share, judges, n=100):
        return verdicts(2, repeats, 4, lambda random, shape, _: lost_at_random(random, shape, share, "both", judges), n=n, shift=0.4)[0]  # fmt: skip

    complete = power(0.0, "all judges")
    assert 0.7 < complete < 0.95
    assert power(0.2, "the harsh judge") > complete - 0.03 - noise
    assert power(0.2, "all judges") > complete - 0.08 - noise
    assert power(0.2, "whole answers") > power(0.0, "all judges", n=60) - noise
