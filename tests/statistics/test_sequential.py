import numpy as np
import polars as pl
import pytest

from shaberi_dagster.statistics.sequential import (
    Anytime,
    History,
    Order,
    looks,
    mean_differences,
    question_weights,
)
from tests.sizes import size

pytestmark = pytest.mark.unit

BENCHMARKS = ["elyza"] * 40 + ["tengu"] * 60


def models(n, seed=0, benchmarks=BENCHMARKS, noise=1.0):
    """Scores of models of which some are better, and of questions of which some are alike."""
    rng = np.random.default_rng(seed)
    skills, loads = rng.normal(size=(n, 3)), np.random.default_rng(7).normal(size=(3, len(benchmarks)))
    loads[0] = 1.0
    return np.clip(np.round(6 + skills @ loads + noise * rng.normal(size=(n, len(benchmarks)))), 0, 10)


@pytest.fixture
def history():
    return History.of(models(80), question_weights(BENCHMARKS))


def in_order(n):
    return Order(np.arange(n), np.zeros(n, dtype=bool))


def test_benchmarks_count_alike_whatever_their_size():
    weights = question_weights(BENCHMARKS)

    assert weights[:40].sum() == pytest.approx(0.5)
    assert weights[40:].sum() == pytest.approx(0.5)


def test_a_mean_difference_is_over_the_questions_that_both_have():
    a, b = np.array([[1.0, np.nan, 5.0]]), np.array([[2.0, 3.0, 1.0]])

    assert mean_differences(a, b, np.array([0.25, 0.25, 0.5])) == pytest.approx([(0.25 * -1 + 0.5 * 4) / 0.75])


def test_the_first_look_is_after_16_questions_and_the_last_after_all():
    assert looks(320) == [*range(16, 128, 8), *range(128, 320, 16), 320]
    assert looks(16) == [16]
    assert looks(10) == [10]


def test_an_estimate_is_the_gaussian_conditional_mean_with_the_pairs_own_scale(history):
    a, b = models(2, seed=3)[:, None, :]
    order = history.order(np.random.default_rng(1))
    n = 24
    asked, left = order.questions[:n], order.questions[n:]
    differences = (a - b)[0]
    inverse = np.linalg.inv(history.covariance[np.ix_(asked, asked)])
    across = history.covariance[np.ix_(left, asked)]
    predicted = across @ inverse @ differences[asked]
    weights = history.weights
    rest = history.covariance[np.ix_(left, left)] - across @ inverse @ across.T
    scale = (differences[asked] @ inverse @ differences[asked] + 8 * 2) / (n + 8)

    curve = history.curve(a, b, order, [n])

    assert curve.estimates[0, 0] == pytest.approx(weights[asked] @ differences[asked] + weights[left] @ predicted)
    assert curve.spreads[0, 0] == pytest.approx(np.sqrt(scale * weights[left] @ rest @ weights[left]))


def test_a_pair_that_agrees_on_the_first_questions_is_not_taken_to_agree_on_all(history):
    order = history.order(np.random.default_rng(1))
    b = models(1, seed=3)
    a = b.copy()
    a[:, order.questions[:16]] += 0.01
    a[:, order.questions[16:]] -= 1.0

    early = history.curve(a, b, order, [16])

    assert early.estimates[0, 0] > 0
    assert not any(flags[0, 0] for flags in early.decided(3.0, 0.2))


def test_after_all_questions_the_estimate_is_the_difference_itself(history):
    a, b = models(40, seed=5)[:20], models(40, seed=6)[:20]
    a[3, 7] = b[4, 50] = np.nan

    curve = history.curve(a, b, history.order(np.random.default_rng(1)), [24, 100])

    assert curve.estimates[:, 1] == pytest.approx(mean_differences(a, b, history.weights))
    assert curve.spreads[:, 1] == pytest.approx(0)
    stops = curve.stops(1e9, margin=0.2)
    assert (stops.looks == 1).all()
    assert (stops.signs == np.where(np.abs(curve.estimates[:, 1]) <= 0.2, 0, np.sign(curve.estimates[:, 1]))).all()


