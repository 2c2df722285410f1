"""How a limit moves, and who gets a slot."""

import asyncio
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from shaberi_dagster.llm.limiter import AdaptiveLimiter, AimdLimiter, Limiter, LimiterSettings, make_limiter
from tests.virtual_time import run_in_virtual_time

pytestmark = pytest.mark.unit


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def aimd(clock, **settings):
    return AimdLimiter(LimiterSettings("aimd", **settings), clock)


def attempt(limiter, outcome):
    """One attempt that ends so, with a slot that is free."""

    async def inside():
        limiter.release(await limiter.acquire(), outcome)

    asyncio.run(inside())


SMALL = {"initial": 2, "minimum": 1, "maximum": 3, "cooldown_seconds": 0}


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({}, [(0.0, ["answered"], 40), (2.0, ["answered"] * 2, 41)]),
        ({}, [(0.0, ["rejected"] * 20, 20), (2.0, ["rejected"], 10)]),
        ({}, [(2.0, ["answered", "rejected"], 20)]),
        ({}, [(10.0, ["rejected"], 20), (11.9, ["answered"], 20), (12.0, ["answered"], 21)]),
        (SMALL, [(0.0, ["answered"] * 5, 3), (0.0, ["rejected"] * 5, 1)]),
        ({"cooldown_seconds": 0}, [(0.0, ["other"], 40)]),
    ],
    ids=["adds one", "halves once a burst", "rises and falls", "a cooldown after a fall", "bounds", "says nothing"],
)
def test_aimd_adds_one_for_a_success_and_halves_for_a_burst_of_rejections(clock, settings, steps):
    limiter = aimd(clock, **settings)
    for moment, outcomes, limit in steps:
        clock.now = moment
        for outcome in outcomes:
            attempt(limiter, outcome)
        assert limiter.limit == limit


def test_a_fixed_limit_never_moves():
    one = make_limiter(LimiterSettings(fixed=7, cooldown_seconds=0))
    attempt(one, "rejected")
    attempt(one, "answered")
    assert (one.limit, one.most, one.take_changes(settled=False)) == (7, 7, [])


def test_changes_are_told_once_with_their_cause_and_bursts_as_one(clock):
    one = aimd(clock, initial=8, cooldown_seconds=0)
    attempt(one, "rejected")
    clock.now = 0.05
    attempt(one, "rejected")
    assert one.take_changes() == []  # the burst may go on
    clock.now = 2.0
    attempt(one, "answered")
    told = one.take_changes(settled=False)
    assert [(change.before, change.after, change.cause) for change in told] == [
        (8, 2, "rate_limit"),
        (2, 3, "success"),
    ]
    assert one.take_changes(settled=False) == []


@pytest.mark.parametrize("settings", [{"minimum": 0}, {"initial": 61}, {"initial": 1, "minimum": 2}, {"fixed": 0}])
def test_impossible_limits_are_refused(settings):
    with pytest.raises(ValueError, match="limits must be"):
        LimiterSettings(**settings)


def test_slots_are_given_in_the_order_of_asking_and_first_to_those_that_were_rejected():
    async def scenario():
        one, order = Limiter(1), []
        held = await one.acquire()

        async def work(name, *, again=False):
            slot = await one.acquire(again=again)
            order.append(name)
            assert one.running == 1
            one.release(slot, "answered")

        waiting = [asyncio.create_task(work(name)) for name in range(3)]
        await asyncio.sleep(0)
        waiting.append(asyncio.create_task(work("again", again=True)))
        await asyncio.sleep(0)
        one.release(held, "answered")
        late = asyncio.create_task(work("late"))
        await asyncio.gather(*waiting, late)
        return order, one.running

    assert asyncio.run(scenario()) == (["again", 0, 1, 2, "late"], 0)


