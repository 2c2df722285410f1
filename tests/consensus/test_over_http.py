"""All strategies through the project's own calls: every call is one request and one row, and none is made twice."""

import asyncio

import pytest
from aiohttp import web

from shaberi_dagster.consensus.base import Reply
from shaberi_dagster.consensus.registry import DEFAULT_STRATEGIES
from shaberi_dagster.journal.files import FileJournal
from shaberi_dagster.llm.engine import Engine
from shaberi_dagster.llm.request import ChatRequest, Endpoint
from shaberi_dagster.llm.session import CallSession
from shaberi_dagster.llm.types import Sampling
from tests.consensus.scripted import QUESTION, candidates, strategy
from tests.mock_endpoint import running_mock

pytestmark = pytest.mark.integration

CALLS_OF_FOUR = 1 + 2 + 13 + 35 + 0


def decide(path, base_url):
    """The consensus of all strategies, and the purposes in the journal."""

    async def inside():
        with FileJournal.open(path, "m@@t", "consensus") as journal:
            async with Engine({}) as engine:
                session = CallSession(engine, journal, "consensus", lambda _: {})

                async def ask(purpose, messages):
                    sampling = Sampling(None, 64)
                    request = ChatRequest(Endpoint("custom", base_url), "m", messages, sampling, replicate=purpose)
                    call, _ = await session.call(request, {"purpose": purpose})
                    return Reply(call.content, call.error_class, call.error_message)

                decisions = [strategy(name).decide(QUESTION, candidates(4), ask) for name in DEFAULT_STRATEGIES]
                decided = dict(zip(DEFAULT_STRATEGIES, await asyncio.gather(*decisions), strict=True))
                return decided, [record["purpose"] for record in journal.records]

    return asyncio.run(inside())


def test_every_call_is_a_row_of_its_own_and_deciding_again_makes_no_call(tmp_path):
    with running_mock(length=40) as mock:
        first, rows = decide(tmp_path / "j.jsonl", mock.base_url)
        again, same_rows = decide(tmp_path / "j.jsonl", mock.base_url)
        assert mock.stats()["requests"] == CALLS_OF_FOUR
    assert {one.status for one in first.values()} == {"ok"}
    assert len(rows) == len(set(rows)) == CALLS_OF_FOUR
    assert (again, same_rows) == (first, rows)


def test_an_endpoint_that_answers_nobody_gives_failures_and_no_text(tmp_path):
    with running_mock(script=lambda *_: web.Response(status=400)) as mock:
        decided, rows = decide(tmp_path / "j.jsonl", mock.base_url)
    plurality = decided.pop("plurality")
    assert {(one.status, one.text, one.error_class) for one in decided.values()} == {("error", None, "permanent")}
    assert (plurality.status, plurality.text) == ("ok", "ANS1")
    assert not [purpose for purpose in rows if "summary" in purpose and not purpose.startswith("standard")]
