"""elo: responses play each other before a judge, and the best three are written into one."""

from collections.abc import Sequence
from itertools import combinations
from typing import ClassVar

from shaberi_dagster.llm.types import CallRange
from shaberi_dagster.tasks.consensus.base import Ask, Candidate, Consensus, Strategy, anonymous_names, ask_all
from shaberi_dagster.tasks.consensus.parse import Verdict, contained_winner, parse_winner
from shaberi_dagster.tasks.consensus.prompts import Messages, Response
from shaberi_dagster.tasks.consensus.ratings import combined, leader, ratings_after, swapped

_USED = 3  # responses that go into the summary


class Elo(Strategy):
    """Elo ratings from pairs judged in both orders, so that a judge's preference for a position changes nothing."""

    name = "elo"
    minimum = 3
    templates = ("elo_pair", "elo_summary")
    _seed: ClassVar[bool] = False

    def _n_calls(self, n: int) -> CallRange:
        calls = n * (n - 1) // (2 if self._seed else 1) + 1
        return CallRange(calls, calls)

    async def _decide(self, question: str, candidates: Sequence[Candidate], ask: Ask) -> Consensus:
        texts = {candidate.sample_index: candidate.text for candidate in candidates}
        pairs = list(combinations(texts, 2))
        calls: dict[str, Messages] = {}
        for first, second in pairs:
            calls[self._purpose(first, second, "forward")] = self._pair(question, texts[first], texts[second])
            if not self._seed:
                calls[self._purpose(first, second, "reversed")] = self._pair(question, texts[second], texts[first])
        replies = await ask_all(ask, "pairs", calls, needed=not self._seed)
        said = {purpose: self._verdict(reply.text or "") for purpose, reply in replies.items()}
        games, played = [], []
        for first, second in pairs:
            forward = said[self._purpose(first, second, "forward")]
            backward = swapped(said.get(self._purpose(first, second, "reversed")))
            result = combined(forward, forward if self._seed else backward)
            if result is not None:
                games.append((first, second, *result))
            played.append(
                {
                    "pair": [first, second],
                    "forward": forward,
                    "reversed": backward,
                    "verdict": result and result[0],
                    "k": result and result[1],
                }
            )
        ratings = ratings_after(list(texts), games)
        used = sorted(list(ratings)[:_USED])
        names = anonymous_names(candidates)
        best = [Response(names[index], texts[index]) for index in used]
        reply = await ask(f"{self.name}:summary", self.prompts.messages("elo_summary", question, best))
        details = {
            "ranking": [{"sample_index": index, "rating": rating} for index, rating in ratings.items()],
            "pairs": played,
            "used": used,
        }
        return Consensus.of("summary", reply, details, winner=leader(ratings))

    def _purpose(self, first: int, second: int, direction: str) -> str:
        return f"{self.name}:pair:{first}-{second}:{direction}"

    def _pair(self, question: str, first: str, second: str) -> Messages:
        shown = [Response("A", first), Response("B", second)]
        return self.prompts.messages("elo_pair", question, shown, reasoning=not self._seed)

    def _verdict(self, text: str) -> Verdict | None:
        return contained_winner(text, "WINNER: A", "WINNER: B") if self._seed else parse_winner(text, "A", "B")


class EloSeed(Elo):
    """Elo exactly as the original began, with its known flaws.

    Each pair judged once and without reasons, K always 32, ties without effect, a stage of failed calls passed over.
    """

    name = "elo-seed"
    _seed = True
