"""Bodies and replies in the forms of servers; Anthropic's also against a server that checks them."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from shaberi_dagster.lake.journal.records import Usage
from shaberi_dagster.llm.client import CallFailure, ChatClient
from shaberi_dagster.llm.providers.registry import PROVIDERS
from shaberi_dagster.llm.reply import MalformedReplyError, ReceivedReply
from shaberi_dagster.llm.types import Message
from shaberi_dagster.util.ports import free_ports

pytestmark = pytest.mark.unit

_MESSAGES = (Message("system", "簡潔に"), Message("user", "問"))


def _body(provider: str, **parameters: Any) -> dict[str, Any]:
    return PROVIDERS.use(provider)().body("m", _MESSAGES, parameters)


def _reply(provider: str, document: Any) -> ReceivedReply:
    return PROVIDERS.use(provider)().reply(document)


def test_the_responses_form_has_its_own_names_and_stores_nothing() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": {}}}

    assert _body("openai_responses", max_tokens=9, reasoning_effort="none", response_format=schema, top_p=0.9) == {
        "model": "m",
        "input": [{"role": "system", "content": "簡潔に"}, {"role": "user", "content": "問"}],
        "store": False,
        "max_output_tokens": 9,
        "reasoning": {"effort": "none"},
        "text": {"format": {"type": "json_schema", "name": "reply", "strict": True, "schema": {}}},
        "top_p": 0.9,
    }


def test_a_response_is_the_text_of_its_messages_beside_summaries_of_its_reasoning() -> None:
    document = {
        "status": "incomplete",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"},
        "output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
            {
                "type": "message",
                "content": [{"type": "output_text", "text": "東京"}, {"type": "output_text", "text": "。"}],
            },
        ],
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 5},
            "total_tokens": 17,
        },
    }

    assert _reply("openai_responses", document) == ReceivedReply("東京。", "Hm.", "length", Usage(10, 7, 4, 5))
    assert (
        _reply("openai_responses", document | {"incomplete_details": None, "status": "completed"}).finish_reason
        == "stop"
    )
    refused = {
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}],
    }
    assert _reply("openai_responses", refused) == ReceivedReply("No.", None, "stop", Usage(), "No.")


def test_in_anthropics_form_the_system_stands_apart_and_thinking_takes_no_temperature() -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    provider = PROVIDERS.use("anthropic_messages")()

    assert _body("anthropic_messages", max_tokens=9, temperature=0.2, stop=["x"], reasoning_effort="low") == {
        "model": "m",
        "system": "簡潔に",
        "messages": [{"role": "user", "content": "問"}],
        "max_tokens": 9,
        "temperature": 0.2,
        "stop_sequences": ["x"],
        "output_config": {"effort": "low"},
    }
    assert "temperature" not in _body("anthropic_messages", max_tokens=2000, temperature=0.2, thinking=thinking)
    assert provider.not_sent({"temperature": 0.2, "thinking": thinking}) == ["temperature"]
    assert list(provider.not_sent({"temperature": 0.2, "thinking": {"type": "disabled"}})) == []
    assert provider.headers("k") == {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    assert provider.headers(None) == {"anthropic-version": "2023-06-01"}


def test_an_anthropic_message_has_text_and_thinking_and_cached_tokens_count_as_prompt() -> None:
    document = {
        "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "東京"}],
        "stop_reason": "max_tokens",
        "usage": {
            "input_tokens": 10,
            "cache_read_input_tokens": 4,
            "cache_creation_input_tokens": 3,
            "output_tokens": 7,
        },
    }

    assert _reply("anthropic_messages", document) == ReceivedReply("東京", "Hm.", "length", Usage(17, 7, 4, None))
    refused = _reply("anthropic_messages", {"content": [], "stop_reason": "refusal"})
    assert (refused.content, refused.refusal, refused.finish_reason) == ("", "refused", "refusal")


@pytest.mark.parametrize("provider", list(PROVIDERS))
@pytest.mark.parametrize(
    "document", [{}, {"output": 1}, {"content": None}, {"choices": []}, {"content": [{"type": "text"}]}]
)
def test_what_is_no_reply_is_malformed(provider: str, document: dict[str, Any]) -> None:
    with pytest.raises(MalformedReplyError):
        _reply(provider, document)


@pytest.fixture
def strict_server() -> Iterator[str]:
    """Another project's server, which refuses what Anthropic refuses, and counts what it was sent."""
    (port,) = free_ports(1)
    script = Path(os.environ["SHABERI_CORPUS"]).parent / "tools" / "mock_openai.py"
    command = [sys.executable, script, "--port", str(port), "--strict", "1", "--latency", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@pytest.mark.corpus
@pytest.mark.integration
def test_a_strict_server_takes_what_is_sent_in_anthropics_form(strict_server: str) -> None:
    provider = PROVIDERS.use("anthropic_messages")()
    thinking = {"type": "enabled", "budget_tokens": 1024}

    async def ask() -> tuple[ReceivedReply, ReceivedReply, CallFailure]:
        client = ChatClient(f"{strict_server}/v1", "secret-key-0123456789", provider=provider)
        try:
            await client.check("claude-mock")
            plain = await client.send(provider.body("claude-mock", _MESSAGES, {"max_tokens": 200, "temperature": 0.2}))
            thought = await client.send(
                provider.body("claude-mock", _MESSAGES, {"max_tokens": 3000, "temperature": 0.2, "thinking": thinking})
            )
            with pytest.raises(CallFailure) as refused:
                await client.send(provider.body("claude-mock", _MESSAGES, {"max_tokens": 9, "frequency_penalty": 1}))
            return plain, thought, refused.value
        finally:
            await client.close()

    plain, thought, refused = asyncio.run(ask())

    assert plain.content
    assert plain.finish_reason in {"stop", "length"}
    assert (plain.usage.prompt_tokens or 0) > 0
    assert thought.reasoning
    assert refused.error_class == "permanent"
    sent = httpx2.get(f"{strict_server}/stats?params=1").text
    assert "anthropic-version" in sent
    assert "secret-key" not in sent
