"""A model whose calls end with the same error again and again is not asked any more."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from shaberi_dagster.lake.journal.records import Call, ErrorClass, Usage
from shaberi_dagster.llm.request import ChatRequest, Endpoint
from shaberi_dagster.llm.stopping import MOST_EQUAL_ERRORS, Stopping
from shaberi_dagster.llm.types import Message, Sampling

pytestmark = pytest.mark.unit

_URL = "http://localhost:8000/v1"
_REQUEST = ChatRequest(Endpoint("custom", _URL), "m", (Message("user", "?"),), Sampling(0.0, 9))


def _call(error: str | None, model: str = "m", error_class: ErrorClass = "transient") -> Call:
    return Call(
        request_hash="",
        model=model,
        base_url=_URL,
        status="error" if error else "ok",
        error_class=error_class if error else None,
        error_message=error,
        content=None if error else "text",
        reasoning=None,
        finish_reason=None,
        usage=Usage(),
        attempts=0 if error_class == "stopped" else 1,
        latency_seconds=0.0,
        created_at=datetime.now(UTC),
    )


def _after(*errors: str | None) -> Stopping:
    stopping = Stopping()
    for error in errors:
        stopping.count(_call(error))
    return stopping


def test_equal_errors_end_the_calls_of_that_model_alone() -> None:
    stopping = _after(*["HTTP 500: no memory"] * MOST_EQUAL_ERRORS)

    assert stopping.objection(_REQUEST) == "not asked after 20 equal errors: HTTP 500: no memory"
    assert stopping.objection(replace(_REQUEST, model="other")) is None
    assert stopping.objection(replace(_REQUEST, endpoint=Endpoint("custom", "http://elsewhere/v1"))) is None
    stopping.count(_call("…", error_class="stopped"))
    assert str(stopping) == (
        f"m at {_URL} was not asked after 20 equal errors: HTTP 500: no memory (1 calls were not made)"
    )


def test_a_success_between_them_and_other_errors_do_not() -> None:
    assert _after(*["no"] * (MOST_EQUAL_ERRORS - 1), None, "no").objection(_REQUEST) is None
    assert _after(*[f"reason {chr(97 + number)}" for number in range(MOST_EQUAL_ERRORS)]).objection(_REQUEST) is None
    assert str(_after("no", None)) == ""


def test_errors_that_differ_in_numbers_are_the_same() -> None:
    assert _after(*[f"busy (request req-{number})" for number in range(MOST_EQUAL_ERRORS)]).objection(_REQUEST)
