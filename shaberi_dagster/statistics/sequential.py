"""Deciding between two models while questions are asked, and stopping as soon as they are told apart.

What is estimated is a finite thing: the difference A - B of the mean scores over all questions that both have a score
for, every benchmark with equal weight. There are two boundaries. `History` predicts the questions that are not asked
yet from those that are, by what past models say of the questions; it stops early, and how sure it is has to be
calibrated by replay (`calibration.py`). `Anytime` assumes nothing but the ends of the scale, asks at random, and holds
its level however often one looks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]

LEAST_ASKED = 16
"""Questions before the first look: with fewer the scale of a pair's differences is a guess."""
_USUAL_SCALE = 2.0
"""Variance of the difference of two models that have nothing to do with each other, in units of the history's."""
_USUAL_COUNTS = 8
"""Number of questions of a pair that the usual variance counts as: from a few its own may look much too small."""
AUDIT_SHARE = 0.1
"""Share of the questions that are drawn at random, whatever the history finds telling."""
_FAVOURED = 0.5
"""Each step chooses among this share of the open questions, drawn at random: the order is another with each seed at
little loss (stochastic greedy: Mirzasoleiman et al. 2015, AAAI)."""
_EQUAL_REACH = 1.5
"""Width, in intervals, of what has to be within the margin: most pairs that are wrongly called equal are just
outside of it, which the classes of the replay see too rarely to calibrate a constant of its own."""
_AUDIT_LIMIT = 3.3
"""Standard errors by which audit draws may speak against an estimate before it is not believed (p 0.001)."""
_BETS = np.geomspace(0.1, 1.5, 5)
"""Stakes in units of 1 / the largest difference: a mixture of them finds the one that a pair asks for."""
_LARGEST_STAKE = 0.9
"""Largest share of what could be lost: no bet may lose everything."""
_REFUTED = 50.0
"""Log capital against a mean that the questions left cannot reach any more."""
_TINY = 1e-12
_HALVINGS = 20  # of an interval's end
_RIDGE = 1e-3


def question_weights(benchmarks: Sequence[str]) -> Floats:
    """Weigh each question so that all benchmarks count alike; the sum is 1.

    Args:
        benchmarks: The benchmark of each question.
    """
    _, own, sizes = np.unique(np.asarray(benchmarks), return_inverse=True, return_counts=True)
    weights: Floats = 1.0 / (len(sizes) * sizes[own])
    return weights


def looks(n_questions: int) -> list[int]:
    """After how many questions one looks: each 8 until 128, each 16 after, and after the last one."""
    steps = [*range(LEAST_ASKED, 128, 8), *range(128, n_questions, 16)]
    return [step for step in steps if step < n_questions] + [n_questions]


def mean_differences(scores_a: Floats, scores_b: Floats, weights: Floats) -> Floats:
    """The weighted mean of A - B over the questions that both have.

    Args:
        scores_a: Shape (..., questions); NaN is no score.
        scores_b: Likewise.
        weights: Shape (questions,).

    Returns:
        Shape (...): NaN where they share no question.
    """
    differences = scores_a - scores_b
    shared = ~np.isnan(differences)
    with np.errstate(invalid="ignore"):
        means: Floats = (np.where(shared, differences, 0.0) @ weights) / (shared @ weights)
    return means


@dataclass(frozen=True)
class Order:
    """In which order questions are asked.

    Attributes:
        questions: Indices of all questions, the first one first.
        audit: Which places in the order were drawn at random.
    """

    questions: Indices
    audit: Flags


@dataclass(frozen=True)
class Stops:
    """Ends of pairs: where they stop, and with what.

    Attributes:
        looks: The index of the look, shape (pairs,).
        signs: 1: A is better, -1: B is, 0: they are equal within the margin, likewise.
    """

    looks: Indices
    signs: Indices


