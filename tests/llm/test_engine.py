"""Calls to their end: retries, deadlines, limits, and many at once."""

import asyncio
import time
from contextlib import aclosing

import pytest
from aiohttp import web

from shaberi_dagster.llm.embedded import SLOTS
from shaberi_dagster.llm.engine import Engine, RetrySettings
from shaberi_dagster.llm.limiter import LimiterSettings
from shaberi_dagster.llm.workers import run_all
from shaberi_dagster.util.errors import ConfigurationError, EndpointError
from tests.mock_endpoint import running_mock

pytestmark = pytest.mark.integration

CANARY = "sk-canary-0123456789abcdef"
QUICK = RetrySettings(first_delay_seconds=0.001, longest_delay_seconds=0.01)


def run(work, environment=None, **settings):
    """What `work(engine)` returns."""

    async def inside():
        async with Engine(environment or {}, retry=settings.pop("retry", QUICK), **settings) as engine:
            return await work(engine)

    return asyncio.run(inside())


async def first_request(mock):
    """Wait until the endpoint, which lives in another thread, was asked something."""
    while mock.stats()["requests"] == 0:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def failing(*statuses, headers=None):
    """First these statuses, then replies."""
    errors = [web.json_response({"error": {"message": "nope"}}, status=one, headers=headers) for one in statuses]
    return lambda _body, number: errors[number] if number < len(errors) else "done"


def test_transient_failures_and_rate_limits_are_retried(ask):
    with running_mock(script=failing(500, 429, 503, 529, 500)) as mock:
        call = run(lambda engine: engine.call(ask(mock.base_url)))
    assert (call.status, call.content, call.attempts) == ("ok", "done", 6)


def test_a_call_ends_after_six_transient_failures(ask):
    with running_mock(p_500=1.0) as mock:
        call = run(lambda engine: engine.call(ask(mock.base_url)))
        assert mock.stats()["requests"] == 6
    assert (call.status, call.error_class, call.content) == ("error", "transient", None)
    assert call.error_message == "HTTP 500: The server had an error"


@pytest.mark.long
def test_rate_limits_do_not_count_as_transient_failures(ask):
    with running_mock(script=failing(*[429] * 20)) as mock:
        assert run(lambda engine: engine.call(ask(mock.base_url))).attempts == 21


@pytest.mark.parametrize(("algorithm", "status"), [("adaptive", "ok"), ("aimd", "error")])
def test_who_is_rejected_again_waits_longer_unless_the_limiter_spares_the_server(ask, algorithm, status):
    # 9 doublings take 5 to 10 s; the limiter may let its last slot rest for a second.
    retry = RetrySettings(first_delay_seconds=0.02, deadline_seconds=3.0)
    with running_mock(script=failing(*[429] * 9)) as mock:
        call = run(lambda engine: engine.call(ask(mock.base_url)), limiter=LimiterSettings(algorithm), retry=retry)
    assert call.status == status


def test_a_permanent_failure_is_not_repeated(ask):
    with running_mock(script=failing(400)) as mock:
        call = run(lambda engine: engine.call(ask(mock.base_url)))
    assert (call.error_class, call.attempts) == ("permanent", 1)


def test_a_refused_key_is_not_tried_again_and_not_shown(ask):
    with running_mock(key="right") as mock:
        call = run(
            lambda engine: engine.call(ask(mock.base_url, key="MY_KEY")),
            {"MY_KEY": CANARY, "SHABERI_KEY_HOSTS": "MY_KEY=127.0.0.1"},
        )
    assert (call.error_class, call.attempts) == ("authentication", 1)
    assert "MY_KEY" in call.error_message
    assert mock.base_url in call.error_message
    assert CANARY not in call.error_message
    assert mock.stats()["requests"] == 1


def test_the_key_is_read_from_the_environment_that_was_passed_in(ask):
    with running_mock(key=CANARY) as mock:
        call = run(
            lambda engine: engine.call(ask(mock.base_url, key="MY_KEY")),
            {"MY_KEY": CANARY, "SHABERI_KEY_HOSTS": "MY_KEY=127.0.0.1"},
        )
    assert call.status == "ok"
    assert CANARY not in repr(call)


def test_retry_after_delays_the_request(ask):
    with running_mock(script=failing(429, headers={"Retry-After": "0.4"})) as mock:
        started = time.monotonic()
        call = run(lambda engine: engine.call(ask(mock.base_url)))
    assert call.status == "ok"
    assert time.monotonic() - started >= 0.4


def test_a_slot_is_not_held_during_a_backoff(ask):
    async def scenario(engine):
        slow = asyncio.create_task(engine.call(ask(mock.base_url, "slow")))
        await first_request(mock)
        other = await engine.call(ask(mock.base_url, "other"))
        return other, slow.done(), (await slow).status

    with running_mock(script=failing(429, headers={"Retry-After": "1.5"})) as mock:
        other, slow_was_done, slow_status = run(scenario, limiter=LimiterSettings(fixed=1))
    assert (other.status, slow_was_done, slow_status) == ("ok", False, "ok")


