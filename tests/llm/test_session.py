"""What is paid for once, and what is never reused."""

import asyncio
from dataclasses import replace

import pytest

from shaberi_dagster.journal.claims import FileClaims
from shaberi_dagster.journal.files import FileJournal, OtherFiles
from shaberi_dagster.llm.engine import Engine, RetrySettings
from shaberi_dagster.llm.session import CallSession
from tests.mock_endpoint import running_mock

pytestmark = pytest.mark.integration


@pytest.fixture
def run(tmp_path):
    """Runs `work(session)` in a session on one journal, which later runs find again."""

    def run(work, lookup=lambda _: {}, environment=None):
        async def inside():
            retry = RetrySettings(first_delay_seconds=0.001, transient_attempts=2)
            with FileJournal.open(tmp_path / "j.jsonl", "m@@t", "answers") as journal:
                async with Engine(environment or {}, retry=retry) as engine:
                    session = CallSession(engine, journal, "answers", lookup)
                    return await work(session), list(journal.records)

        return asyncio.run(inside())

    return run


def test_a_new_call_is_journaled_with_its_labels(run, ask):
    with running_mock(length=30) as mock:
        request = ask(mock.base_url)
        (call, reused), records = run(lambda session: session.call(request, {"benchmark": "elyza"}))
    assert (call.status, reused) == ("ok", False)
    assert [(one["request_hash"], one["stage"], one["benchmark"]) for one in records] == [
        (request.request_hash, "answers", "elyza")
    ]
    assert records[0]["completion_tokens"] == 30


def test_a_journaled_call_is_not_made_again(run, ask):
    with running_mock() as mock:
        request = ask(mock.base_url)
        (first, _), _ = run(lambda session: session.call(request, {}))
        (second, reused), records = run(lambda session: session.call(request, {}))
        assert mock.stats()["requests"] == 1
    assert (second, reused) == (first, True)
    assert len(records) == 1


def test_samples_of_one_prompt_are_calls_of_their_own(run, ask):
    with running_mock() as mock:

        async def work(session):
            for index in range(3):
                await session.call(ask(mock.base_url, sample_index=index), {})

        _, records = run(work)
    assert len(records) == 3


def test_paid_calls_are_looked_up_at_once_and_not_made(run, ask, finished):
    requests = [ask(text=str(number)) for number in range(5)]
    paid = {requests[0].request_hash: finished(requests[0].request_hash, "paid")}
    asked = []

    async def work(session):
        session.prefetch(requests)
        return [*session.unpaid(requests)], await session.call(requests[0], {})

    (unpaid, (call, reused)), records = run(work, lambda names: asked.append(list(names)) or paid)
    assert unpaid == requests[1:]
    assert (call.content, reused, records) == ("paid", True, [])
    assert asked == [[one.request_hash for one in requests]]


def test_what_the_journal_has_is_not_looked_up(run, ask):
    with running_mock() as mock:
        request, asked = ask(mock.base_url), []
        run(lambda session: session.call(request, {}))

        async def work(session):
            session.prefetch([request])
            return list(session.unpaid([request]))

        unpaid, _ = run(work, lambda names: asked.append(list(names)) or {})
    assert (unpaid, asked) == ([], [[]])


def test_a_call_that_could_not_be_prefetched_is_looked_up_on_demand(run, ask, finished):
    request = ask()
    paid = {request.request_hash: finished(request.request_hash, "paid")}
    (call, reused), _ = run(lambda session: session.call(request, {}, lookup=True), lambda _: paid)
    assert (call.content, reused) == ("paid", True)


def moved(request, *earlier):
    """The same request where the server is now, having been at other addresses before."""
    return replace(request, endpoint=replace(request.endpoint, earlier=earlier))


def test_a_call_that_was_paid_for_at_an_earlier_address_is_found_and_keeps_its_hash(run, ask, finished):
    """There is nobody at the present address."""
    first, second = ask("http://127.0.0.1:2/v1"), ask("http://127.0.0.1:3/v1")
    paid = {second.request_hash: finished(second.request_hash, "paid")}
    request = moved(ask(), first.endpoint.base_url, second.endpoint.base_url)

    async def work(session):
        found = await session.call(request, {}, lookup=True)
        session.prefetch([request])
        return found, list(session.unpaid([request])), await session.call(request, {})

    (found, unpaid, again), records = run(work, lambda names: {name: paid[name] for name in names if name in paid})
    assert found == again == (paid[second.request_hash], True)
    assert (unpaid, records) == ([], [])


