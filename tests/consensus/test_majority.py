import json

import pytest

from tests.consensus.scripted import FAILED, candidates, decide, shown, well_behaved

pytestmark = pytest.mark.unit


def ranked(*items, synthesis="B"):
    """A model that ranks as given: names and alignments."""
    output = json.dumps({"rankings": [{"id": name, "alignment": alignment} for name, alignment in items]})
    return lambda purpose, _: output if purpose == "majority:ranking" else synthesis


def test_the_best_two_are_rewritten_in_the_order_of_the_samples_with_the_best_as_anchor():
    consensus, model = decide("majority", ranked(("R4", 90), ("R2", 70), ("R1", 5), ("R3", 5)), 4)
    prompt = model.prompts["majority:synthesis"]
    assert shown(prompt) == [("R2", "ANS2"), ("R4", "ANS4")]
    assert "Anchor: R4\nAgreement of R2: 70\nAgreement of R4: 90\n" in prompt
    assert (consensus.text, consensus.winner, consensus.details["used"]) == ("B", 3, [1, 3])


def test_equals_stay_as_listed_and_forgotten_ones_come_last():
    consensus, _ = decide("majority", ranked(("R3", 0), ("R2", 50), ("R1", 50)), 5)
    assert consensus.details["ranking"] == [
        {"sample_index": 1, "alignment": 50.0},
        {"sample_index": 0, "alignment": 50.0},
        {"sample_index": 2, "alignment": 0.0},
        {"sample_index": 3, "alignment": 0.0},
        {"sample_index": 4, "alignment": 0.0},
    ]


def test_an_unreadable_ranking_is_the_order_of_the_samples_and_says_so():
    consensus, model = decide("majority", lambda *_: "R3 is the best", 3)
    assert shown(model.prompts["majority:synthesis"]) == [("R1", "ANS1"), ("R2", "ANS2")]
    assert (consensus.status, consensus.details["ranked_by"], consensus.winner) == ("ok", "input order", None)


def test_a_failed_ranking_is_a_failure_and_the_second_call_is_not_made():
    consensus, model = decide("majority", lambda p, t: FAILED if "ranking" in p else well_behaved(p, t), 3)
    assert (consensus.status, consensus.error_class) == ("error", "transient")
    assert consensus.error_message == "ranking: 503 three times"
    assert list(model.prompts) == ["majority:ranking"]


def test_names_follow_the_sample_so_a_missing_one_renames_nobody():
    one, _, three = candidates(3)
    _, model = decide("majority", well_behaved, [one, three])
    assert shown(model.prompts["majority:ranking"]) == [("R1", "ANS1"), ("R3", "ANS3")]
