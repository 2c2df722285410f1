"""Calibration of early stopping: how sure a judge's history has to be, found by replaying decisions on past models.

Families of models are held out in turns: what the others say of the questions decides between the models of these.
The constant of the boundary is the smallest one with which wrong decisions stay below the limits in each class of
pairs; classes are by the paired test over all questions, so that easy pairs do not hide what goes wrong on close ones.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import comb
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy import special

from shaberi_dagster.statistics.sequential import (
    Curve,
    Flags,
    Floats,
    History,
    Indices,
    looks,
    mean_differences,
)

PairClass = Literal["p<0.001", "p0.001-0.05", "p>0.05"]
CLASSES: tuple[PairClass, ...] = get_args(PairClass)
"""Result of the paired test over all questions for a pair."""
FEWEST_MODELS = 60
"""Models that a judge's history needs."""
FEWEST_FAMILIES = 6
METHOD = 3
"""Version of how pairs are decided and replayed: a constant is good for the method with which it was found."""
_LIMITS = (0.3, 0.5, 0.5)
"""Wrong decisions of the replay in each class, in units of the error that is allowed. Candidates may all be equal, so
that the undecided class is limited by itself, and to half: equal models go wrong more often than that class."""
_CONSTANTS = np.arange(1.6, 6.01, 0.05)
_SPLITS = 30
_HELD_OUT = 0.4
_MOST_OF_FAMILY = 12
"""Models of one family among those that are decided between: a series of checkpoints is easier than what comes."""
_PAIRS = 600
_ROUNDING = 1e-9
_FIRST_WORD = re.compile(r"[^\W\d_]{2,}")


def family_of(model: str) -> str:
    """The family of a model: the first word of its name without who published it, such as `llama`."""
    name = re.split(r"/|__", model)[-1]
    found = _FIRST_WORD.search(name)
    return (found[0] if found else name).lower()


@dataclass(frozen=True)
class ClassResult:
    """Outcomes of the pairs of one class.

    Attributes:
        name: The class.
        n_pairs: Pairs.
        mean_questions: Questions asked on average; None without a pair.
        median_questions: Half of the pairs took no more.
        share_wrong: Decisions that all questions contradict: another order, or equality of a pair further apart than
            the margin.
        share_equal: Decisions that they are equal within the margin.
    """

    name: PairClass
    n_pairs: int
    mean_questions: float | None
    median_questions: float | None
    share_wrong: float | None
    share_equal: float | None


@dataclass(frozen=True)
class Pairs:
    """Pairs of models with all their scores.

    Attributes:
        scores_a: Shape (pairs, questions); NaN is no score.
        scores_b: Likewise.
        truth: A - B over all questions, shape (pairs,).
        classes: Index into `CLASSES`, likewise.
    """

    scores_a: Floats
    scores_b: Floats
    truth: Floats
    classes: Indices

    @classmethod
    def of(
        cls, scores: Floats, weights: Floats, benchmarks: Sequence[str], rng: np.random.Generator, most: int
    ) -> "Pairs":
        """Pairs of some models, each pair once and in an order drawn at random.

        Args:
            scores: Shape (models, questions).
            weights: Of the questions.
            benchmarks: Of the questions.
            rng: Draws them.
            most: How many pairs at most.
        """
        first, second = np.triu_indices(len(scores), 1)
        if len(first) > most:
            drawn = rng.choice(len(first), most, replace=False)
            first, second = first[drawn], second[drawn]
        swapped = rng.random(len(first)) < 0.5  # noqa: PLR2004
        a, b = scores[np.where(swapped, second, first)], scores[np.where(swapped, first, second)]
        p_values = paired_p_values(a - b, benchmarks)
        classes = np.searchsorted([0.001, 0.05], p_values, side="right")
        return cls(a, b, mean_differences(a, b, weights), classes)

    def wrong(self, signs: Indices, margin: float) -> Flags:
        """Mark the decisions that all questions contradict.

        Args:
            signs: 1 for A, -1 for B, 0 for equal.
            margin: As it was decided with.
        """
        apart = np.abs(self.truth) > margin + _ROUNDING
        flags: Flags = np.where(signs == 0, apart, np.sign(self.truth) != signs)
        return flags


def paired_p_values(differences: Floats, benchmarks: Sequence[str]) -> Floats:
    """Compute p-values of the paired t test of the mean of the benchmarks' means, two-sided.

    Args:
        differences: Shape (pairs, questions); NaN: no score.
        benchmarks: Of the questions.
    """
    names = np.asarray(benchmarks)
    kinds = sorted(set(benchmarks))
    total, variance, degrees = 0.0, 0.0, 0.0
    for kind in kinds:
        own = differences[:, names == kind]
        n = (~np.isnan(own)).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.nansum(own, axis=1) / n
            spread = np.nansum((own - mean[:, None]) ** 2, axis=1) / (n - 1)
            total = total + mean / len(kinds)
            variance = variance + spread / n / len(kinds) ** 2
            degrees = degrees + n - 1
    with np.errstate(invalid="ignore", divide="ignore"):
        t = total / np.sqrt(variance)
    p_values: Floats = np.nan_to_num(2 * special.stdtr(degrees, -np.abs(t)), nan=1.0)
    return p_values


