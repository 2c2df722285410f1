import asyncio

import pytest

from shaberi_dagster.consensus.base import (
    Candidate,
    Consensus,
    Reply,
    StageFailedError,
    anonymous_names,
    ask_all,
    candidates_of,
    together,
)
from shaberi_dagster.consensus.registry import DEFAULT_STRATEGIES, STRATEGIES
from shaberi_dagster.errors import EndpointError
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


def test_an_anonymous_name_says_nothing_of_the_model():
    assert anonymous_names(candidates(2, model="secret")) == {0: "R1", 1: "R2"}


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


def test_two_candidates_with_one_sample_index_are_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="sample index 0"):
        decide("standard", well_behaved, [*candidates(2), candidates(1)[0]])


@pytest.mark.parametrize("name", ["standard", "majority", "elo", "council", "elo-seed", "council-seed"])
def test_a_failed_last_call_is_a_failure_and_never_a_text(name):
    last = ("summary", "synthesis")
    consensus, _ = decide(name, lambda p, t: FAILED if p.endswith(last) else well_behaved(p, t), 3)
    assert (consensus.status, consensus.error_class, consensus.text) == ("error", "transient", None)
    assert consensus.error_message in {"summary: 503 three times", "synthesis: 503 three times"}
    assert consensus.winner is None


@pytest.mark.parametrize("name", ["standard", "majority", "elo", "council"])
def test_a_blank_last_reply_is_a_failure(name):
    last = ("summary", "synthesis")
    consensus, _ = decide(name, lambda p, t: " \n" if p.endswith(last) else well_behaved(p, t), 3)
    assert (consensus.status, consensus.error_class, consensus.text) == ("error", "empty_output", None)


@pytest.mark.parametrize("name", ["standard", "majority", "elo", "council"])
def test_the_text_is_exactly_what_the_model_wrote(name):
    last = ("summary", "synthesis")
    consensus, _ = decide(name, lambda p, t: " B\n" if p.endswith(last) else well_behaved(p, t), 3)
    assert (consensus.status, consensus.text) == ("ok", " B\n")


def test_calls_of_a_stage_are_made_at_the_same_time():
    _, elo = decide("elo", well_behaved, 5)
    _, council = decide("council", well_behaved, 5)
    assert (elo.at_once, council.at_once) == (20, 20)


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


def test_a_stage_of_failed_calls_ends_with_the_class_of_the_first():
    replies = {"s:0": Reply(None, "deadline", "late"), "s:1": FAILED}

    async def ask(purpose, _):
        return replies[purpose]

    with pytest.raises(StageFailedError) as failed:
        run(ask_all(ask, "pairs", dict.fromkeys(replies, ())))
    assert (failed.value.stage, failed.value.reply.error_class) == ("pairs", "deadline")
    assert run(ask_all(ask, "pairs", dict.fromkeys(replies, ()), needed=False)) == replies
    assert run(ask_all(ask, "pairs", {})) == {}


def test_the_first_exception_ends_the_others_and_is_raised_by_itself():
    ended = []

    async def waits():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def fails():
        await asyncio.sleep(0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(together([waits(), fails()]))
    assert ended == [True]


def test_a_consensus_of_a_failed_call_keeps_its_details():
    consensus = Consensus.of("summary", FAILED, {"used": [1]}, winner=1)
    assert (consensus.status, consensus.details, consensus.winner) == ("error", {"used": [1]}, None)
