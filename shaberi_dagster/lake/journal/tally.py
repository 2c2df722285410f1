"""Counts of the calls in a journal, as it grows."""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from shaberi_dagster.lake.journal.base import News

RECENT = timedelta(minutes=2)
FinishedCall = Mapping[str, Any]
"""A finished call as its journal has it."""
CostOf = Callable[[FinishedCall], float | None]
"""The cost of a call in US dollars; None is unknown."""
ScoreOf = Callable[[FinishedCall], int | None]
"""The score in the reply of a call; None without one."""


@dataclass
class JournalTally:
    """Counts of the calls in a journal, as it grows.

    Attributes:
        stage: The stage that writes it.
        calls: Calls with a reply, by benchmark and purpose.
        failures: Calls that failed, by class.
        tokens: Tokens of these calls, sent and received, as far as they are known.
        cost_usd: Cost of those of them whose price is known.
        n_without_price: The others.
        scores: Counts of each score (a whole number of the judge's scale) that was read in these calls, by the model
            that judged and the benchmark.
        limits: Calls at once that endpoints are asked for, as the number changed: when, address, number.
        recent: Times at which calls of the last two minutes ended.
        place: The end of what is counted.
    """

    stage: str
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    tokens: int = 0
    cost_usd: float = 0.0
    n_without_price: int = 0
    scores: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    limits: list[tuple[datetime, str, int]] = field(default_factory=list)
    recent: list[datetime] = field(default_factory=list)
    place: tuple[Any, ...] | None = None

    def add(self, news: News, cost_of: CostOf, score_of: ScoreOf) -> None:
        """Count what was written since."""
        self.place, calls = news.place, []
        for record in news.records:
            with suppress(ValueError, KeyError, TypeError):  # opening the journal sets such records aside
                calls += self._count(record)
        for call in calls:
            cost, score = cost_of(call), score_of(call)
            self.cost_usd += cost or 0
            self.n_without_price += cost is None
            if score is not None:
                self.scores[call["model"], call["benchmark"], score] += 1

    def _count(self, record: Mapping[str, Any]) -> list[FinishedCall]:
        """Count a record; return the call with a reply, if it is one."""
        if "request_hash" not in record and "limit_before" not in record:
            return []
        at = datetime.fromisoformat(record["created_at"])
        if "limit_before" in record:
            self.limits.append((at, record["base_url"], record["limit_after"]))
            return []
        if record["status"] != "ok":
            self.failures[record["error_class"] or "error"] += 1
            return []
        self.calls[record["benchmark"] or "", record["purpose"]] += 1
        self.recent = [*(before for before in self.recent if before > at - RECENT), at]
        self.tokens += (record["prompt_tokens"] or 0) + (record["completion_tokens"] or 0)
        return [record]