def class_results(classes: Indices, questions: Indices, signs: Indices, wrong: Flags) -> tuple[ClassResult, ...]:
    """Count the outcomes of pairs, by class.

    Args:
        classes: Index into `CLASSES`, shape (pairs,), as all.
        questions: Questions asked.
        signs: What was decided.
        wrong: Whether all questions contradict it.
    """
    return tuple(
        ClassResult(
            name,
            int(members.sum()),
            float(questions[members].mean()) if members.any() else None,
            float(np.median(questions[members])) if members.any() else None,
            float(wrong[members].mean()) if members.any() else None,
            float((signs[members] == 0).mean()) if members.any() else None,
        )
        for index, name in enumerate(CLASSES)
        for members in [classes == index]
    )


@dataclass(frozen=True)
class Calibration:
    """Find how sure a judge's history has to be.

    Attributes:
        constant: How many spreads the truth may be away from an estimate; None: the replay keeps the limits with none.
        error: The error that is allowed.
        margin: Differences up to it are practically equal.
        n_models: Models of the history.
        n_families: Their families.
        classes: What became of the replayed pairs with the constant (without one, with the largest).
        mean_questions: Questions of the replay on average over all pairs.
    """

    constant: float | None
    error: float
    margin: float
    n_models: int
    n_families: int
    classes: tuple[ClassResult, ...]
    mean_questions: float

    @property
    def holds(self) -> bool:
        """Return whether wrong decisions of the replay stay within what is promised."""
        return self.constant is not None


def error_of_pair(error: float, n_candidates: int) -> float:
    """Share out the error that is allowed over all pairs of candidates."""
    return error / comb(n_candidates, 2)


def calibrate(
    scores: Floats,
    families: Sequence[str],
    benchmarks: Sequence[str],
    weights: Floats,
    *,
    margin: float,
    error: float,
    rng: np.random.Generator,
) -> Calibration | None:
    """Replay decisions between past models of one judge.

    Args:
        scores: Shape (models, questions), NaN is no score.
        families: Of the models.
        benchmarks: Of the questions.
        weights: Of the questions.
        margin: Differences up to it are practically equal.
        error: Wrong decisions that are allowed.
        rng: Draws splits, pairs, orders.

    Returns:
        None where there are too few models or families to hold any out.
    """
    if len(scores) < FEWEST_MODELS or len(set(families)) < FEWEST_FAMILIES:
        return None
    at = looks(len(weights))
    replays: list[tuple[Pairs, Curve]] = []
    for past, held_out in _splits(np.asarray(families), rng):
        history = History.of(scores[past], weights)
        pairs = Pairs.of(scores[held_out], weights, benchmarks, rng, _PAIRS)
        replays.append((pairs, history.curve(pairs.scores_a, pairs.scores_b, history.order(rng), at)))
    for constant in _CONSTANTS:
        found = [(pairs, curve.stops(constant, margin)) for pairs, curve in replays]
        wrong = np.concatenate([pairs.wrong(stops.signs, margin) for pairs, stops in found])
        classes = np.concatenate([pairs.classes for pairs, _ in found])
        n_wrong, n = (np.bincount(classes, by, minlength=len(CLASSES)) for by in (wrong, None))
        holds = bool((n_wrong <= np.asarray(_LIMITS) * error * n).all())
        if holds:
            break
    questions = np.asarray(at)[np.concatenate([stops.looks for _, stops in found])]
    signs = np.concatenate([stops.signs for _, stops in found])
    return Calibration(
        float(constant) if holds else None,
        error,
        margin,
        len(scores),
        len(set(families)),
        class_results(classes, questions, signs, wrong),
        float(questions.mean()),
    )


def _splits(families: npt.NDArray[np.str_], rng: np.random.Generator) -> Iterator[tuple[Indices, Indices]]:
    """Models of the past, and some of those whose families are held out together; again and again."""
    names, sizes = np.unique(families, return_counts=True)
    counted = np.minimum(sizes, _MOST_OF_FAMILY)
    for _ in range(_SPLITS):
        drawn = rng.permutation(len(names))
        n_drawn = 1 + int(np.searchsorted(np.cumsum(counted[drawn]), _HELD_OUT * counted.sum()))
        own = [np.flatnonzero(families == name) for name in names[drawn[:n_drawn]]]
        shown = np.concatenate([rng.permutation(models)[:_MOST_OF_FAMILY] for models in own])
        yield np.setdiff1d(np.arange(len(families)), np.concatenate(own)), shown
