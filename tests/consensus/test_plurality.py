import pytest

from shaberi_dagster.tasks.consensus.base import Candidate
from tests.consensus.scripted import QUESTION, ScriptedModel, candidates, run, strategy, well_behaved

pytestmark = pytest.mark.unit


def test_the_elected_candidates_own_text_is_the_consensus_and_nothing_is_asked():
    seen = []

    def vote(among):
        seen.extend(one.text for one in among)
        return 2, {"votes": {"4": 2, "5": 1}}

    model = ScriptedModel(well_behaved)
    blank = Candidate("m#2", "", 1, "m")
    one, _, three, four = candidates(4)
    consensus = run(strategy("plurality", vote).decide(QUESTION, [four, three, blank, one], model.ask))
    assert seen == ["ANS1", "ANS3", "ANS4"]
    assert (consensus.status, consensus.text, consensus.winner) == ("ok", "ANS4", 3)
    assert consensus.details == {"votes": {"4": 2, "5": 1}}
    assert model.prompts == {}
