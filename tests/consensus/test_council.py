from itertools import permutations

import pytest

from tests.consensus.scripted import FAILED, candidates, decide, shown, well_behaved

pytestmark = pytest.mark.unit

VALID, INVALID = '{"isValid": true}', '{"isValid": false}'


def but(stage, say):
    """A well-behaved model, but for one stage, in which it says what `say` makes of the rest of the purpose."""

    def script(purpose, prompt):
        _, of, *rest = purpose.split(":")
        return say(*rest) if of == stage else well_behaved(purpose, prompt)

    return script


def votes(**by_branch):
    """Each branch's votes in the order of the judges, as in `_0=[...]`; the other branches are valid."""

    def say(who):
        judge, of = map(int, who.split("->"))
        said = by_branch.get(f"_{of}")
        return VALID if said is None else said[judge - (judge > of)]

    return but("judgement", say)


def standing(consensus):
    return [branch["sample_index"] for branch in consensus.details["branches"] if branch["stands"]]


def branch(consensus, index):
    return consensus.details["branches"][index]


def always_second(purpose, prompt):
    if ":pair:" in purpose:
        return f"Winner: {shown(prompt)[1][0]}"
    return well_behaved(purpose, prompt)


def test_everybody_criticises_and_judges_everybody_else():
    _, model = decide("council", well_behaved, 3)
    pairs = [f"{by}->{of}" for by, of in permutations(range(3), 2)]
    assert model.of("council:critique") == [f"council:critique:{pair}" for pair in pairs]
    assert model.of("council:judgement") == [f"council:judgement:{pair}" for pair in pairs]
    assert model.of("council:rebuttal") == [f"council:rebuttal:{index}" for index in range(3)]
    assert model.of("council:pair") == [f"council:pair:{pair}" for pair in ("0-1", "0-2", "1-2")]


def test_a_judge_sees_the_position_its_critiques_and_the_rebuttal():
    _, model = decide("council", well_behaved, 3)
    prompt = model.prompts["council:judgement:2->1"]
    assert shown(prompt) == [("R2", "ANS2")]
    for text in ("text of council:critique:0->1", "text of council:critique:2->1", "text of council:rebuttal:1"):
        assert text in prompt
    assert "->0" not in prompt


def test_the_summary_has_the_best_three_by_rank_with_their_refined_positions():
    consensus, model = decide("council", always_second, 5)
    prompt = model.prompts["council:summary"]
    assert shown(prompt) == [("R5", "ANS5"), ("R4", "ANS4"), ("R3", "ANS3")]
    assert prompt.index("text of council:rebuttal:4") < prompt.index("text of council:rebuttal:3")
    assert (consensus.winner, consensus.details["used"]) == (4, [4, 3, 2])


def test_a_judge_that_prefers_the_second_makes_the_last_one_champion_but_the_first_in_the_compatible_variant():
    assert decide("council", always_second, 5)[0].winner == 4
    assert decide("council-seed", always_second, 5)[0].winner == 0


def test_only_the_compatible_variant_shows_the_models():
    _, ours = decide("council", well_behaved, candidates(3, model="secret"))
    _, theirs = decide("council-seed", well_behaved, candidates(3, model="secret"))
    assert not [purpose for purpose, text in ours.prompts.items() if "secret" in text]
    assert shown(theirs.prompts["council-seed:pair:0-1"]) == [("secret", "ANS1"), ("secret#2", "ANS2")]


def test_more_than_nine_candidates_are_still_told_apart():
    consensus, model = decide("council", always_second, 11)
    assert [name for name, _ in shown(model.prompts["council:pair:0-10"])] == ["R01", "R11"]
    assert consensus.winner == 10


def test_half_of_the_votes_keep_a_branch_and_fewer_do_not():
    consensus, model = decide("council", votes(_0=[INVALID, VALID], _1=[INVALID, INVALID]), 3)
    assert standing(consensus) == [0, 2]
    assert model.of("council:pair") == ["council:pair:0-2"]


