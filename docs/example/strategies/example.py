"""A strategy: it makes one answer of the samples of a question.

Use it with `run-evals … --samples 3 --strategy example`, or `strategies: [example]` in a benchmark's YAML file.
"""

from collections.abc import Sequence

from shaberi_dagster import Ask, CallRange, Candidate, Consensus, Response, Strategy, anonymous_names


class Example(Strategy):
    """One call writes one answer from the two longest."""

    name = "example"
    version = 1
    minimum = 2
    templates = ("standard",)
    """Of prompts/consensus; your own lie in that folder of your plugin folder."""

    def _n_calls(self, n: int) -> CallRange:  # noqa: ARG002
        """How many calls `n` candidates take, at least and at most."""
        return CallRange(1, 1)

    async def _decide(self, question: str, candidates: Sequence[Candidate], ask: Ask) -> Consensus:
        longest = sorted(candidates, key=lambda one: len(one.text), reverse=True)[:2]
        names = anonymous_names(longest)
        responses = [Response(names[one.sample_index], one.text) for one in longest]
        reply = await ask(f"{self.name}:summary", self.prompts.messages("standard", question, responses))
        return Consensus.of("summary", reply, {"used": [one.sample_index for one in longest]})
