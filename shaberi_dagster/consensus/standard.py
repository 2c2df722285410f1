"""standard: one call that writes one answer from all."""

from collections.abc import Sequence

from shaberi_dagster.consensus.base import Ask, Candidate, Consensus, Strategy, anonymous_names
from shaberi_dagster.consensus.prompts import Response
from shaberi_dagster.llm.types import CallRange


class Standard(Strategy):
    """All responses go into one prompt; nothing is ranked."""

    name = "standard"
    minimum = 1
    templates = ("standard",)

    def _n_calls(self, n: int) -> CallRange:  # noqa: ARG002 - the same for any n
        return CallRange(1, 1)

    async def _decide(self, question: str, candidates: Sequence[Candidate], ask: Ask) -> Consensus:
        names = anonymous_names(candidates)
        responses = [Response(names[one.sample_index], one.text) for one in candidates]
        reply = await ask("standard:summary", self.prompts.standard(question, responses))
        return Consensus.of("summary", reply, {"used": [one.sample_index for one in candidates]})