@pytest.mark.parametrize("make", [lambda: Limiter(1), lambda: AdaptiveLimiter(LimiterSettings(initial=1))])
def test_cancelling_those_who_wait_loses_no_slot(make):
    async def scenario():
        one = make()
        slot = await one.acquire()
        waiting = [asyncio.create_task(one.acquire()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        one.release(slot, "answered")
        waiting[0].cancel()  # in the same turn of the loop in which it is given its slot
        await asyncio.wait(waiting)
        return [task.cancelled() for task in waiting], one.running, one.waiting

    assert asyncio.run(scenario()) == ([True, True, False], 1, 0)


@dataclass
class Server:
    """Rejects what exceeds its capacity or its rate, and some calls at random."""

    capacity: Callable[[float], int] = lambda _: 10**9
    latency: float = 1.0
    spread: float = 0.0  # sigma of a lognormal latency
    share_rejected: float = 0.0
    retry_after: float = 1.0
    distance: float = 0.002  # seconds there and back
    rate: float = 0.0  # calls a second, 0 is unlimited
    rejected: int = 0
    running: int = 0
    finished_at: float = 0.0
    _random: random.Random = field(default_factory=lambda: random.Random(7))
    _tokens: float = 0.0
    _filled_at: float = 0.0

    async def answers(self):
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(self.distance / 2)
        if self._is_full(now):
            self.rejected += 1
            await asyncio.sleep(self.distance / 2)
            return False
        self.running += 1
        await asyncio.sleep(self.latency * math.exp(self._random.gauss(0, self.spread)))
        self.running -= 1
        await asyncio.sleep(self.distance / 2)
        self.finished_at = asyncio.get_running_loop().time()
        return True

    def _is_full(self, now):
        if self.rate:
            self._tokens = min(self.rate, self._tokens + (now - self._filled_at) * self.rate)
            self._filled_at = now
            if self._tokens < 1:
                return True
            self._tokens -= 1
        return self.running >= self.capacity(now) or self._random.random() < self.share_rejected


async def all_answered(server, limiters, n, later):
    """Each of the limiters (of as many processes, which start one after the other) lets `n` calls through."""
    noise = random.Random(3)

    async def worker(limiter, items, start):
        await asyncio.sleep(start)
        for _ in items:
            again = False
            while True:
                slot = await limiter.acquire(again=again)
                again = not await server.answers()
                limiter.release(slot, "rejected" if again else "answered")
                if not again:
                    break
                await asyncio.sleep(server.retry_after + noise.uniform(0, 0.1))

    work = []
    for number, limiter in enumerate(limiters):
        items = iter(range(n))
        work += [worker(limiter, items, number * later) for _ in range(256)]
    await asyncio.gather(*work)


def simulate(server, n=2000, limiters=1, later=0.0, **settings):
    """The limiters after they let `n` calls each through, each beginning so many seconds later than the one before."""

    async def inside():
        clock = asyncio.get_running_loop().time
        made = [AdaptiveLimiter(LimiterSettings(**settings), clock) for _ in range(limiters)]
        await all_answered(server, made, n, later)
        return made

    return run_in_virtual_time(inside())


@pytest.mark.parametrize("start", [8, 64])
@pytest.mark.parametrize(("capacity", "latency"), [(6, 0.5), (20, 1.0), (40, 2.0)])
def test_the_capacity_is_found_and_kept_with_few_rejections(capacity, latency, start):
    server = Server(lambda _: capacity, latency)
    (limiter,) = simulate(server, initial=start, maximum=64)
    assert server.finished_at <= 1.05 * 2000 * latency / capacity
    assert server.rejected <= 0.1 * 2000
    assert abs(limiter.limit - capacity) <= 1


# None of these was looked at while the constants were chosen.
UNTUNED = {
    "an odd capacity, slow to say so": (Server(lambda _: 13, 0.7, distance=0.3), 2000 * 1.0 / 13),
    "very uneven latency": (Server(lambda _: 25, 1.0, spread=0.8), 2000 * math.exp(0.32) / 25),
    "a large capacity": (Server(lambda _: 57, 1.5), 2000 * 1.5 / 57),
    "no word on when to come back": (Server(lambda _: 17, 0.8, retry_after=0.0), 2000 * 0.8 / 17),
    "a rate instead of a capacity": (Server(rate=30.0, latency=0.9), 2000 / 30),
    "rejections at random on top of a capacity": (Server(lambda _: 20, share_rejected=0.03), 2000 / 20),
}


@pytest.mark.parametrize("case", UNTUNED)
def test_servers_of_other_kinds_are_used_to_the_full(case):
    server, ideal = UNTUNED[case]
    simulate(server)
    assert server.finished_at <= 1.1 * ideal
    assert server.rejected <= 0.1 * 2000


@pytest.mark.parametrize("start", [8, 64])
def test_random_rejections_cost_no_more_than_their_own_delay(start):
    """The ideal controller, a fixed limit of 64, needs 1.03 of the time here; plain halving needs 9 times as much."""
    server = Server(share_rejected=0.02)
    simulate(server, initial=start, maximum=64)
    assert server.finished_at <= (1.1 if start == 64 else 1.2) * 2000 / 64


def test_a_doubled_capacity_is_found():
    server = Server(lambda now: 20 if now < 40 else 40)
    (limiter,) = simulate(server, 4000)
    assert server.finished_at <= 1.05 * (40 + (4000 - 40 * 20) / 40)
    assert abs(limiter.limit - 40) <= 1


def test_a_halved_capacity_is_noticed_at_the_cost_of_few_rejections():
    server = Server(lambda now: 40 if now < 40 else 20)
    (limiter,) = simulate(server, 3000)
    assert server.finished_at <= 1.05 * (40 + (3000 - 40 * 40) / 20)
    assert abs(limiter.limit - 20) <= 1
    assert server.rejected <= 0.05 * 3000


def test_two_processes_share_a_capacity_and_both_get_on():
    server = Server(lambda _: 30)
    one, other = simulate(server, 1500, limiters=2)
    assert server.finished_at <= 1.1 * 3000 / 30
    assert server.rejected <= 0.1 * 3000
    assert min(one.limit, other.limit) >= 5


@pytest.mark.parametrize("capacity", [5, 20])
@pytest.mark.parametrize("retry_after", [0.7, 1.5])
def test_a_process_that_finds_the_server_full_goes_on_as_soon_as_it_is_not(capacity, retry_after):
    server = Server(lambda _: capacity, 2.0, retry_after=retry_after)
    simulate(server, 25 * capacity, limiters=2, later=10.0)
    assert server.finished_at <= 1.15 * 50 * 2.0


@pytest.mark.parametrize("left", [1, 2, 4])
def test_a_process_to_which_another_one_left_few_slots_soon_finds_those_that_become_free(left):
    server = Server(lambda now: left if now < 230 else 20, 4.0)
    simulate(server, left * 230 // 4 + 400)
    assert server.finished_at <= 230 + 1.25 * 400 * 4.0 / 20
    assert server.rejected <= 45


def test_a_server_that_takes_nothing_is_asked_once_a_second_and_then_used_to_the_full():
    server = Server(lambda now: 0 if now < 60 else 20)
    simulate(server, 800)
    assert server.rejected <= 60 + 40
    assert server.finished_at <= 60 + 1.15 * 800 / 20


def test_the_limit_never_leaves_its_bounds():
    server = Server(lambda now: 1 if now < 20 else 50)
    (limiter,) = simulate(server, 600, minimum=3, initial=10, maximum=20)
    told = [change.after for change in limiter.take_changes(settled=False)]
    assert min(told[1:]) == 3
    assert max(told) == limiter.limit == 20


def test_the_limit_is_not_raised_when_nobody_waits():
    async def scenario():
        limiter = AdaptiveLimiter(LimiterSettings(initial=8), asyncio.get_running_loop().time)
        for _ in range(100):
            limiter.release(await limiter.acquire(), "answered")
        return limiter.limit

    assert run_in_virtual_time(scenario()) == 8


def test_the_initial_limit_is_opened_in_steps_until_a_rejection():
    async def scenario():
        limiter = AdaptiveLimiter(LimiterSettings(initial=40), asyncio.get_running_loop().time)
        slots = [asyncio.create_task(limiter.acquire()) for _ in range(40)]
        seen = []
        for _ in range(4):
            await asyncio.sleep(0.051)
            seen.append(limiter.running)
        for slot in slots[:4]:
            limiter.release(await slot, "rejected")
        return seen

    assert run_in_virtual_time(scenario()) == [16, 32, 40, 40]