@dataclass(frozen=True)
class Curve:
    """Estimates and spreads of pairs at each look, by their history.

    Attributes:
        asked: Questions asked, shape (looks,).
        estimates: A - B over all questions, shape (pairs, looks).
        spreads: What an estimate may be off by for each unit of the boundary's constant, likewise; 0 once all
            questions are asked.
        believed: Whether the audit draws do not contradict the estimate, likewise.
    """

    asked: Indices
    estimates: Floats
    spreads: Floats
    believed: Flags

    def decided(self, constant: float, margin: float) -> tuple[Flags, Flags]:
        """At which looks the pairs are told apart, and at which they are equal within the margin.

        Args:
            constant: How many spreads the truth may be away.
            margin: Differences up to it are practically equal.

        Returns:
            Both of shape (pairs, looks); no pair is both at once.
        """
        reach = constant * self.spreads
        distances = np.abs(self.estimates)
        equal = self.believed & (distances + _EQUAL_REACH * reach <= margin)
        return self.believed & (distances > reach) & ~equal, equal

    def stops(self, constant: float, margin: float) -> Stops:
        """Find where each pair stops, at the latest when all questions are asked."""
        better, equal = self.decided(constant, margin)
        stopped = better | equal
        stopped[:, -1] = True
        at = np.argmax(stopped, axis=1)
        pairs = np.arange(len(at))
        signs = np.where(equal[pairs, at], 0, np.sign(self.estimates[pairs, at]))
        return Stops(at, signs.astype(np.intp))


@dataclass(frozen=True)
class History:
    """Knowledge of a judge's questions from past models.

    Attributes:
        means: Their mean scores, shape (questions,).
        covariance: Of the questions over the models, shrunk to its diagonal, shape (questions, questions).
        weights: What each question counts, shape (questions,).
    """

    means: Floats
    covariance: Floats
    weights: Floats

    @classmethod
    def of(cls, scores: Floats, weights: Floats) -> "History":
        """Learn from past models.

        Args:
            scores: Shape (models, questions); NaN is no score. A missing one is what the question's mean and the
                model's level make likely.
            weights: Shape (questions,).
        """
        shared = ~np.isnan(scores)
        means = np.nanmean(scores, axis=0)
        deviations = np.where(shared, scores - means, 0.0)
        levels = deviations.sum(axis=1) / np.maximum(shared.sum(axis=1), 1)
        deviations = np.where(shared, deviations, levels[:, None])
        deviations -= deviations.mean(axis=0)
        n_models = len(scores)
        sample = deviations.T @ deviations / max(n_models - 1, 1)
        covariance = (1.0 - _shrinkage(deviations, sample)) * sample
        np.fill_diagonal(covariance, np.diag(sample) * (1 + _RIDGE) + _RIDGE * np.diag(sample).mean() + _TINY)
        return cls(means, covariance, weights)

    def order(self, rng: np.random.Generator) -> Order:
        """The order in which the mean over all questions is known soonest, with places for an audit.

        Args:
            rng: Rotates the order and draws the audit.
        """
        n = len(self.weights)
        rest = self.covariance.copy()
        open_ = np.ones(n, dtype=bool)
        audit = rng.random(n) < AUDIT_SHARE
        chosen = np.empty(n, dtype=np.intp)
        for place in range(n):
            candidates = np.flatnonzero(open_)
            if audit[place]:
                question = rng.choice(candidates)
            else:
                some = candidates[rng.random(len(candidates)) < _FAVOURED]
                some = some if len(some) else candidates
                told = (rest[some] @ (self.weights * open_)) ** 2 / np.maximum(rest[some, some], _TINY)
                question = some[np.argmax(told)]
            chosen[place] = question
            open_[question] = False
            column = rest[:, question] / np.sqrt(max(rest[question, question], _TINY))
            rest -= np.outer(column, column)
        return Order(chosen, audit)

    def curve(self, scores_a: Floats, scores_b: Floats, order: Order, at: Sequence[int]) -> Curve:
        """Estimate pairs after some questions of an order.

        A difference is taken for Gaussian with the covariance of the questions and a scale of the pair's own, which is
        shrunk to that of unrelated models. In the order's Cholesky factor every score is what was predicted plus an
        innovation, so that the estimate after k questions is a sum over k innovations and what is open is a sum over
        the others.

        Args:
            scores_a: Shape (pairs, questions); NaN is no score.
            scores_b: Likewise.
            order: Of all questions.
            at: Looks: numbers of questions asked.
        """
        by_place = order.questions
        factor: Floats = np.linalg.cholesky(self.covariance[np.ix_(by_place, by_place)]).astype(np.float64)
        differences = (scores_a - scores_b)[:, by_place]
        weights = self.weights[by_place]
        shared = ~np.isnan(differences)
        innovations, predicted = _innovations(factor, differences)
        loadings = factor.T @ weights
        steps = np.asarray(at, dtype=np.intp) - 1
        asked = np.cumsum(shared, axis=1)[:, steps]
        # What was asked in vain is no part of the mean.
        vain = np.cumsum(np.where(shared, 0.0, weights), axis=1)[:, steps]
        known = np.cumsum(innovations * loadings - np.where(shared, 0.0, weights * predicted), axis=1)[:, steps]
        estimates = known / np.maximum(1.0 - vain, _TINY)
        squares = np.cumsum(innovations**2, axis=1)[:, steps]
        scales = (squares + _USUAL_COUNTS * _USUAL_SCALE) / (asked + _USUAL_COUNTS)
        left = np.concatenate([np.cumsum(loadings[::-1] ** 2)[::-1], [0.0]])[steps + 1]
        spreads = np.sqrt(scales * left)
        drawn = order.audit & shared
        n_drawn = np.cumsum(drawn, axis=1)[:, steps]
        residuals = np.cumsum(np.where(drawn, innovations, 0.0), axis=1)[:, steps]
        against = -np.sign(estimates) * residuals / np.sqrt(np.maximum(n_drawn, 1) * scales)
        whole = steps == len(by_place) - 1
        if whole.any():
            estimates[:, whole] = mean_differences(scores_a, scores_b, self.weights)[:, None]
        return Curve(np.asarray(at, dtype=np.intp), estimates, spreads, whole | (against < _AUDIT_LIMIT))


