import json

import pytest

from shaberi_dagster.consensus.registry import DEFAULT_STRATEGIES, STRATEGIES, make_strategies
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.prompts.library import PromptLibrary
from shaberi_dagster.settings import project_folder
from tests.consensus.scripted import decide, well_behaved

pytestmark = pytest.mark.unit

LIBRARY = PromptLibrary(project_folder("prompts"))


def test_every_strategy_has_the_name_that_it_is_registered_by():
    made = make_strategies(list(STRATEGIES), LIBRARY, lambda _: (0, {}))
    assert [one.name for one in made] == list(STRATEGIES)


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


@pytest.mark.parametrize("name", STRATEGIES)
def test_details_can_be_written_as_json(name):
    consensus, _ = decide(name, well_behaved, 4)
    assert json.loads(json.dumps(consensus.details)) == consensus.details
