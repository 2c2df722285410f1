"""How right a pass is on labelled answers that were drawn by strata: each stands for `weight` answers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Label = Mapping[str, Any]


@dataclass(frozen=True)
class Rates:
    """What a pass found among labelled answers.

    Attributes:
        answers: Labelled answers.
        right: Those in which the reader and the pass see the fault.
        wrong: Those in which the pass alone does.
        missed: Those in which the reader alone does.
        precision: Share of what the pass finds that is right, by weight; None where it finds nothing.
        recall: Share of the faults that it finds, by weight; None where there is none.
    """

    answers: int
    right: int
    wrong: int
    missed: int
    precision: float | None
    recall: float | None


def rates(labels: Sequence[Label], is_faulty: Callable[[Label], bool], is_found: Callable[[Label], bool]) -> Rates:
    """Compare a reader's word with the pass's."""
    right = [label for label in labels if is_faulty(label) and is_found(label)]
    wrong = [label for label in labels if not is_faulty(label) and is_found(label)]
    missed = [label for label in labels if is_faulty(label) and not is_found(label)]
    found, faults = _weight(right) + _weight(wrong), _weight(right) + _weight(missed)
    precision = _weight(right) / found if found else None
    recall = _weight(right) / faults if faults else None
    return Rates(len(labels), len(right), len(wrong), len(missed), precision, recall)


def _weight(labels: Iterable[Label]) -> float:
    return sum(label["weight"] for label in labels)
