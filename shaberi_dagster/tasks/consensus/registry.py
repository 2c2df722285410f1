"""The strategies by name: ours, and those of plugin folders."""

from collections.abc import Sequence

from shaberi_dagster.plugins.discovery import PluginRegistry, class_in
from shaberi_dagster.tasks.consensus.base import Strategy, Vote
from shaberi_dagster.tasks.consensus.prompts import ConsensusPrompts
from shaberi_dagster.tasks.prompts.library import PromptLibrary
from shaberi_dagster.util.errors import ConfigurationError

DEFAULT_STRATEGIES = ("standard", "majority", "elo", "council", "plurality")
"""All but those that repeat the original's faults."""
_OWN = {name: name for name in DEFAULT_STRATEGIES} | {"elo-seed": "elo", "council-seed": "council"}
STRATEGIES = PluginRegistry(
    "strategy",
    "strategies",
    ".py",
    {name: f"tasks/consensus/{file}.py" for name, file in _OWN.items()},
    read=class_in(Strategy),
)
"""The class of each strategy, loaded only when it is used."""


def make_strategies(names: Sequence[str], library: PromptLibrary, vote: Vote) -> list[Strategy]:
    """The named strategies.

    Args:
        names: Some of `STRATEGIES`.
        library: The templates.
        vote: Elects a candidate; depends on the benchmark's rule.

    Raises:
        ConfigurationError: There is no strategy of that name, it is broken, or one is named twice.
    """
    if len(set(names)) < len(names):
        raise ConfigurationError(f"a strategy is named twice: {', '.join(names)}")
    prompts = ConsensusPrompts(library)
    return [STRATEGIES.use(name)(prompts, vote) for name in names]
