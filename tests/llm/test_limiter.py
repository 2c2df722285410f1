"""How a limit moves, and who gets a slot."""

import asyncio

import pytest

from shaberi_dagster.llm.limiter import AimdLimiter, LimiterSettings

pytestmark = pytest.mark.unit


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def limiter(clock, **settings):
    return AimdLimiter(LimiterSettings(**settings), clock)


def test_a_success_adds_one_slot_after_the_cooldown(clock):
    one = limiter(clock)
    one.succeeded()
    assert one.limit == 40
    clock.now = 2.0
    one.succeeded()
    one.succeeded()
    assert one.limit == 41


def test_a_rejection_halves_the_limit_at_once_and_once_for_a_burst(clock):
    one = limiter(clock)
    for _ in range(20):
        one.rejected()
    assert one.limit == 20
    clock.now = 2.0
    one.rejected()
    assert one.limit == 10


def test_a_recent_increase_does_not_hide_a_rejection(clock):
    one = limiter(clock)
    clock.now = 2.0
    one.succeeded()
    one.rejected()
    assert one.limit == 20


def test_the_limit_rises_only_a_cooldown_after_it_fell(clock):
    one = limiter(clock)
    clock.now = 10.0
    one.rejected()
    clock.now = 11.9
    one.succeeded()
    assert one.limit == 20
    clock.now = 12.0
    one.succeeded()
    assert one.limit == 21


def test_the_limit_stays_within_its_bounds(clock):
    one = limiter(clock, initial=2, minimum=1, maximum=3, cooldown_seconds=0)
    for _ in range(5):
        one.succeeded()
    assert one.limit == 3
    for _ in range(5):
        one.rejected()
    assert one.limit == 1


def test_a_fixed_limit_never_moves(clock):
    one = limiter(clock, fixed=7, cooldown_seconds=0)
    one.rejected()
    one.succeeded()
    assert (one.limit, list(one.changes)) == (7, [])


def test_changes_are_recorded_with_their_cause(clock):
    one = limiter(clock, initial=8)
    one.rejected()
    clock.now = 2.0
    one.succeeded()
    assert [(change.before, change.after, change.cause) for change in one.changes] == [
        (8, 4, "rate_limit"),
        (4, 5, "success"),
    ]


@pytest.mark.parametrize("settings", [{"minimum": 0}, {"initial": 61}, {"initial": 1, "minimum": 2}, {"fixed": 0}])
def test_impossible_limits_are_refused(settings):
    with pytest.raises(ValueError, match="limits must be"):
        LimiterSettings(**settings)


def test_slots_are_given_in_the_order_of_asking(clock):
    async def scenario():
        one, order = limiter(clock, fixed=2), []

        async def work(name):
            async with one:
                order.append(name)
                assert one.running <= 2
                await asyncio.sleep(0)

        await asyncio.gather(*(work(name) for name in range(10)))
        return order, one.running

    assert asyncio.run(scenario()) == (list(range(10)), 0)


def test_a_late_comer_does_not_overtake_those_who_wait(clock):
    async def scenario():
        one, order = limiter(clock, fixed=1), []

        async def work(name):
            async with one:
                order.append(name)

        await one.__aenter__()
        waiting = asyncio.create_task(work("first"))
        await asyncio.sleep(0)
        await one.__aexit__()
        await work("late")
        await waiting
        return order

    assert asyncio.run(scenario()) == ["first", "late"]


def test_a_lower_limit_lets_running_calls_finish_and_starts_no_new_ones(clock):
    async def scenario():
        one = limiter(clock, initial=4)
        for _ in range(4):
            await one.__aenter__()
        one.rejected()
        waiting = asyncio.create_task(one.__aenter__())
        seen = []
        for _ in range(3):
            await one.__aexit__()
            await asyncio.sleep(0)
            seen.append((one.running, waiting.done()))
        return seen

    assert asyncio.run(scenario()) == [(3, False), (2, False), (2, True)]


def test_a_raised_limit_lets_waiting_calls_start(clock):
    async def scenario():
        one = limiter(clock, initial=1, cooldown_seconds=0)
        await one.__aenter__()
        waiting = asyncio.create_task(one.__aenter__())
        await asyncio.sleep(0)
        one.succeeded()
        await waiting
        return one.running

    assert asyncio.run(scenario()) == 2


def test_cancelling_those_who_wait_loses_no_slot(clock):
    async def scenario():
        one = limiter(clock, fixed=1)
        await one.__aenter__()
        waiting = [asyncio.create_task(one.__aenter__()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        await one.__aexit__()
        waiting[0].cancel()  # in the same turn of the loop in which it is given its slot
        await asyncio.wait(waiting)
        return [task.cancelled() for task in waiting], one.running, one.waiting

    assert asyncio.run(scenario()) == ([True, True, False], 1, 0)
