"""One attempt: what is sent, what comes back, and what a failure is called."""

import asyncio
import gzip
import json
import logging
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer

import pytest
from aiohttp import web

from shaberi_dagster.llm.client import CallFailure, ChatClient, ClientSettings
from shaberi_dagster.util.errors import EndpointError
from tests.mock_endpoint import completion, running_mock

pytestmark = pytest.mark.integration

BODY = {"model": "mock", "messages": [{"role": "user", "content": "こんにちは"}], "max_tokens": 10}
CANARY = "sk-canary-0123456789abcdef"


def send(base_url, body=BODY, key=None, **settings):
    """The reply, or the failure."""

    async def once():
        client = ChatClient(base_url, key, settings=ClientSettings(**settings))
        try:
            return await client.send(body)
        except CallFailure as failure:
            return failure
        finally:
            await client.close()

    return asyncio.run(once())


def check(base_url, key=None, model="mock", times=1, **settings):
    async def once():
        client = ChatClient(base_url, key, settings=ClientSettings(**settings))
        try:
            for _ in range(times):
                await client.check(model)
        finally:
            await client.close()

    asyncio.run(once())


def status(number, message="nope", headers=None, **error):
    def script(_body, _count):
        return web.json_response({"error": {"message": message, **error}}, status=number, headers=headers)

    return script


def test_a_reply_comes_back_and_the_body_arrives_as_it_was():
    with running_mock() as mock:
        reply = send(mock.base_url)
        assert mock.bodies[0] == BODY
    assert len(reply.content) == 200
    assert (reply.finish_reason, reply.usage.prompt_tokens) == ("stop", 5)


def test_the_key_is_sent_as_bearer_token():
    with running_mock(key=CANARY) as mock:
        assert send(mock.base_url, key=CANARY).finish_reason == "stop"


def test_no_key_means_no_header_even_if_the_environment_has_one(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"Authorization: Bearer {CANARY}\nX-Api-Key: {CANARY}")
    with running_mock() as mock:
        send(mock.base_url)
        send(mock.base_url, key="its own")
        without, with_key = map(str, mock.headers)
    assert CANARY not in without + with_key
    assert "org-secret" not in without + with_key
    assert "Authorization" not in without


