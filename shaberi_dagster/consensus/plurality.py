"""plurality: the answer that most candidates give, found without a call."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shaberi_dagster.consensus.base import Ask, Candidate, Consensus, Strategy
from shaberi_dagster.consensus.prompts import ConsensusPrompts
from shaberi_dagster.llm.types import CallRange

Vote = Callable[[Sequence[Candidate]], tuple[int, Mapping[str, Any]]]
"""Position of the elected one among the candidates, and details of the vote; what counts as the same answer is the
grader's business."""


class Plurality(Strategy):
    """The elected candidate's own text is the consensus.

    Args:
        prompts: The project's prompts.
        vote: Elects a candidate.
    """

    name = "plurality"
    minimum = 1

    def __init__(self, prompts: ConsensusPrompts, vote: Vote) -> None:
        super().__init__(prompts)
        self._vote = vote

    def _n_calls(self, n: int) -> CallRange:  # noqa: ARG002 - the same for any n
        return CallRange(0, 0)

    async def _decide(self, question: str, candidates: Sequence[Candidate], ask: Ask) -> Consensus:  # noqa: ARG002 - no call
        position, details = self._vote(candidates)
        elected = candidates[position]
        return Consensus("ok", elected.text, details=dict(details), winner=elected.sample_index)
