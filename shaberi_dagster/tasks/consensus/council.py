"""council: responses are criticised, defended and judged; the best of those that stand are summed up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any, ClassVar

from shaberi_dagster.llm.types import CallRange
from shaberi_dagster.tasks.consensus.base import (
    Ask,
    Candidate,
    Consensus,
    Reply,
    Strategy,
    anonymous_names,
    ask_all,
)
from shaberi_dagster.tasks.consensus.parse import Verdict, contained_winner, parse_validity, parse_winner
from shaberi_dagster.tasks.consensus.prompts import Response
from shaberi_dagster.tasks.consensus.ratings import K_HIGH, leader, ratings_after

_USED = 3  # responses that go into the summary
_VALID_SHARE = 0.5  # of the votes, for a branch to stand


@dataclass(frozen=True)
class _Branch:
    """A candidate and what the debate brought; keys are the sample indices of the others, in their order.

    Attributes:
        response: The candidate as prompts show it.
        critiques: What the others said of it.
        rebuttal: What it replied.
        votes: `valid`, `invalid`, `unreadable` or `failed` of each of the others.
    """

    response: Response
    critiques: Mapping[int, str]
    rebuttal: str | None
    votes: Mapping[int, str]


class Council(Strategy):
    """Five stages: critique, rebuttal, judgement, comparison in pairs, summary."""

    name = "council"
    minimum = 3
    templates = ("council_critique", "council_rebuttal", "council_judgement", "council_pair", "council_summary")
    _compat: ClassVar[bool] = False

    def _n_calls(self, n: int) -> CallRange:
        debate = n * (n - 1) + n + n * (n - 1) + 1  # critiques, rebuttals, judgements, summary
        return CallRange(debate, debate + n * (n - 1) // 2)  # how many pairs there are depends on the judgements

    async def _decide(self, question: str, candidates: Sequence[Candidate], ask: Ask) -> Consensus:
        branches = await self._debate(question, candidates, ask)
        standing = [index for index, branch in branches.items() if self._is_valid(branch)] or list(branches)
        pairs = list(combinations(standing, 2))
        replies = await self._stage(
            ask,
            "pair",
            {
                f"{a}-{b}": self.prompts.messages(
                    "council_pair", question, [branches[a].response, branches[b].response]
                )
                for a, b in pairs
            },
        )
        verdicts = {(a, b): self._verdict(replies[f"{a}-{b}"], branches[a], branches[b]) for a, b in pairs}
        ratings = ratings_after(
            standing,
            ((a, b, verdict, K_HIGH) for (a, b), verdict in verdicts.items() if verdict in {"first", "second"}),
        )
        used = list(ratings)[:_USED]
        best = [
            Response(branches[index].response.name, branches[index].response.text, rebuttal=branches[index].rebuttal)
            for index in used
        ]
        reply = await ask(f"{self.name}:summary", self.prompts.council_summary(question, best))
        details: dict[str, Any] = {
            "branches": [
                {
                    "sample_index": index,
                    "critics": list(branch.critiques),
                    "rebutted": branch.rebuttal is not None,
                    "votes": [{"judge": judge, "vote": vote} for judge, vote in branch.votes.items()],
                    "stands": index in ratings,
                }
                for index, branch in branches.items()
            ],
            "pairs": [{"pair": list(pair), "verdict": verdict} for pair, verdict in verdicts.items()],
            "ranking": [{"sample_index": index, "rating": rating} for index, rating in ratings.items()],
            "used": used,
        }
        return Consensus.of("summary", reply, details, winner=leader(ratings))

    async def _debate(self, question: str, candidates: Sequence[Candidate], ask: Ask) -> dict[int, _Branch]:
        """The first three stages."""
        labels = {candidate.sample_index: candidate.label for candidate in candidates}
        names = labels if self._compat else anonymous_names(candidates)
        texts = {candidate.sample_index: candidate.text for candidate in candidates}
        shown = {index: Response(names[index], text) for index, text in texts.items()}
        others = list(permutations(shown, 2))  # who speaks, of whom
        replies = await self._stage(
            ask,
            "critique",
            {f"{by}->{of}": self.prompts.messages("council_critique", question, [shown[of]]) for by, of in others},
        )
        critiques: dict[int, dict[int, str]] = {index: {} for index in shown}
        for by, of in others:
            if (text := replies[f"{by}->{of}"].text) and text.strip():
                critiques[of][by] = text
        replies = await self._stage(
            ask,
            "rebuttal",
            {
                f"{index}": self.prompts.messages(
                    "council_rebuttal", question, [shown[index]], texts=said, critiques=said
                )
                for index, by_critic in critiques.items()
                if (said := list(by_critic.values()))
            },
        )
        rebuttals = {int(index): reply.text for index, reply in replies.items() if reply.text and reply.text.strip()}
        replies = await self._stage(
            ask,
            "judgement",
            {
                f"{by}->{of}": self.prompts.messages(
                    "council_judgement",
                    question,
                    [shown[of]],
                    texts=[*critiques[of].values(), rebuttals.get(of, "")],
                    critiques=list(critiques[of].values()),
                    rebuttal=rebuttals.get(of),
                )
                for by, of in others
            },
        )
        votes: dict[int, dict[int, str]] = {index: {} for index in shown}
        for by, of in others:
            votes[of][by] = _vote(replies[f"{by}->{of}"])
        return {
            index: _Branch(response, critiques[index], rebuttals.get(index), votes[index])
            for index, response in shown.items()
        }

    async def _stage(self, ask: Ask, stage: str, calls: Mapping[str, Any]) -> dict[str, Reply]:
        """The replies of a stage by what follows the stage's name in their purposes."""
        prefix = f"{self.name}:{stage}:"
        by_purpose = {prefix + rest: messages for rest, messages in calls.items()}
        replies = await ask_all(ask, stage, by_purpose, needed=not self._compat)
        return {purpose.removeprefix(prefix): reply for purpose, reply in replies.items()}

    def _is_valid(self, branch: _Branch) -> bool:
        votes = list(branch.votes.values())
        if self._compat:
            return (votes.count("valid") + votes.count("unreadable")) / len(votes) >= _VALID_SHARE
        valid, invalid = votes.count("valid"), votes.count("invalid")
        return valid >= _VALID_SHARE * (valid + invalid)  # a branch on which no one voted has not been disproved

    def _verdict(self, reply: Reply, first: _Branch, second: _Branch) -> Verdict | None:
        text, a, b = reply.text or "", first.response.name, second.response.name
        if self._compat:
            return contained_winner(text, f"Winner: {a}", f"Winner: {b}")
        return parse_winner(text, a, b)


def _vote(reply: Reply) -> str:
    if reply.text is None:
        return "failed"
    return {None: "unreadable", True: "valid", False: "invalid"}[parse_validity(reply.text)]


class CouncilSeed(Council):
    """Council exactly as in the original, with its known flaws.

    Models' names in the prompts, a comparison won by the first name that the verdict contains (so `m` wins where `m#2`
    did), an unreadable vote counted as valid and a failed one as invalid, a stage of failed calls passed over.
    """

    name = "council-seed"
    _compat = True