@pytest.mark.parametrize("unheard", ["I think it is fine", "", FAILED])
def test_an_unreadable_or_failed_vote_abstains(unheard):
    consensus, _ = decide("council", votes(_0=[unheard, INVALID], _1=[unheard, VALID], _2=[unheard, unheard]), 3)
    assert standing(consensus) == [1, 2]


def test_the_compatible_variant_counts_an_unreadable_vote_as_valid_and_a_failed_one_as_invalid():
    script = votes(_0=["unreadable", INVALID], _1=[FAILED, INVALID], _2=[FAILED, FAILED])
    consensus, _ = decide("council-seed", script, 3)
    assert standing(consensus) == [0]
    assert [vote["vote"] for vote in branch(consensus, 0)["votes"]] == ["unreadable", "invalid"]


def test_the_variants_differ_where_votes_are_missing():
    script = votes(_0=[FAILED, FAILED, VALID])
    assert standing(decide("council", script, 4)[0]) == [0, 1, 2, 3]
    assert standing(decide("council-seed", script, 4)[0]) == [1, 2, 3]


def test_when_nothing_stands_everything_is_kept():
    consensus, model = decide("council", but("judgement", lambda _: INVALID), 3)
    assert standing(consensus) == [0, 1, 2]
    assert len(model.of("council:pair")) == 3


def test_the_only_one_that_stands_wins_without_a_comparison():
    consensus, model = decide("council", votes(_0=[INVALID] * 2, _2=[INVALID] * 2), 3)
    assert (consensus.winner, standing(consensus), model.of("council:pair")) == (1, [1], [])
    assert shown(model.prompts["council:summary"]) == [("R2", "ANS2")]


@pytest.mark.parametrize("missing", [FAILED, "", " \n"])
def test_a_branch_without_critique_writes_no_rebuttal_and_is_judged_all_the_same(missing):
    consensus, model = decide("council", but("critique", lambda who: missing if who.endswith("->1") else "weak"), 3)
    assert model.of("council:rebuttal") == ["council:rebuttal:0", "council:rebuttal:2"]
    assert (branch(consensus, 1)["critics"], branch(consensus, 1)["rebutted"]) == ([], False)
    assert "There was no critique." in model.prompts["council:judgement:0->1"]
    assert consensus.status == "ok"


def test_a_failed_rebuttal_is_no_rebuttal():
    consensus, model = decide("council", but("rebuttal", lambda who: FAILED if who == "0" else "I stand by it"), 3)
    assert [one["rebutted"] for one in consensus.details["branches"]] == [False, True, True]
    assert "The author did not reply." in model.prompts["council:judgement:1->0"]


@pytest.mark.parametrize("said", ["Winner: Tie", "no idea", "Winner: R9"])
def test_ties_and_unclear_comparisons_change_no_rating(said):
    nothing, _ = decide("council", but("pair", lambda _: said), 3)
    one, _ = decide("council", but("pair", lambda pair: "Winner: R1" if pair == "0-1" else said), 3)
    assert (nothing.status, nothing.winner) == ("ok", None)
    assert {item["rating"] for item in nothing.details["ranking"]} == {1200.0}
    assert [tuple(item.values()) for item in one.details["ranking"]] == [(0, 1216.0), (2, 1200.0), (1, 1184.0)]


def test_a_failed_comparison_changes_no_rating():
    consensus, _ = decide("council", but("pair", lambda pair: "Winner: R2" if pair == "0-1" else FAILED), 3)
    assert [tuple(item.values()) for item in consensus.details["ranking"]] == [(1, 1216.0), (2, 1200.0), (0, 1184.0)]


@pytest.mark.parametrize("stage", ["critique", "rebuttal", "judgement", "pair"])
def test_a_stage_in_which_every_call_fails_ends_the_council_but_not_the_compatible_one(stage):
    script = but(stage, lambda _: FAILED)
    consensus, model = decide("council", script, 3)
    assert (consensus.status, consensus.error_class) == ("error", "transient")
    assert consensus.error_message == f"{stage}: 503 three times"
    assert list(model.prompts)[-1].startswith(f"council:{stage}:")
    assert decide("council-seed", script, 3)[0].status == "ok"