def test_a_clear_pair_stops_early_and_an_equal_one_is_called_equal(history):
    order, at = history.order(np.random.default_rng(1)), looks(100)
    strong = models(1, seed=9)
    stops = history.curve(np.vstack([strong, strong]), np.vstack([strong - 3, strong]), order, at).stops(3.0, 0.2)

    assert [at[look] for look in stops.looks] == [16, 48]
    assert stops.signs.tolist() == [1, 0]


def test_the_order_has_every_question_once_and_is_rotated_by_the_seed(history):
    orders = [history.order(np.random.default_rng(seed)).questions for seed in (1, 1, 2)]

    assert sorted(orders[0]) == list(range(100))
    assert (orders[0] == orders[1]).all()
    assert (orders[0][:24] != orders[2][:24]).any()


def test_a_tenth_of_the_order_is_drawn_at_random(history):
    audits = [history.order(np.random.default_rng(seed)).audit.mean() for seed in range(30)]

    assert np.mean(audits) == pytest.approx(0.1, abs=0.02)


def test_the_order_tells_more_than_a_random_one(history):
    a, b = models(60, seed=11)[:30], models(60, seed=12)[:30]
    rng = np.random.default_rng(2)
    drawn = Order(rng.permutation(100), np.zeros(100, dtype=bool))

    chosen, plain = (history.curve(a, b, order, [24]).spreads.mean() for order in (history.order(rng), drawn))

    assert chosen < 0.9 * plain


def test_a_model_that_knows_the_chosen_questions_is_not_believed(history):
    order = history.order(np.random.default_rng(1))
    honest = models(1, seed=13)
    trained = honest.copy()
    trained[:, order.questions[~order.audit]] += 3  # but not those that are drawn at random

    curve = history.curve(trained, honest, order, [64])

    assert curve.estimates[0, 0] > 0
    assert not curve.believed[0, 0]
    assert not curve.decided(0.1, 0.2)[0][0, 0]


def test_a_score_that_is_missing_is_what_the_others_make_likely():
    scores = models(80)
    full = History.of(scores, question_weights(BENCHMARKS))
    scores[np.random.default_rng(1).random(scores.shape) < 0.02] = np.nan

    holed = History.of(scores, question_weights(BENCHMARKS))

    assert np.isfinite(holed.covariance).all()
    assert np.corrcoef(holed.covariance.ravel(), full.covariance.ravel())[0, 1] > 0.98


def test_a_history_of_noise_is_shrunk_to_its_diagonal():
    noise = np.random.default_rng(1).normal(size=(80, 100))
    covariance = History.of(noise, question_weights(BENCHMARKS)).covariance

    assert np.abs(covariance[~np.eye(100, dtype=bool)]).max() < 0.1


# --- the anytime-valid boundary ---------------------------------------------------------------------------------------


def capital_of_one_stake(values, mean, stake, until):
    """Waudby-Smith and Ramdas: the product over draws without replacement, for equal weights."""
    n, capital, greatest, spent = len(values), 1.0, 1.0, 0.0
    for index, value in enumerate(values[:until]):
        expected = (n * mean - spent) / (n - index)
        capital *= 1 + stake * (value - expected)
        greatest, spent = max(greatest, capital), spent + value
    return greatest


def test_with_equal_weights_the_capital_is_that_of_the_paper(monkeypatch):
    monkeypatch.setattr("shaberi_dagster.statistics.sequential._BETS", np.array([0.3]))
    values = np.random.default_rng(1).integers(-3, 4, 50).astype(float)
    anytime = Anytime(np.full(50, 1 / 50), 10.0, 0.01)

    logs = anytime.log_capital(values[None], in_order(50), -0.5, 1)

    assert max(logs[0, 29], 0) == pytest.approx(np.log(capital_of_one_stake(values, -0.5, 0.03, until=30)))


def populations(seed):
    """Differences of pairs over all questions: even, lopsided with rare disasters, right and wrong, of two kinds."""
    rng = np.random.default_rng(seed)
    disasters = np.where(rng.random(100) < 0.05, -9.0, 0.5)
    kinds = np.where(np.arange(100) < 40, rng.normal(2, 1, 100), rng.normal(-2, 3, 100))
    return [
        (rng.normal(0, 3, 100).clip(-10, 10), 10),
        (disasters, 10),
        (rng.integers(-1, 2, 100) * 1.0, 1),
        (kinds.clip(-10, 10), 10),
    ]