def test_one_limiter_serves_all_calls_of_an_endpoint(ask):
    async def scenario(engine):
        await asyncio.gather(*(engine.call(ask(mock.base_url, str(n), model=f"m{n % 2}")) for n in range(30)))
        one, other = ask(mock.base_url).endpoint, ask("http://127.0.0.1:9/v1").endpoint
        return engine.limiter(one) is engine.limiter(ask(mock.base_url).endpoint), engine.limiter(
            one
        ) is engine.limiter(other)

    with running_mock(latency=0.02) as mock:
        assert run(scenario, limiter=LimiterSettings(fixed=5)) == (True, False)
        assert mock.stats()["most_in_flight"] == 5


def test_no_call_outlives_its_deadline(ask):
    with running_mock(p_hang=1.0) as mock:
        call = run(lambda engine: engine.call(ask(mock.base_url)), retry=RetrySettings(deadline_seconds=0.3))
    assert (call.status, call.error_class, call.attempts) == ("error", "deadline", 1)
    assert "0.3 s" in call.error_message


def test_a_call_gives_up_when_it_would_have_to_wait_beyond_its_deadline(ask):
    with running_mock(script=failing(429, headers={"Retry-After": "3600"})) as mock:
        call = run(lambda engine: engine.call(ask(mock.base_url)))
    assert (call.error_class, call.attempts) == ("deadline", 1)
    assert call.error_message.startswith(
        "the server asks to wait 3600 s, a call may take 1800 s in all: a longer --call-deadline lets it; last: HTTP 429"
    )


def test_a_longer_deadline_lets_a_call_wait_as_long_as_the_server_asks(ask):
    async def scenario(engine):
        short = await engine.call(ask(mock.base_url, "short"))
        engine.give_up_after(30)
        return short, await engine.call(ask(mock.base_url, "long"))

    def busy_at_first(_, number):
        return web.json_response({}, status=429, headers={"Retry-After": "0.5"}) if number < 2 else "here"

    with running_mock(script=busy_at_first) as mock:
        short, long = run(scenario, retry=RetrySettings(deadline_seconds=0.3))
    assert (short.error_class, long.content) == ("deadline", "here")


def test_waiting_for_a_slot_does_not_count_towards_the_deadline(ask):
    async def scenario(engine):
        return await asyncio.gather(*(engine.call(ask(mock.base_url, str(n))) for n in range(6)))

    with running_mock(latency=0.2) as mock:
        calls = run(scenario, limiter=LimiterSettings(fixed=1), retry=RetrySettings(deadline_seconds=0.9))
    assert {call.status for call in calls} == {"ok"}


def test_a_cancelled_call_is_cancelled_and_frees_its_slot(ask):
    async def scenario(engine):
        request = ask(mock.base_url)
        task = asyncio.create_task(engine.call(request))
        await first_request(mock)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return engine.limiter(request.endpoint).running

    with running_mock(p_hang=1.0) as mock:
        assert run(scenario) == 0


def test_the_embedded_endpoint_is_started_when_first_needed_and_once(ask):
    started = []

    async def scenario(engine):
        request = ask("embedded:", name="embedded", model="embedded/smollm2-135m")
        first = (started.copy(), engine.limiter(request.endpoint).limit)
        await asyncio.gather(*(engine.call(request) for _ in range(5)))
        return first

    with running_mock() as mock:
        before, limit = run(scenario, embedded=lambda model: started.append(model) or mock.base_url)
    assert (before, limit) == ([], SLOTS)
    assert started == ["embedded/smollm2-135m"]


async def each(items):
    for item in items:
        yield item


async def collect(items, work, workers):
    return [result async for _, result in run_all(each(items), work, workers)]


def test_all_items_are_worked_on_by_no_more_than_the_workers():
    running, most = 0, 0

    async def work(item):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        return item

    assert sorted(asyncio.run(collect(range(100), work, 7))) == list(range(100))
    assert most == 7


def test_items_are_taken_only_as_fast_as_results_are():
    taken = []

    def items():
        for number in range(1000):
            taken.append(number)
            yield number

    async def scenario():
        async def work(item):
            return item

        async with aclosing(run_all(each(items()), work, 4)) as results:
            await anext(results)
            await asyncio.sleep(0.05)
        return len(taken)

    assert asyncio.run(scenario()) < 20


def test_the_first_exception_cancels_the_rest_and_is_raised():
    ended = []

    async def work(item):
        if item == 3:
            raise EndpointError("refused")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append(item)
            raise

    with pytest.raises(EndpointError, match="refused"):
        asyncio.run(collect(range(100), work, 8))
    assert sorted(ended) == [0, 1, 2, 4, 5, 6, 7]


def test_an_exception_of_the_items_is_raised():
    def items():
        yield 1
        raise ValueError("bad item")

    async def work(item):
        return item

    with pytest.raises(ValueError, match="bad item"):
        asyncio.run(collect(items(), work, 2))


def test_cancelling_the_taker_cancels_the_work():
    async def scenario():
        async def work(_item):
            await asyncio.sleep(60)

        task = asyncio.create_task(collect(range(10), work, 3))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        return [one for one in asyncio.all_tasks() if one is not asyncio.current_task()]

    assert asyncio.run(scenario()) == []


def test_a_missing_key_is_named(ask):
    with pytest.raises(ConfigurationError, match="set MY_KEY to the API key for"):
        run(lambda engine: engine.call(ask("http://h/v1", key="MY_KEY")), {"SHABERI_KEY_HOSTS": "MY_KEY=h"})
