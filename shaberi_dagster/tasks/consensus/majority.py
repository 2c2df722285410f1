"""majority: a call that says how well each response agrees with the others, and one that rewrites the best two."""

from collections.abc import Sequence

from shaberi_dagster.llm.types import CallRange
from shaberi_dagster.tasks.consensus.base import Ask, Candidate, Consensus, Strategy, anonymous_names, ask_all
from shaberi_dagster.tasks.consensus.parse import parse_alignments
from shaberi_dagster.tasks.consensus.prompts import Response

_USED = 2  # responses that are rewritten


class Majority(Strategy):
    """It counts no votes (`plurality` does): a model ranks the responses, then writes one from the best two."""

    name = "majority"
    minimum = 2
    templates = ("majority_ranking", "majority_synthesis")

    def _n_calls(self, n: int) -> CallRange:  # noqa: ARG002 - the same for any n
        return CallRange(2, 2)

    async def _decide(self, question: str, candidates: Sequence[Candidate], ask: Ask) -> Consensus:
        names = anonymous_names(candidates)
        sample_of = {name: sample_index for sample_index, name in names.items()}
        shown = [Response(names[candidate.sample_index], candidate.text) for candidate in candidates]
        purpose = "majority:ranking"
        replies = await ask_all(ask, "ranking", {purpose: self.prompts.messages("majority_ranking", question, shown)})
        found = parse_alignments(replies[purpose].text or "", sample_of)
        # Equal ones stay as the model listed them; those it forgot come last.
        alignments = dict.fromkeys(found or (), 0.0) | dict.fromkeys(sample_of, 0.0) | (found or {})
        ranked = sorted(alignments, key=lambda name: -alignments[name])
        best = [
            Response(response.name, response.text, alignment=alignments[response.name])
            for response in shown
            if response.name in ranked[:_USED]
        ]
        synthesis = self.prompts.messages("majority_synthesis", question, best, anchor=ranked[0])
        reply = await ask("majority:synthesis", synthesis)
        details = {
            "ranked_by": "input order" if found is None else "model",
            "ranking": [{"sample_index": sample_of[name], "alignment": alignments[name]} for name in ranked],
            "used": [sample_of[response.name] for response in best],
        }
        return Consensus.of("synthesis", reply, details, winner=None if found is None else sample_of[ranked[0]])