def _shrinkage(deviations: Floats, sample: Floats) -> float:
    """Find how far sample covariances are to be shrunk to 0 (Schäfer & Strimmer 2005, target D), between 0 and 1."""
    n = len(deviations)
    if n < 4:  # noqa: PLR2004  (no variance of a covariance can be told)
        return 1.0
    squares = deviations**2
    noise = (squares.T @ squares / n - (deviations.T @ deviations / n) ** 2) * n / (n - 1) ** 2
    off = ~np.eye(len(sample), dtype=bool)
    return float(np.clip(noise[off].sum() / max((sample[off] ** 2).sum(), _TINY), 0.0, 1.0))


def _innovations(factor: Floats, differences: Floats) -> tuple[Floats, Floats]:
    """Split each difference into what those before it predict and what is new, in units of its standard deviation.

    One that is missing adds nothing.
    """
    missing = np.isnan(differences)
    innovations, predictions = np.zeros_like(differences), np.zeros_like(differences)
    for place in range(differences.shape[1]):
        predictions[:, place] = innovations[:, :place] @ factor[place, :place]
        new = (differences[:, place] - predictions[:, place]) / factor[place, place]
        innovations[:, place] = np.where(missing[:, place], 0.0, new)
    return innovations, predictions


@dataclass(frozen=True)
class Anytime:
    """Bets against means, in an order drawn at random: valid at every look, for whatever the scores are.

    The mean over all questions is that of a finite population from which questions are drawn without replacement
    (Waudby-Smith & Ramdas 2020, NeurIPS). Each draw takes an open question with a probability in proportion to its
    weight, so that, if the mean is m, the expected difference of the next one is the weighted mean of what m leaves
    for the open ones. A capital that bets on differences above that grows only if the mean is above m: by Ville's
    inequality it exceeds 1 / level at any time with a probability of no more than the level. A question without a
    difference takes part in no bet, and the mean is over the others.

    Attributes:
        weights: What each question counts, shape (questions,).
        largest: The largest difference that there can be: the width of the scale.
        level: How often any statement may be wrong.
    """

    weights: Floats
    largest: float
    level: float

    def order(self, rng: np.random.Generator) -> Order:
        """A random order in which all benchmarks come equally often as long as they last."""
        races = rng.exponential(size=len(self.weights)) / self.weights
        return Order(np.argsort(races), np.zeros(len(self.weights), dtype=bool))

    def reordered(self, order: Order, n_asked: int, rng: np.random.Generator) -> Order:
        """The same order up to some question, and at random after it: bets may begin there."""
        asked, drawn = order.questions[:n_asked], self.order(rng).questions
        return Order(np.concatenate([asked, drawn[~np.isin(drawn, asked)]]), order.audit)

    def log_capital(self, differences: Floats, order: Order, mean: float, sign: int, since: int = 0) -> Floats:
        """The greatest log capital so far, after each question, of who bets that the mean is above or below another.

        Args:
            differences: A - B, shape (pairs, questions); NaN: no score.
            order: Of the questions.
            mean: Of the differences, as it is doubted.
            sign: 1 bets that it is larger, -1 that it is smaller.
            since: How many questions of the order were asked before the first bet; what they brought is known.

        Returns:
            Shape (pairs, questions), in the order.
        """
        weights = self.weights[order.questions]
        ordered = differences[:, order.questions]
        above = np.where(np.isnan(ordered), 0.0, sign * (ordered - mean))
        done = np.cumsum(weights * above, axis=1) - weights * above
        expected = -done / np.maximum(weights.sum() - np.cumsum(weights) + weights, _TINY)
        most = self.largest + abs(mean)
        greatest_stake = _LARGEST_STAKE / np.maximum(most + expected, _TINY)
        logs = []
        for bet in _BETS / self.largest:
            stake = np.minimum(bet, greatest_stake)
            gained = np.log(np.maximum(1.0 + stake * (above - expected), _TINY))
            gained = np.where(expected < -most - _TINY, _REFUTED, gained)
            gained[:, :since] = 0.0
            logs.append(np.cumsum(gained, axis=1))
        mixed = np.logaddexp.reduce(logs, axis=0) - np.log(len(logs))
        so_far: Floats = np.maximum.accumulate(mixed, axis=1)
        return so_far

    def decided(
        self, scores_a: Floats, scores_b: Floats, order: Order, at: Sequence[int], margin: float, *, since: int = 0
    ) -> tuple[Indices, Flags]:
        """Decide which pairs are told apart after some questions, and which are equal within the margin.

        Args:
            scores_a: Shape (pairs, questions); NaN is no score.
            scores_b: Likewise.
            order: From `order`.
            at: Looks: numbers of questions asked.
            margin: Differences up to it are practically equal.
            since: How many questions were asked before the first bet.

        Returns:
            1 where A is shown to be better, -1 where B is, 0 elsewhere; and whether they are equal; both of shape
            (pairs, looks).
        """
        steps = np.asarray(at, dtype=np.intp) - 1
        differences = scores_a - scores_b
        needed = -np.log(self.level / 2)  # half of it for each side

        def shown(mean: float, sign: int) -> Flags:
            found: Flags = (self.log_capital(differences, order, mean, sign, since) >= needed)[:, steps]
            return found

        equal = shown(-margin, 1) & shown(margin, -1)
        signs = shown(0.0, 1).astype(np.intp) - shown(0.0, -1).astype(np.intp)
        whole = steps == differences.shape[1] - 1
        means = mean_differences(scores_a, scores_b, self.weights)[:, None]
        equal = np.where(whole, np.abs(means) <= margin, equal)
        signs = np.where(equal, 0, np.where(whole, np.sign(means), signs)).astype(np.intp)
        return signs, equal

    def stops(self, scores_a: Floats, scores_b: Floats, order: Order, at: Sequence[int], margin: float) -> Stops:
        """Find where each pair stops, at the latest when all questions are asked."""
        signs, equal = self.decided(scores_a, scores_b, order, at, margin)
        stopped = equal | (signs != 0)
        stopped[:, -1] = True
        looks_ = np.argmax(stopped, axis=1)
        return Stops(looks_, signs[np.arange(len(looks_)), looks_])

    def interval(self, differences: Floats, order: Order, n_asked: int, since: int = 0) -> tuple[float, float]:
        """The means that no bet has ruled out after some questions.

        Args:
            differences: Of one pair, shape (questions,); NaN: no score, or not asked yet.
            order: From `order`.
            n_asked: How many of it are asked.
            since: How many of it were asked before the first bet.
        """
        needed = -np.log(self.level / 2)
        known = mean_differences(differences[None], np.zeros((1, len(differences))), self.weights)[0]
        if n_asked == len(differences):
            return float(known), float(known)

        def ruled_out(mean: float, sign: int) -> bool:
            return bool(self.log_capital(differences[None], order, mean, sign, since)[0, n_asked - 1] >= needed)

        def end(sign: int) -> float:
            inside, outside = float(np.nan_to_num(known)), -sign * self.largest
            if not ruled_out(outside, sign):
                return outside
            for _ in range(_HALVINGS):
                middle = (inside + outside) / 2
                inside, outside = (inside, middle) if ruled_out(middle, sign) else (middle, outside)
            return outside

        return end(1), end(-1)
