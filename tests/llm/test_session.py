"""What is paid for once, and what is never reused."""

import asyncio

import pytest

from shaberi_dagster.lake.journal.claims import FileClaims
from shaberi_dagster.lake.journal.files import FileJournal, OtherFiles
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


def test_a_call_in_the_journal_counts_wherever_the_server_is_now(run, ask):
    with running_mock() as mock:
        (first, _), _ = run(lambda session: session.call(ask(mock.base_url), {}))
        elsewhere = ask("http://127.0.0.1:2/v1")  # nobody answers there
        (second, reused), records = run(lambda session: session.call(elsewhere, {}))
    assert (second, reused, len(records)) == (first, True, 1)


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


@pytest.mark.parametrize("cancelled", [0, 1], ids=["who asked", "who waits"])
def test_of_two_who_want_a_call_one_can_be_cancelled(run, ask, cancelled):
    with running_mock(latency=0.2) as mock:
        request = ask(mock.base_url)

        async def work(session):
            both = [asyncio.create_task(session.call(request, {})) for _ in range(2)]
            await asyncio.sleep(0.05)
            both[cancelled].cancel()
            return await both[1 - cancelled]

        (call, reused), records = run(work)
    assert (call.status, reused, len(records)) == ("ok", False, 1)


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
