"""The scripted simulations of the original, repeated: rankings to 1e-9, numbers of calls, and what was summed up."""

import json
import re
from pathlib import Path

import pytest

from tests.consensus.scripted import FAILED, candidates, decide, shown, well_behaved

pytestmark = pytest.mark.corpus

SIZES = pytest.mark.parametrize("n", [3, 5])


@pytest.fixture
def golden(corpus: Path):
    return json.loads((corpus / "golden" / "strategy_sim.json").read_text(encoding="utf-8"))


def label(text):
    return {one.text: one.label for one in candidates(5)}[text]


def echo(prompt):
    return "final:" + ",".join(text for _, text in shown(prompt))


def judged_by(verdict):
    """A model with a verdict on the texts shown as A and B; its summary names what it was given."""

    def script(purpose, prompt):
        if ":pair:" not in purpose:
            return echo(prompt)
        (_, first), (_, second) = shown(prompt)
        return verdict(int(first.removeprefix("ANS")), int(second.removeprefix("ANS")))

    return script


def assert_ranking(consensus, n, expected):
    labels = [one.label for one in candidates(n)]
    ranking = [(labels[item["sample_index"]], item["rating"]) for item in consensus.details["ranking"]]
    assert [name for name, _ in ranking] == [name for name, _ in expected]
    assert [rating for _, rating in ranking] == pytest.approx([rating for _, rating in expected], abs=1e-9, rel=0)


@SIZES
def test_elo_in_which_the_lower_index_wins(golden, n):
    consensus, model = decide("elo", judged_by(lambda a, b: f"WINNER: {'A' if a < b else 'B'}"), n)
    assert_ranking(consensus, n, golden[f"elo_lowindex_wins_{n}"]["rk"])
    assert len(model.of("elo:pair")) == golden[f"elo_lowindex_wins_{n}"]["calls"]


@SIZES
def test_elo_with_a_judge_that_always_says_a(golden, n):
    consensus, _ = decide("elo", judged_by(lambda *_: "WINNER: A"), n)
    assert_ranking(consensus, n, golden[f"elo_position_biased_{n}"])


@SIZES
def test_elo_in_which_the_last_wins_when_shown_first_and_all_else_is_a_tie(golden, n):
    consensus, _ = decide("elo", judged_by(lambda a, _: f"WINNER: {'A' if a == n else 'TIE'}"), n)
    assert_ranking(consensus, n, golden[f"elo_last_wins_when_first_else_tie_{n}"])


@SIZES
def test_elo_with_a_judge_that_says_nothing_readable(golden, n):
    consensus, _ = decide("elo", judged_by(lambda *_: "?"), n)
    assert_ranking(consensus, n, golden[f"elo_all_errors_{n}"])


@SIZES
def test_the_seed_elo_with_a_judge_that_always_fails(golden, n):
    consensus, _ = decide("elo-seed", lambda purpose, text: FAILED if ":pair:" in purpose else echo(text), n)
    assert_ranking(consensus, n, golden[f"elo_all_errors_{n}"])


@SIZES
def test_elo_of_equals_sums_up_the_first_three(golden, n):
    consensus, model = decide("elo", judged_by(lambda *_: "WINNER: TIE"), n)
    assert {"r": consensus.text, "calls": len(model.prompts)} == golden[f"elo_gen_tie_{n}"]


@SIZES
def test_majority(golden, n):
    def script(purpose, prompt):
        names = {label(text): name for name, text in shown(prompt)}
        if purpose == "majority:ranking":
            listed = [("m#3", 90), ("m", 90), ("m#2", 10)]
            items = [{"id": names[one], "alignment": alignment} for one, alignment in listed]
            return f"```json\n{json.dumps({'rankings': items})}\n```"
        anchor = re.search(r"^Anchor: (.+)$", prompt, re.MULTILINE)[1]
        return f"final:{','.join(names)} anchor={next(one for one, name in names.items() if name == anchor)}"

    consensus, model = decide("majority", script, n)
    labels = [one.label for one in candidates(n)]
    expected = golden[f"majority_{n}"]
    assert (consensus.text, len(model.prompts)) == (expected["r"], expected["calls"])
    assert [
        {"modelId": labels[item["sample_index"]], "eloScore": item["alignment"], "rank": rank}
        for rank, item in enumerate(consensus.details["ranking"], 1)
    ] == expected["rank"]


@SIZES
def test_the_compatible_council_with_a_judge_that_always_prefers_the_second(golden, n):
    def script(purpose, prompt):
        return f"Winner: {shown(prompt)[1][0]}" if ":pair:" in purpose else well_behaved(purpose, prompt)

    consensus, model = decide("council-seed", script, n)
    assert_ranking(consensus, n, golden[f"council_alwaysB_{n}"]["rank"])
    assert len(model.prompts) == golden[f"council_alwaysB_{n}"]["calls"]


def test_no_simulation_is_left_out(golden):
    kinds = {name.rpartition("_")[0] for name in golden}
    assert kinds == {
        "council_alwaysB",
        "elo_lowindex_wins",
        "elo_position_biased",
        "elo_last_wins_when_first_else_tie",
        "majority",
        "elo_gen_tie",
        "elo_all_errors",
    }
    assert {name.rpartition("_")[2] for name in golden} == {"3", "5"}
