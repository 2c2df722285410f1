"""What the tests of the call engine share."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from shaberi_dagster.lake.journal.records import Call, Usage
from shaberi_dagster.llm.request import ChatRequest, Endpoint
from shaberi_dagster.llm.types import Message, Sampling


@pytest.fixture
def ask() -> Callable[..., ChatRequest]:
    """Makes a request: `ask(base_url, text="…", model=…, key="VARIABLE", sampling=…)`."""

    def make(
        base_url: str = "http://127.0.0.1:1/v1",
        text: str = "こんにちは",
        *,
        model: str = "mock",
        key: str | None = None,
        sampling: Sampling | None = None,
        name: str = "custom",
        sample_index: int = 0,
    ) -> ChatRequest:
        endpoint = Endpoint(name, base_url, key)
        messages = (Message("user", text),)
        return ChatRequest(endpoint, model, messages, sampling or Sampling(0.0, 100), sample_index=sample_index)

    return make


@pytest.fixture
def finished() -> Callable[..., Call]:
    """Makes a finished call: `finished("hash", content="…")`, or an error with `error_class`."""

    def make(request_hash: str, content: str = "答え", error_class: str | None = None) -> Call:
        return Call(
            request_hash=request_hash,
            model="mock",
            base_url="http://127.0.0.1:1/v1",
            status="error" if error_class else "ok",
            error_class=error_class,
            error_message="it failed" if error_class else None,
            content=None if error_class else content,
            reasoning=None,
            finish_reason=None if error_class else "stop",
            usage=Usage() if error_class else Usage(10, 20, None, 5),
            attempts=1,
            latency_seconds=0.25,
            created_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        )

    return make
