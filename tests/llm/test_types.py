"""The identity of requests."""

from dataclasses import replace

import orjson
import pytest

from shaberi_dagster.lake.journal.records import Call
from shaberi_dagster.llm.request import ChatRequest, Endpoint
from shaberi_dagster.llm.types import Message, Sampling, ScoreLine

pytestmark = pytest.mark.unit

_ENDPOINT = Endpoint("custom", "http://127.0.0.1:9/v1")
_SCHEMA = orjson.dumps({"type": "object"}).decode()


def _request(sampling: Sampling, **values: object) -> ChatRequest:
    return ChatRequest(_ENDPOINT, "m", (Message("user", "質問"),), sampling, **values)  # type: ignore[arg-type]


def test_hashes_of_requests_stay_as_they_are() -> None:
    full = ChatRequest(
        _ENDPOINT,
        "m",
        (Message("system", "s"), Message("user", "質問")),
        Sampling(0.2, 77, 0.5, ScoreLine("FINAL SCORE: ", 1, 10)),
        sample_index=2,
        replicate="run3",
    )
    assert full.request_hash == "8403a36f87be5d544ee018ca26aae926027984d73553643033b0d3f4710391bb"
    plain = _request(Sampling(None, 77))
    assert plain.request_hash == "071120fdb5ca0baa86abfd286e74124d119dde4e648ab7088ad6bb1cad12ad84"


def test_whatever_changes_what_is_asked_changes_the_hash() -> None:
    requests = [
        _request(Sampling(0.0, 77)),
        _request(Sampling(0.0, 78)),
        _request(Sampling(0.1, 77)),
        _request(Sampling(None, 77)),
        _request(Sampling(0.0, 77, 0.5)),
        _request(Sampling(0.0, 77, last_line=ScoreLine("S: ", 0, 1))),
        _request(Sampling(0.0, 77, json_schema=_SCHEMA)),
        _request(Sampling(0.0, 77, json_schema="{}")),
        _request(Sampling(0.0, 77), sample_index=1),
        _request(Sampling(0.0, 77), replicate="elo:pair:0-1:forward"),
    ]
    assert len({request.request_hash for request in requests}) == len(requests)


def test_the_variable_of_the_key_is_no_part_of_the_identity() -> None:
    named = ChatRequest(
        Endpoint("custom", _ENDPOINT.base_url, "KEY"), "m", (Message("user", "質問"),), Sampling(None, 77)
    )
    assert named.request_hash == _request(Sampling(None, 77)).request_hash


def test_a_call_is_read_as_it_was_recorded_also_before_there_were_refusals(finished):
    call = replace(finished("a"), refusal="いいえ", tool_calls="[]")
    assert Call.from_record(call.to_record()) == call
    record = {name: value for name, value in call.to_record().items() if name not in {"refusal", "tool_calls"}}
    assert Call.from_record(record) == replace(call, refusal=None, tool_calls=None)
