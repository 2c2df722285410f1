"""How many calls each strategy makes: what is documented, what `n_calls` says, and what is asked."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shaberi_dagster.tasks.consensus.registry import STRATEGIES
from tests.consensus.scripted import FAILED, decide, strategy, well_behaved

pytestmark = pytest.mark.unit

FAILING = st.floats(0.05, 0.95)
UNTIMED = settings(deadline=None, max_examples=60)  # a council of seven renders 113 prompts


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("n", range(2, 8))
def test_a_model_that_finds_everything_valid_takes_the_most_calls(name, n):
    _, model = decide(name, well_behaved, n)
    assert len(model.prompts) == strategy(name).n_calls(n).high


@pytest.mark.parametrize("n", range(3, 8))
def test_a_council_in_which_one_stands_takes_the_fewest_calls(n):
    def script(purpose, prompt):
        valid = str(purpose.endswith("->0")).lower()
        return f'{{"isValid": {valid}}}' if ":judgement:" in purpose else well_behaved(purpose, prompt)

    _, model = decide("council", script, n)
    assert len(model.prompts) == strategy("council").n_calls(n).low


@UNTIMED
@given(st.sampled_from(sorted(STRATEGIES)), st.integers(2, 7), st.randoms(use_true_random=False))
def test_whatever_a_model_says_the_calls_stay_within_the_range(name, n, random):
    said = ["WINNER: A", "Winner: R1", "WINNER: TIE", '{"isValid": false}', '{"isValid": true}', "no idea", ""]
    # Blank critiques are not replied to, so only what a critic says is never blank here.
    _, model = decide(name, lambda purpose, _: random.choice(said) if ":critique:" not in purpose else "wrong", n)
    low, high = strategy(name).n_calls(n)
    assert low <= len(model.prompts) <= high


@UNTIMED
@given(st.sampled_from(sorted(STRATEGIES)), st.integers(2, 7), st.randoms(use_true_random=False), FAILING)
def test_failed_calls_never_cause_others_and_the_consensus_is_a_text_or_a_failure(name, n, random, share):
    def script(purpose, prompt):
        return FAILED if random.random() < share else well_behaved(purpose, prompt)

    consensus, model = decide(name, script, n)
    assert len(model.prompts) <= strategy(name).n_calls(n).high
    assert (consensus.text is None) == (consensus.status != "ok") == (consensus.error_class is not None)


@pytest.mark.parametrize("name", STRATEGIES)
def test_too_few_candidates_take_no_call(name):
    assert strategy(name).n_calls(strategy(name).minimum - 1) == (0, 0)


def test_the_page_has_the_numbers_that_the_code_has():
    page = Path(__file__).resolve().parents[2] / "docs" / "design" / "consensus.md"
    rows = re.findall(r"^\| `([a-z-]+)` \|.*?((?: [\d,–]+ \|){6})$", page.read_text(encoding="utf-8"), re.MULTILINE)
    written = {name: [cell.strip() for cell in cells.strip(" |").split("|")] for name, cells in rows}
    counted = {}
    for name in STRATEGIES:
        ranges = [strategy(name).n_calls(n) for n in range(2, 8)]
        counted[name] = [str(low) if low == high else f"{low}–{high}" for low, high in ranges]
    assert written == counted
