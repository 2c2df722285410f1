"""plurality: the answer that most candidates give, found without a call."""

from collections.abc import Sequence

from shaberi_dagster.llm.types import CallRange
from shaberi_dagster.tasks.consensus.base import Ask, Candidate, Consensus, Strategy


class Plurality(Strategy):
    """The elected candidate's own text is the consensus."""

    name = "plurality"
    minimum = 1

    def _n_calls(self, n: int) -> CallRange:  # noqa: ARG002 - the same for any n
        return CallRange(0, 0)

    async def _decide(self, question: str, candidates: Sequence[Candidate], ask: Ask) -> Consensus:  # noqa: ARG002 - no call
        position, details = self.vote(candidates)
        elected = candidates[position]
        return Consensus("ok", elected.text, details=dict(details), winner=elected.sample_index)
