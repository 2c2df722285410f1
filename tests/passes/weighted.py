"""How right a pass is on labelled answers that were drawn by strata: each stands for `weight` answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shaberi_dagster.statistics.intervals import Interval, wilson_interval
from tests.passes.labelled import Label


@dataclass(frozen=True)
class Share:
    """A share of labelled answers, by weight.

    Attributes:
        value: From 0 to 1.
        interval: Wilson's, for as many answers of equal weight as tell as much (Kish 1965: the square of the sum of
            the weights by the sum of their squares).
    """

    value: float
    interval: Interval


@dataclass(frozen=True)
class Rates:
    """What a pass found among labelled answers.

    Attributes:
        answers: Labelled answers.
        right: Those in which the reader and the pass see the fault.
        wrong: Those in which the pass alone does.
        missed: Those in which the reader alone does.
        precision: What the pass finds and is right; None where it finds nothing.
        recall: The faults that it finds; None where there is none.
    """

    answers: int
    right: int
    wrong: int
    missed: int
    precision: Share | None
    recall: Share | None


def rates(labels: Sequence[Label], is_faulty: Callable[[Label], bool], is_found: Callable[[Label], bool]) -> Rates:
    """Compare a reader's word with the pass's."""
    right = [label for label in labels if is_faulty(label) and is_found(label)]
    wrong = [label for label in labels if not is_faulty(label) and is_found(label)]
    missed = [label for label in labels if is_faulty(label) and not is_found(label)]
    return Rates(
        len(labels),
        len(right),
        len(wrong),
        len(missed),
        _share(right, [*right, *wrong]),
        _share(right, [*right, *missed]),
    )


def _share(part: Sequence[Label], whole: Sequence[Label]) -> Share | None:
    if not whole:
        return None
    weights = [label["weight"] for label in whole]
    value = sum(label["weight"] for label in part) / sum(weights)
    n = sum(weights) ** 2 / sum(weight**2 for weight in weights)
    interval = wilson_interval(value * n, n)
    assert interval
    return Share(value, interval)