def share_ever_refuted(differences, weights, largest, *, n, seed, level=0.02):
    """How often bets against the truth win at any time, on one of the sides."""
    anytime, rng = Anytime(weights, largest, level), np.random.default_rng(seed)
    truth = float(mean_differences(differences[None], np.zeros((1, len(differences))), weights)[0])
    won = 0
    for _ in range(n):
        order = anytime.order(rng)
        won += any(
            anytime.log_capital(differences[None], order, truth, sign)[0, -1] >= -np.log(level / 2) for sign in (1, -1)
        )
    return won / n


@pytest.mark.acceptance
@pytest.mark.parametrize("kind", range(4))
def test_the_level_is_held_however_often_one_looks(kind):
    differences, largest = populations(1)[kind]
    n = size(1000, 10_000)

    share = share_ever_refuted(differences, question_weights(BENCHMARKS), largest, n=n, seed=kind)

    assert share <= 0.02 + 2.6 * np.sqrt(0.02 * 0.98 / n)


@pytest.mark.corpus
@pytest.mark.acceptance
def test_the_level_is_held_for_real_scores(corpus):
    scores = pl.read_parquet(corpus / "history" / "scores.parquet").filter(judge="gpt-4.1-2025-04-14")
    table = scores.pivot(on="model", index=["benchmark", "question_id"], values="score").sort(
        "benchmark", "question_id"
    )
    matrix, rng = table.drop("benchmark", "question_id").to_numpy(), np.random.default_rng(3)
    weights = question_weights(table["benchmark"].to_list())
    shares = []
    for _ in range(size(20, 100)):
        a, b = rng.choice(matrix.shape[1], 2, replace=False)
        differences = (matrix[:, a] - matrix[:, b]).astype(float)
        shares.append(share_ever_refuted(differences, weights, 10.0, n=size(20, 100), seed=int(rng.integers(1 << 30))))

    n = len(shares) * size(20, 100)
    assert np.mean(shares) <= 0.02 + 2.6 * np.sqrt(0.02 * 0.98 / n)


def test_decisions_are_anytime_valid_and_right_in_the_end():
    weights, at = question_weights(BENCHMARKS), looks(100)
    anytime = Anytime(weights, 10.0, 0.01)
    a, b = models(40, seed=21), models(40, seed=22)
    b[:, 3] = np.nan
    truth = mean_differences(a, b, weights)

    stops = anytime.stops(a, b, anytime.order(np.random.default_rng(1)), at, 0.2)

    assert (stops.signs == np.where(np.abs(truth) <= 0.2, 0, np.sign(truth))).all()
    assert (np.asarray(at)[stops.looks] < 100).mean() > 0.3


def test_the_interval_narrows_to_the_difference():
    weights = question_weights(BENCHMARKS)
    anytime = Anytime(weights, 10.0, 0.05)
    differences = models(1, seed=31)[0] - models(1, seed=32)[0]
    truth = float(mean_differences(differences[None], np.zeros((1, 100)), weights)[0])
    order = anytime.order(np.random.default_rng(1))

    ends = [anytime.interval(differences, order, n) for n in (24, 64, 100)]

    assert all(lower <= truth <= upper for lower, upper in ends)
    widths = [upper - lower for lower, upper in ends]
    assert widths == sorted(widths, reverse=True)
    assert ends[-1] == pytest.approx((truth, truth))


def test_early_draws_come_from_all_benchmarks_alike():
    weights = question_weights(["a"] * 40 + ["b"] * 120)
    anytime, rng = Anytime(weights, 10.0, 0.01), np.random.default_rng(1)

    of_a = [(anytime.order(rng).questions[:20] < 40).mean() for _ in range(200)]

    assert np.mean(of_a) == pytest.approx(0.5, abs=0.05)


def test_questions_that_were_asked_in_vain_are_no_part_of_the_estimate(history):
    a, b = models(2, seed=3)[:, None, :]
    order = history.order(np.random.default_rng(1))
    vain = order.questions[np.array([5, 11, 40])]
    a[0, vain] = np.nan
    just_before_the_end = np.setdiff1d(np.arange(100), order.questions[-1:])

    estimate = history.curve(a, b, order, [99]).estimates[0, 0]

    truth = mean_differences(a[:, just_before_the_end], b[:, just_before_the_end], history.weights[just_before_the_end])
    assert estimate == pytest.approx(truth[0], abs=0.03)
