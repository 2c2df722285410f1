"""The strategies by name. A new one is a class and an entry here."""

from collections.abc import Callable, Mapping, Sequence

from shaberi_dagster.consensus.base import Strategy
from shaberi_dagster.consensus.council import Council
from shaberi_dagster.consensus.elo import Elo
from shaberi_dagster.consensus.majority import Majority
from shaberi_dagster.consensus.plurality import Plurality, Vote
from shaberi_dagster.consensus.prompts import ConsensusPrompts
from shaberi_dagster.consensus.standard import Standard
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.names import did_you_mean
from shaberi_dagster.prompting import PromptLibrary

STRATEGIES: Mapping[str, Callable[[ConsensusPrompts, Vote], Strategy]] = {
    "standard": lambda prompts, _: Standard(prompts),
    "majority": lambda prompts, _: Majority(prompts),
    "elo": lambda prompts, _: Elo(prompts),
    "council": lambda prompts, _: Council(prompts),
    "plurality": Plurality,
    "elo-seed": lambda prompts, _: Elo(prompts, seed=True),
    "council-seed": lambda prompts, _: Council(prompts, compat=True),
}
"""How each strategy is made."""

DEFAULT_STRATEGIES = ("standard", "majority", "elo", "council", "plurality")
"""All but those that repeat the original's faults."""


def make_strategies(names: Sequence[str], library: PromptLibrary, vote: Vote) -> list[Strategy]:
    """The named strategies.

    Args:
        names: Some of `STRATEGIES`.
        library: The templates.
        vote: Elects a candidate for `plurality`; depends on the benchmark's grader.

    Raises:
        ConfigurationError: There is no strategy of that name, or one is named twice.
    """
    if unknown := [name for name in names if name not in STRATEGIES]:
        raise ConfigurationError(f"no strategy {unknown[0]!r}; {did_you_mean(unknown[0], STRATEGIES)}")
    if len(set(names)) < len(names):
        raise ConfigurationError(f"a strategy is named twice: {', '.join(names)}")
    prompts = ConsensusPrompts(library)
    return [STRATEGIES[name](prompts, vote) for name in names]
