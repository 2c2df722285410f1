import pytest

from shaberi_dagster.tasks.consensus.registry import DEFAULT_STRATEGIES, STRATEGIES, make_strategies
from shaberi_dagster.tasks.prompts.library import PromptLibrary
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.folders import project_folder

pytestmark = pytest.mark.unit

LIBRARY = PromptLibrary(project_folder("prompts"))


def test_no_variant_with_the_originals_faults_is_a_default():
    assert set(STRATEGIES) - set(DEFAULT_STRATEGIES) == {"elo-seed", "council-seed"}


def test_an_unknown_strategy_is_refused_with_those_there_are():
    with pytest.raises(
        ConfigurationError, match="unknown strategy 'vote'; known: standard, majority, elo, council, plurality"
    ):
        make_strategies(["elo", "vote"], LIBRARY, lambda _: (0, {}))


def test_a_strategy_named_twice_is_refused():
    with pytest.raises(ConfigurationError, match="named twice"):
        make_strategies(["elo", "elo"], LIBRARY, lambda _: (0, {}))
