"""standard: one call that writes one answer from all."""

from collections.abc import Sequence

from shaberi_dagster.llm.types import CallRange
from shaberi_dagster.tasks.consensus.base import Ask, Candidate, Consensus, Strategy, anonymous_names
from shaberi_dagster.tasks.consensus.prompts import Response


class Standard(Strategy):
    """A single call with all responses in its prompt; nothing is ranked."""

    name = "standard"
    minimum = 1
    templates = ("standard",)

    def _n_calls(self, n: int) -> CallRange:  # noqa: ARG002 - the same for any n
        return CallRange(1, 1)

    async def _decide(self, question: str, candidates: Sequence[Candidate], ask: Ask) -> Consensus:
        names = anonymous_names(candidates)
        responses = [Response(names[candidate.sample_index], candidate.text) for candidate in candidates]
        reply = await ask("standard:summary", self.prompts.messages("standard", question, responses))
        return Consensus.of("summary", reply, {"used": [candidate.sample_index for candidate in candidates]})
