"""The zero-call consensus: the answer that most samples give."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Vote:
    """The vote of the samples of one question.

    Attributes:
        winner: The index of the sample that stands for the answer: the first that gave the most frequent one; 0 if
            all abstained.
        votes: How many samples gave it; 0 if all abstained.
        share: `votes` among those that did not abstain, 0..1: the agreement.
        decided: Whether anybody voted.
    """

    winner: int
    votes: int
    share: float
    decided: bool


def plurality(extractions: Sequence[str | None]) -> Vote:
    """The most frequent answer; the one seen first of equally frequent ones.

    Args:
        extractions: The canonical answer of each sample in order, None for an abstention, which has no vote.

    Returns:
        The vote.

    Raises:
        ValueError: There are no samples.
    """
    if not extractions:
        raise ValueError("plurality needs at least one sample")
    counts = Counter(extraction for extraction in extractions if extraction is not None)
    if not counts:
        return Vote(winner=0, votes=0, share=0.0, decided=False)
    answer, votes = counts.most_common(1)[0]  # in order of first sight among equals
    return Vote(extractions.index(answer), votes, votes / counts.total(), decided=True)
