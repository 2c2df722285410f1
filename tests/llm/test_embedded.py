"""The embedded model as users meet it: real, quiet, bounded, and gone with the process."""

import asyncio
import re
import signal
import subprocess
import sys
import urllib.request
from functools import partial

import pytest

from shaberi_dagster.llm.embedded import DEFAULT_MODEL, start_embedded
from shaberi_dagster.llm.endpoints import resolve_endpoint
from shaberi_dagster.llm.engine import Engine
from shaberi_dagster.llm.types import ChatRequest, Message, Sampling, ScoreLine

pytestmark = pytest.mark.integration


@pytest.fixture
def chat():
    """The finished calls of prompts, made at once."""

    def chat(*prompts, max_tokens=16, last_line=None):
        endpoint, sampling = resolve_endpoint(DEFAULT_MODEL), Sampling(0.0, max_tokens, last_line=last_line)

        async def inside():
            async with Engine({}) as engine:
                await engine.check(endpoint, DEFAULT_MODEL)
                requests = [ChatRequest(endpoint, DEFAULT_MODEL, (Message("user", one),), sampling) for one in prompts]
                return await asyncio.gather(*(engine.call(request) for request in requests))

        return asyncio.run(inside())

    return chat


def test_it_is_loaded_once_and_says_what_it_is():
    told = []
    first = start_embedded(DEFAULT_MODEL, told.append)
    assert start_embedded(DEFAULT_MODEL, told.append) == first
    assert len(told) <= 1  # none if another test of this process has loaded it
    said = r"embedded model SmolLM2-135M-Instruct \(Q4_1, Apache-2.0\) loaded in \d+\.\d s"
    assert all(re.match(said, one) for one in told)
    assert first.startswith("http://127.0.0.1:")


def test_it_answers_with_text_and_token_counts(chat):
    (call,) = chat("What is the capital of Japan?")
    assert call.status == "ok"
    assert "Tokyo" in call.content
    assert call.base_url == "embedded:"
    assert call.usage.prompt_tokens > 5
    assert 0 < call.usage.completion_tokens <= 16


def test_more_requests_than_slots_are_all_answered(chat):
    assert {call.status for call in chat(*(f"Count from {n}." for n in range(5)), max_tokens=4)} == {"ok"}


def test_a_score_line_is_enforced(chat):
    (call,) = chat("この回答を採点してください。", max_tokens=500, last_line=ScoreLine("FINAL SCORE: ", 1, 10))
    assert re.fullmatch(r"(?s)[^\n]+\n.*FINAL SCORE: ([1-9]|10)", call.content)
    assert call.finish_reason == "stop"


def test_a_prompt_beyond_its_context_is_an_error_row(chat):
    (call,) = chat("長い文章。" * 5000)
    assert (call.status, call.error_class, call.attempts) == ("error", "permanent", 1)
    assert "context size" in call.error_message


def test_a_web_page_cannot_use_it():
    url = start_embedded(DEFAULT_MODEL)
    request = urllib.request.Request(f"{url}/models", headers={"Origin": "http://evil.example"})
    with urllib.request.urlopen(request, timeout=10) as response:
        assert not response.headers.get("Access-Control-Allow-Origin")


_BUSY = """
import asyncio, sys
from shaberi_dagster.llm.embedded import DEFAULT_MODEL
from shaberi_dagster.llm.endpoints import resolve_endpoint
from shaberi_dagster.llm.engine import Engine
from shaberi_dagster.llm.types import ChatRequest, Message, Sampling

async def main(tokens):
    request = ChatRequest(resolve_endpoint(DEFAULT_MODEL), DEFAULT_MODEL, (Message("user", "Tell a story."),), Sampling(1.0, tokens))
    async with Engine({}) as engine:
        await engine.check(request.endpoint, request.model)
        print("started", flush=True)
        print((await engine.call(request)).status)

asyncio.run(main(int(sys.argv[1])))
"""
python = partial(subprocess.Popen, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_process_is_quiet_and_ends_cleanly():
    process = python([sys.executable, "-c", _BUSY, "5"])
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "started\nok\n", "")


def test_an_interrupt_in_the_middle_of_a_reply_ends_the_process():
    process = python([sys.executable, "-c", _BUSY, "7000"])
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert err.rstrip().endswith("KeyboardInterrupt")
