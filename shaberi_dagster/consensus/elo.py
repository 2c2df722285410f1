"""elo: responses play each other before a judge, and the best three are written into one."""

from collections.abc import Sequence
from itertools import combinations
from typing import ClassVar

from shaberi_dagster.consensus.base import Ask, Candidate, Consensus, Strategy, anonymous_names, ask_all
from shaberi_dagster.consensus.parse import Verdict, contained_winner, parse_winner
from shaberi_dagster.consensus.prompts import Messages, Response
from shaberi_dagster.consensus.ratings import K_HIGH, combined, leader, ratings_after, swapped
from shaberi_dagster.llm.types import CallRange

_USED = 3  # responses that go into the summary


class Elo(Strategy):
    """Each pair is judged in both orders, so a judge that prefers a position changes nothing."""

    name = "elo"
    minimum = 3
    templates = ("elo_pair", "elo_summary")
    _seed: ClassVar[bool] = False

    def _n_calls(self, n: int) -> CallRange:
        calls = n * (n - 1) // (2 if self._seed else 1) + 1
        return CallRange(calls, calls)

    async def _decide(self, question: str, candidates: Sequence[Candidate], ask: Ask) -> Consensus:
        texts = {one.sample_index: one.text for one in candidates}
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
            result = self._seed_result(forward) if self._seed else combined(forward, backward)
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
        reply = await ask(f"{self.name}:summary", self.prompts.elo_summary(question, best))
        details = {
            "ranking": [{"sample_index": index, "rating": rating} for index, rating in ratings.items()],
            "pairs": played,
            "used": used,
        }
        return Consensus.of("summary", reply, details, winner=leader(ratings))

    def _purpose(self, first: int, second: int, direction: str) -> str:
        return f"{self.name}:pair:{first}-{second}:{direction}"

    def _pair(self, question: str, first: str, second: str) -> Messages:
        return self.prompts.elo_pair(question, first, second, reasoning=not self._seed)

    def _verdict(self, text: str) -> Verdict | None:
        return contained_winner(text, "WINNER: A", "WINNER: B") if self._seed else parse_winner(text, "A", "B")

    @staticmethod
    def _seed_result(verdict: Verdict | None) -> tuple[Verdict, float] | None:
        return None if verdict is None else (verdict, K_HIGH)


class EloSeed(Elo):
    """As the original began.

    Each pair judged once and without reasons, K always 32, ties without effect, a stage of failed calls passed over.
    """

    name = "elo-seed"
    _seed = True