def test_a_call_in_the_journal_was_made_at_an_earlier_address(run, ask):
    with running_mock() as mock:
        request = ask(mock.base_url)
        (first, _), _ = run(lambda session: session.call(request, {}))
        elsewhere = moved(ask(), mock.base_url)
        (second, reused), records = run(lambda session: session.call(elsewhere, {}))
    assert (second, reused, len(records)) == (first, True, 1)
    assert second.request_hash == request.request_hash != elsewhere.request_hash


def test_what_another_one_has_paid_for_in_the_meantime_is_found_after_the_claim(tmp_path, ask, finished):
    path = tmp_path / "_journal" / "m@@b.answers.jsonl"

    def news(request_hashes):
        return {call.request_hash: call for _, call in OtherFiles(path).find(request_hashes)}

    async def work():
        request = ask()  # there is nobody
        with (
            FileJournal.open(path, "m@@b", "answers") as own,
            FileJournal.open(path.with_name("m@@a.answers.jsonl"), "m@@a", "answers") as other,
            FileClaims(tmp_path / "calls.lock") as claims,
            FileClaims(tmp_path / "calls.lock") as of_other,
        ):
            session = CallSession(Engine({}), own, "answers", lambda _: {}, claims=claims, news=news)
            async with of_other.of(request.request_hash):
                asking = asyncio.create_task(session.call(request, {}))
                await asyncio.sleep(0.05)
                assert not asking.done()
                other.append(finished(request.request_hash, "paid"), {})
            return await asking, list(own.records)

    (call, reused), records = asyncio.run(work())
    assert (call.content, reused, records) == ("paid", True, [])


def test_an_error_is_journaled_and_tried_again(run, ask):
    with running_mock(p_500=1.0) as mock:
        request = ask(mock.base_url)
        (call, reused), records = run(lambda session: session.call(request, {}))
        assert (call.error_class, reused) == ("transient", False)
        assert [one["status"] for one in records] == ["error"]
        mock.options.p_500 = 0.0
        (call, reused), records = run(lambda session: session.call(request, {}))
    assert (call.status, reused) == ("ok", False)
    assert [one["status"] for one in records] == ["error", "ok"]


def test_equal_requests_in_flight_are_one_call(run, ask):
    with running_mock(latency=0.1) as mock:
        request = ask(mock.base_url)

        async def work(session):
            return await asyncio.gather(*(session.call(request, {}) for _ in range(10)))

        results, records = run(work)
        assert mock.stats()["requests"] == 1
    assert sorted(reused for _, reused in results) == [False] + [True] * 9
    assert len({call.content for call, _ in results}) == 1
    assert len(records) == 1


def test_who_waits_for_a_cancelled_call_makes_it(run, ask):
    with running_mock(latency=0.2) as mock:
        request = ask(mock.base_url)

        async def work(session):
            first = asyncio.create_task(session.call(request, {}))
            second = asyncio.create_task(session.call(request, {}))
            await asyncio.sleep(0.05)
            first.cancel()
            return await second

        (call, reused), records = run(work)
    assert (call.status, reused, len(records)) == ("ok", False, 1)


def test_a_cancelled_waiter_does_not_cancel_the_call(run, ask):
    with running_mock(latency=0.2) as mock:
        request = ask(mock.base_url)

        async def work(session):
            first = asyncio.create_task(session.call(request, {}))
            second = asyncio.create_task(session.call(request, {}))
            await asyncio.sleep(0.05)
            second.cancel()
            return await first

        (call, _), _ = run(work)
    assert call.status == "ok"


def test_who_refuses_us_is_asked_once_and_others_go_on(run, ask):
    with running_mock(key="right") as mock, running_mock() as other:

        async def work(session):
            refused = [(await session.call(ask(mock.base_url, str(number)), {}))[0] for number in range(3)]
            return refused, (await session.call(ask(other.base_url), {}))[0]

        (refused, answered), records = run(work)
    assert [call.error_class for call in refused] == ["authentication", "stopped", "stopped"]
    assert all("HTTP 401" in call.error_message for call in refused)
    assert answered.status == "ok"
    assert mock.stats()["requests"] == 1
    assert [record["error_class"] for record in records] == ["authentication", None]


def test_no_key_is_in_the_journal(run, ask, tmp_path):
    canary = "sk-canary-0123456789abcdef"
    with running_mock(p_500=0.5, key=canary) as mock:

        async def work(session):
            for number in range(10):
                await session.call(ask(mock.base_url, str(number), key="MY_KEY"), {})

        run(work, environment={"MY_KEY": canary, "SHABERI_KEY_HOSTS": "MY_KEY=127.0.0.1"})
    assert canary.encode() not in (tmp_path / "j.jsonl").read_bytes()