def test_a_proxy_in_the_environment_is_not_used_for_this_machine(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with running_mock() as mock:
        assert send(mock.base_url).finish_reason == "stop"


@pytest.mark.parametrize(
    ("code", "error_class"),
    [
        (400, "permanent"),
        (401, "authentication"),
        (402, "authentication"),
        (403, "authentication"),
        (404, "permanent"),
        (408, "transient"),
        (413, "permanent"),
        (422, "permanent"),
        (429, "rate_limit"),
        (500, "transient"),
        (503, "transient"),
        (529, "rate_limit"),
    ],
)
def test_a_status_has_its_class_and_the_providers_words(code, error_class):
    with running_mock(script=status(code, "line one\nline two")) as mock:
        failure = send(mock.base_url)
    assert failure.error_class == error_class
    assert failure.message == f"HTTP {code}: line one line two"


def test_a_spent_account_is_a_refusal_and_not_a_rate_limit():
    with running_mock(script=status(429, "You exceeded your current quota", code="insufficient_quota")) as mock:
        assert send(mock.base_url).error_class == "authentication"


def test_an_error_inside_a_200_has_the_class_of_its_code():
    with running_mock(script=[{"error": {"message": "slow down", "code": 429}}]) as mock:
        assert send(mock.base_url).error_class == "rate_limit"
    with running_mock(script=[{"error": {"message": "upstream died"}}]) as mock:
        assert send(mock.base_url).error_class == "transient"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": "0.5"}, 0.5),
        ({"Retry-After": "7", "retry-after-ms": "250"}, 0.25),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-3"}, 0),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_its_forms(headers, seconds):
    with running_mock(script=status(429, headers=headers)) as mock:
        assert send(mock.base_url).retry_after == seconds


def test_retry_after_may_be_a_date():
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    with running_mock(script=status(429, headers={"Retry-After": moment})) as mock:
        assert 50 < send(mock.base_url).retry_after <= 100


def test_a_reply_beyond_the_cap_is_refused():
    with running_mock(length=5000) as mock:
        failure = send(mock.base_url, reply_bytes=4000)
        assert "larger than 4000 bytes" in failure.message
        assert failure.error_class == "transient"
        assert len(send(mock.base_url, reply_bytes=40_000).content) == 5000


def test_an_error_body_beyond_the_cap_is_refused_too():
    with running_mock(script=status(400, "x" * 9000)) as mock:
        assert "larger than" in send(mock.base_url, reply_bytes=4000).message


def test_a_compressed_reply_is_refused_since_it_could_be_a_bomb():
    payload = gzip.compress(json.dumps(completion(BODY, "x" * 100_000)).encode())
    script = [web.Response(body=payload, headers={"Content-Encoding": "gzip"})]
    with running_mock(script=script) as mock:
        failure = send(mock.base_url)
        assert mock.headers[0]["Accept-Encoding"] == "identity"
    assert "compressed" in failure.message


@contextmanager
def moved_to(address, code):
    """A server that sends everybody to the same path at another address."""

    class Moved(BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(code)
            self.send_header("Location", address + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_GET  # noqa: N815  (the name is the server's)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Moved) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_redirect_to_another_port_or_host_is_not_followed_and_carries_no_key(code, host):
    with running_mock() as target:
        elsewhere = target.base_url.removesuffix("/v1").replace("127.0.0.1", host)
        with moved_to(elsewhere, code) as base_url:
            failure = send(base_url, key=CANARY)
            with pytest.raises(EndpointError, match=f"has moved: .*redirects to {elsewhere}"):
                check(base_url, key=CANARY)
        assert (target.stats()["requests"], target.stats().get("model_lists")) == (0, None)
    assert failure.error_class == "permanent"
    assert elsewhere in failure.message


def test_the_key_is_kept_out_of_messages():
    with running_mock(key="right") as mock:
        failure = send(mock.base_url, key=CANARY)
    assert failure.error_class == "authentication"
    assert CANARY not in str(failure)
    assert "[key]" in str(failure)
    assert failure.__cause__ is None


@pytest.mark.parametrize("leak", ["sk-proj-abc***********wxyz", "Bearer abcdef", "AIzaSyA1234567890123456789012345678"])
def test_what_looks_like_a_key_is_kept_out_of_messages(leak):
    with running_mock(script=status(401, f"Incorrect API key provided: {leak}. Get one")) as mock:
        message = send(mock.base_url).message
    assert leak.split()[-1] not in message
    assert message.endswith("Get one")


def test_messages_are_short():
    with running_mock(script=status(400, "長い" * 5000)) as mock:
        assert len(send(mock.base_url).message) == 300


def test_the_key_is_in_no_log(caplog):
    caplog.set_level(logging.DEBUG)
    with running_mock(key=CANARY) as mock:
        send(mock.base_url, key=CANARY)
        send(mock.base_url, key=CANARY + "x")
    assert caplog.records
    assert CANARY not in caplog.text


def test_checking_names_the_endpoint_that_refuses_the_key():
    with running_mock(key="right") as mock, pytest.raises(EndpointError) as error:
        check(mock.base_url, key=CANARY)
    assert mock.base_url in str(error.value)
    assert CANARY not in str(error.value)


def test_checking_accepts_a_server_that_lists_no_models():
    served = HTTPServer(("127.0.0.1", 0), _ChatOnly)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    try:
        check(f"http://127.0.0.1:{served.server_port}/v1")
    finally:
        served.shutdown()
        served.server_close()


class _ChatOnly(BaseHTTPRequestHandler):
    """A server without a list, which objects to a request without messages."""

    def do_GET(self):
        self.send_error(404)

    def do_POST(self):
        self.send_error(400)

    def log_message(self, *_):
        """Nothing is told."""


@pytest.mark.parametrize(
    ("model", "listed", "owner", "n_probes"),
    [
        ("mock", "mock other", "vllm", 0),
        ("llama3", "llama3:latest", "library", 0),
        ("Qwen3:8b", "qwen3:8b", "library", 0),
        ("gpt-oss:120b-cloud", "llama3:latest", "library", 1),
        ("gemini-2.5-flash", "models/gemini-2.5-flash", "google", 0),
        ("alias-of-mock", "mock", "proxy", 1),
        ("vendor/mock:nitro", "vendor/mock", "proxy", 1),
    ],
)
def test_a_model_that_a_list_names_otherwise_or_lacks_is_not_refused(model, listed, owner, n_probes):
    with running_mock(listed=listed, owner=owner) as mock:
        check(mock.base_url, model=model, times=2)
        stats = mock.stats()
    assert (stats.get("probes", 0), stats["requests"]) == (n_probes, 0)


@pytest.mark.parametrize(
    ("model", "server", "said"),
    [
        ("org/lama-8b", {"models": "org/llama-8b org/other"}, "did you mean org/llama-8b?"),
        ("x", {"models": "m judge-a"}, "it has judge-a and m"),
        ("llama4", {"listed": "llama3:latest", "owner": "library"}, "does not have llama4; it has llama3:latest"),
        ("lost", {"models": "m", "listed": "an-alias"}, "does not exist; it has an-alias"),
    ],
)
def test_a_model_that_the_server_lacks_is_named_with_the_address_and_near_names(model, server, said):
    with running_mock(**server) as mock, pytest.raises(EndpointError) as error:
        check(mock.base_url, model=model)
    assert mock.stats()["requests"] == 0
    assert str(error.value).startswith(f"endpoint {mock.base_url} ")
    assert f" {model}" in str(error.value)
    assert str(error.value).endswith(said)
