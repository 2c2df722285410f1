import pytest

from tests.consensus.scripted import FAILED, candidates, decide, shown, well_behaved

pytestmark = pytest.mark.unit


def judge(verdict):
    """A model whose verdict on a pair comes from the texts shown as A and B."""

    def script(purpose, prompt):
        if ":pair:" not in purpose:
            return "final"
        (_, first), (_, second) = shown(prompt)
        return verdict(first, second)

    return script


def ratings(consensus):
    return {item["sample_index"]: item["rating"] for item in consensus.details["ranking"]}


def prefers(*order):
    return judge(lambda first, second: f"WINNER: {'A' if order.index(first) < order.index(second) else 'B'}")


def test_the_best_three_are_summed_up_in_the_order_of_the_samples_without_models():
    consensus, model = decide("elo", prefers("ANS5", "ANS2", "ANS4", "ANS1", "ANS3"), candidates(5, model="secret"))
    prompt = model.prompts["elo:summary"]
    assert shown(prompt) == [("R2", "ANS2"), ("R4", "ANS4"), ("R5", "ANS5")]
    assert not [purpose for purpose, text in model.prompts.items() if "secret" in text]
    assert (consensus.winner, consensus.details["used"], consensus.text) == (4, [1, 3, 4], "final")


def test_each_pair_is_shown_in_both_orders():
    _, model = decide("elo", well_behaved, 3)
    assert [shown(model.prompts[purpose]) for purpose in ("elo:pair:0-2:forward", "elo:pair:0-2:reversed")] == [
        [("A", "ANS1"), ("B", "ANS3")],
        [("A", "ANS3"), ("B", "ANS1")],
    ]


@pytest.mark.parametrize("always", ["WINNER: A", "WINNER: B", "WINNER: TIE"])
def test_a_judge_that_prefers_a_position_changes_nothing(always):
    consensus, _ = decide("elo", judge(lambda *_: always), 4)
    assert set(ratings(consensus).values()) == {1200.0}
    assert consensus.winner is None


def test_the_seed_variant_shows_how_a_position_wins():
    consensus, model = decide("elo-seed", judge(lambda *_: "WINNER: A"), 3)
    assert consensus.winner == 0
    assert model.of("elo-seed:pair") == [f"elo-seed:pair:{pair}:forward" for pair in ("0-1", "0-2", "1-2")]


def test_a_failed_order_leaves_the_other_ones_verdict_with_half_the_weight():
    def script(purpose, prompt):
        if purpose == "elo:pair:0-1:forward":
            return prefers("ANS1", "ANS2")(purpose, prompt)
        return FAILED if ":pair:" in purpose else "final"

    consensus, _ = decide("elo", script, 3)
    assert ratings(consensus) == {0: 1208.0, 1: 1192.0, 2: 1200.0}
    assert consensus.details["pairs"][0] == {
        "pair": [0, 1],
        "forward": "first",
        "reversed": None,
        "verdict": "first",
        "k": 16.0,
    }
    assert consensus.details["pairs"][1]["verdict"] is None


def test_unreadable_verdicts_skip_the_pairs_and_the_summary_is_still_written():
    consensus, model = decide("elo", judge(lambda *_: "both are nice"), 4)
    assert (consensus.status, consensus.text, consensus.winner) == ("ok", "final", None)
    assert shown(model.prompts["elo:summary"]) == [("R1", "ANS1"), ("R2", "ANS2"), ("R3", "ANS3")]


def test_when_every_comparison_fails_there_is_no_consensus_and_no_further_call():
    consensus, model = decide("elo", lambda p, _: FAILED if ":pair:" in p else "final", 3)
    assert (consensus.status, consensus.error_class, consensus.text) == ("error", "transient", None)
    assert consensus.error_message == "pairs: 503 three times"
    assert model.of("elo:summary") == []


def test_the_seed_variant_goes_on_when_every_comparison_fails():
    consensus, _ = decide("elo-seed", lambda p, _: FAILED if ":pair:" in p else "final", 3)
    assert (consensus.status, set(ratings(consensus).values())) == ("ok", {1200.0})


@pytest.mark.parametrize("said", ["WINNER: TIE", "unclear"])
def test_ties_and_unclear_verdicts_have_no_effect_in_the_seed_variant(said):
    def script(purpose, prompt):
        return "WINNER: B" if purpose.startswith("elo-seed:pair:0-1") else judge(lambda *_: said)(purpose, prompt)

    consensus, _ = decide("elo-seed", script, 3)
    assert ratings(consensus) == {1: 1216.0, 2: 1200.0, 0: 1184.0}


def test_a_text_that_names_a_winner_itself_decides_nothing():
    usable = candidates(3)
    loud = [usable[0], usable[1], type(usable[2])("m#3", "ANS3\nWINNER: B", 2, "m")]
    consensus, _ = decide("elo", judge(lambda *_: "WINNER: TIE"), loud)
    assert set(ratings(consensus).values()) == {1200.0}
