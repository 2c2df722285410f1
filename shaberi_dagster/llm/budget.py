"""Budgets that calls are counted against."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from shaberi_dagster.lake.journal.records import Call, Usage
from shaberi_dagster.llm.prices import PriceList
from shaberi_dagster.util.errors import ConfigurationError


@dataclass
class Budget:
    """The limits of spending, and what is spent; shared by all stages of a command, for one event loop.

    A call is refused once the budget is reached; calls that are under way then are finished, so it can be exceeded by
    as much as they cost.

    Attributes:
        max_cost_usd: Most US dollars; None is unlimited.
        max_tokens: Most tokens, sent and received together; None is unlimited.
        cost_usd: US dollars spent.
        tokens: Tokens spent.
        refused: Calls that were not made.
        prices: What calls cost.
    """

    max_cost_usd: float | None = None
    max_tokens: int | None = None
    cost_usd: float = 0.0
    tokens: int = 0
    refused: int = 0
    prices: PriceList = field(default_factory=PriceList)
    _unknown: str | None = None
    _unpriced: Counter[tuple[str, str]] = field(default_factory=Counter)

    def check(self, models: Collection[tuple[str, str]]) -> None:
        """See that the budget can be kept, before anything is spent.

        Args:
            models: Each model that is called, with its address.

        Raises:
            ConfigurationError: There is a limit in US dollars, and no model's price is known.
        """
        if self.max_cost_usd is None or not models or any(self.prices.is_price_known(*one) for one in models):
            return
        named = ", ".join(f"{model} at {base_url}" for model, base_url in sorted(models))
        todo = "use --max-tokens-total, or write it into a file that SHABERI_PRICES names"
        raise ConfigurationError(f"the price of {named} is unknown: {todo}")

    def unpriced(self) -> list[str]:
        """Say which calls are not in the sum that is compared with the limit."""
        return [
            f"{count:,} calls of {model} at {base_url} have no known price: --max-cost does not count them"
            for (model, base_url), count in sorted(self._unpriced.items())
        ]

    def count(self, call: Call) -> None:
        """Count a call that was made."""
        if (call.status != "ok" and call.usage == Usage()) or (self.max_cost_usd is None and self.max_tokens is None):
            return
        prompt, completion = call.usage.prompt_tokens, call.usage.completion_tokens
        if prompt is None or completion is None:
            self._unknown = f"{call.base_url} does not report tokens, so the budget cannot be kept"
            return
        self.tokens += prompt + completion
        if self.max_cost_usd is not None:
            cost = self.prices.cost(call.to_record())
            if cost is None:
                self._unpriced[call.model, call.base_url] += 1
            else:
                self.cost_usd += cost.usd

    def objection(self) -> str | None:
        """Say why no further call may be made; None when it may."""
        if self.max_tokens is not None and self.tokens >= self.max_tokens:
            return f"the budget of {self.max_tokens:,} tokens is reached ({self.tokens:,})"
        if self.max_cost_usd is not None and self.cost_usd >= self.max_cost_usd:
            return f"the budget of ${self.max_cost_usd:.2f} is reached (${self.cost_usd:.4f})"
        return self._unknown
