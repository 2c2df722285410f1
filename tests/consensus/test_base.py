import asyncio

import pytest

from shaberi_dagster.tasks.consensus.base import (
    Candidate,
    anonymous_names,
    candidates_of,
)
from shaberi_dagster.tasks.consensus.registry import DEFAULT_STRATEGIES, STRATEGIES
from shaberi_dagster.util.errors import EndpointError
from tests.consensus.scripted import FAILED, QUESTION, ScriptedModel, candidates, decide, run, strategy, well_behaved

pytestmark = pytest.mark.unit


def test_samples_are_named_by_model_and_number_and_failed_ones_keep_their_number():
    samples = [(3, "m", "d"), (0, "m", "a"), (1, "other", None), (2, "m", " \n"), (4, "other", "e")]
    assert candidates_of(samples) == [
        Candidate("m", "a", 0, "m"),
        Candidate("m#3", "d", 3, "m"),
        Candidate("other#2", "e", 4, "other"),
    ]


@pytest.mark.parametrize("n", [1, 9, 10, 12, 100])
def test_no_anonymous_name_begins_with_another(n):
    names = list(anonymous_names(candidates(n)).values())
    assert len(set(names)) == n
    assert not [(a, b) for a in names for b in names if a != b and b.startswith(a)]


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_order_of_the_candidates_does_not_matter(name):
    straight, asked = decide(name, well_behaved, candidates(4))
    turned, asked_again = decide(name, well_behaved, candidates(4)[::-1])
    assert straight == turned
    assert asked.prompts == asked_again.prompts


@pytest.mark.parametrize("name", STRATEGIES)
def test_too_few_usable_candidates_are_skipped_with_a_reason_and_no_call(name):
    minimum = strategy(name).minimum
    usable = candidates(minimum - 1)
    blank = Candidate("m#9", " \n", 8, "m")
    consensus, model = decide(name, well_behaved, [*usable, blank])
    assert (consensus.status, consensus.error_class, consensus.text) == ("skipped", "too_few_samples", None)
    assert consensus.error_message == f"{name} needs {minimum} usable samples, there are {minimum - 1}"
    assert model.prompts == {}


def test_the_minima_are_those_of_the_original():
    assert {name: strategy(name).minimum for name in DEFAULT_STRATEGIES} == {
        "standard": 1,
        "majority": 2,
        "elo": 3,
        "council": 3,
        "plurality": 1,
    }


@pytest.mark.parametrize("name", ["standard", "majority", "elo", "council", "elo-seed", "council-seed"])
def test_a_failed_last_call_is_a_failure_and_never_a_text(name):
    last = ("summary", "synthesis")
    consensus, _ = decide(name, lambda p, t: FAILED if p.endswith(last) else well_behaved(p, t), 3)
    assert (consensus.status, consensus.error_class, consensus.text) == ("error", "transient", None)
    assert consensus.error_message in {"summary: 503 three times", "synthesis: 503 three times"}
    assert consensus.winner is None


@pytest.mark.parametrize("name", ["standard", "majority", "elo", "council"])
@pytest.mark.parametrize(("said", "found"), [(" \n", ("error", "empty_output", None)), (" B\n", ("ok", None, " B\n"))])
def test_the_text_is_exactly_what_the_model_wrote_and_a_blank_one_is_a_failure(name, said, found):
    last = ("summary", "synthesis")
    consensus, _ = decide(name, lambda p, t: said if p.endswith(last) else well_behaved(p, t), 3)
    assert (consensus.status, consensus.error_class, consensus.text) == found


@pytest.mark.parametrize("broken", DEFAULT_STRATEGIES)
def test_an_unforeseen_error_is_a_failure_of_the_strategy(broken):
    def vote(_):
        raise KeyError("no\ngrader")

    def script(_purpose, _prompt):
        raise RuntimeError("out of\ncheese")

    failed = run(strategy(broken, vote).decide(QUESTION, candidates(3), ScriptedModel(script).ask))
    assert (failed.status, failed.error_class, failed.text) == ("error", "internal", None)
    assert failed.error_message in {"RuntimeError: out of cheese", r"KeyError: 'no\ngrader'"}


def test_what_has_to_stop_all_work_is_not_contained():
    def script(purpose, prompt):
        if purpose == "elo:pair:0-1:forward":
            raise EndpointError("endpoint refuses us")
        return well_behaved(purpose, prompt)

    model = ScriptedModel(script)
    with pytest.raises(EndpointError, match="refuses us"):
        run(strategy("elo").decide(QUESTION, candidates(3), model.ask))


def test_cancelling_reaches_every_call():
    started, cancelled = [], []
    all_started = asyncio.Event()

    async def ask(purpose, _):
        started.append(purpose)
        if len(started) == 6:
            all_started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(purpose)
            raise

    async def scenario():
        work = asyncio.create_task(strategy("elo").decide(QUESTION, candidates(3), ask))
        await all_started.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    run(scenario())
    assert sorted(cancelled) == sorted(started)
