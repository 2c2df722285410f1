"""A small OpenAI-compatible endpoint for tests: seeded faults, capacity, and counters of what it was asked.

In a test: `with running_mock(latency=0.05, capacity=6) as mock:` and then `mock.base_url` and `mock.stats()`.
A model's name can change its options: `mock@latency:0.5@capacity:6`.
As a process: `python tests/mock_endpoint.py --port 8100 --latency 0.05`; its counters are at `/stats`. Its first line is
its base URL, which tells the port that `--port 0` found.

Whether a request fails is a hash of (seed, kind of fault, request, how often it came): a retry draws anew, and a
second run draws the same. A prompt with "FINAL SCORE" is answered like a judge does, others with Japanese filler.
"""

import argparse
import asyncio
import collections
import contextlib
import hashlib
import json
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

from aiohttp import web

_FILLER = "日本の四季は豊かで、春には桜が咲き、夏には祭りがあり、秋には紅葉が山を染め、冬には雪が降ります。"
_SCALE = re.compile("点から([0-9]+)点")
Scripted = str | bytes | dict[str, Any] | web.Response


@dataclass
class Options:
    """What the endpoint does; may be changed while it runs. The `p_` are shares of requests, 0 to 1.

    Attributes:
        latency: Seconds until an answer.
        capacity: Requests at once for each model, more get 429; 0 is unlimited.
        retry_after: The 429's `Retry-After` in seconds; 0 leaves the header out.
        p_429: Rejected at random.
        p_500: Answered with status 500.
        p_reset: The connection is reset.
        p_hang: Never answered.
        p_malformed: Answered with half a JSON document.
        p_truncated: The connection ends in the middle of the body.
        p_empty: Answered without choices.
        key: The bearer token that is required, "" for none.
        models: Names of the only models that there are, with spaces between; "" is any.
        listed: Names in its list of models; "" is those of `models`.
        owner: Who owns the models of the list.
        seed: Of all draws.
        length: Characters of filler.
        script: What to reply instead: a function of (request body, number of the request from 0), or a list with one
            item for each request (the last one repeats). A str is the content of a reply, a dict its document,
            bytes its body, a `web.Response` is sent as it is.
    """

    latency: float = 0.0
    capacity: int = 0
    retry_after: float = 1.0
    p_429: float = 0.0
    p_500: float = 0.0
    p_reset: float = 0.0
    p_hang: float = 0.0
    p_malformed: float = 0.0
    p_truncated: float = 0.0
    p_empty: float = 0.0
    key: str = ""
    models: str = ""
    listed: str = ""
    owner: str = "mock"
    seed: int = 0
    length: int = 200
    script: Callable[[dict[str, Any], int], Scripted] | list[Scripted] | None = None


@dataclass
class MockEndpoint:
    """A running endpoint.

    Attributes:
        options: What it does.
        base_url: Its address, ending in `/v1`.
        bodies: The last requests' bodies.
        headers: The last requests' headers.
    """

    options: Options
    base_url: str = ""
    bodies: collections.deque[dict[str, Any]] = field(default_factory=lambda: collections.deque(maxlen=1000))
    headers: collections.deque[dict[str, str]] = field(default_factory=lambda: collections.deque(maxlen=1000))
    _counts: collections.Counter[str] = field(default_factory=collections.Counter)
    _asked: collections.Counter[str] = field(default_factory=collections.Counter)
    _answered: collections.Counter[str] = field(default_factory=collections.Counter)
    _in_flight: int = 0
    _lanes: collections.Counter[str] = field(default_factory=collections.Counter)
    _closing: asyncio.Event = field(default_factory=asyncio.Event)

    def stats(self) -> dict[str, Any]:
        """Counters: `requests`, `answered`, `rejected` (429), one for each fault, `in_flight`, `most_in_flight`,
        `abandoned` (the client went away before the answer), `repeated` (answers beyond the first to the same body),
        `model_lists` (if `/v1/models` was asked for), `probes` (if a request had no message; it is none of the others),
        and `keys`: body hash to asked and answered."""
        names = ("requests", "answered", "rejected", "most_in_flight", "abandoned")
        counts = {name: self._counts[name] for name in names}
        repeated = sum(number - 1 for number in self._answered.values())
        keys = {key: {"asked": number, "answered": self._answered[key]} for key, number in self._asked.items()}
        return counts | dict(self._counts) | {"in_flight": self._in_flight, "repeated": repeated, "keys": keys}

    def application(self) -> web.Application:
        """The routes."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/openai/v1/chat/completions", self._chat)  # Azure's path
        app.router.add_post("/v1/messages", self._other_form)
        app.router.add_post("/v1/responses", self._other_form)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/stats", self._show_stats)
        app.router.add_get("/api/ps", self._loaded)
        return app

    def stop_waiting(self) -> None:
        """Let hanging requests go."""
        self._closing.set()

    async def _show_stats(self, _: web.Request) -> web.Response:
        return web.json_response(self.stats())

    async def _models(self, request: web.Request) -> web.Response:
        self._counts["model_lists"] += 1
        names = (self.options.listed or self.options.models or "mock").split()
        models = [{"id": name, "object": "model", "owned_by": self.options.owner} for name in names]
        return self._refusal(request) or web.json_response({"object": "list", "data": models})

    async def _loaded(self, _: web.Request) -> web.Response:
        """The models in memory, as Ollama says it."""
        return web.json_response({"models": [{"name": name} for name in self.options.models.split()]})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if not body["messages"]:  # a look whether the model is there
            self._counts["probes"] += 1
            refusal = self._refusal(request) or self._unknown(body["model"])
            return refusal or web.json_response({"error": {"message": "[] is too short - 'messages'"}}, status=400)
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        number = self._counts["requests"]
        self._counts["requests"] += 1
        if refusal := self._refusal(request) or self._unknown(body["model"]):
            return refusal
        key = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        self._asked[key] += 1
        options = self._options_of(body["model"])
        lane = body["model"]
        if (options.capacity and self._lanes[lane] >= options.capacity) or self._draws("p_429", key, options):
            return self._rejection(options)
        self._in_flight += 1
        self._lanes[lane] += 1
        self._counts["most_in_flight"] = max(self._counts["most_in_flight"], self._in_flight)
        try:
            await asyncio.sleep(options.latency)
            return await self._reply(request, body, key, number, options)
        except asyncio.CancelledError:
            self._counts["abandoned"] += 1
            raise
        finally:
            self._in_flight -= 1
            self._lanes[lane] -= 1

    async def _other_form(self, request: web.Request) -> web.Response:
        """A reply in Anthropic's form, or in that of OpenAI's responses, without any of the faults."""
        body = await request.json()
        messages = body.get("messages") or body.get("input")
        if not messages:
            return web.json_response({"error": {"message": "no messages"}}, status=400)
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        self._counts["requests"] += 1
        parts = [{"type": "text", "text": self._scripted({**body, "messages": messages}, self._counts["requests"] - 1)}]
        usage = {"input_tokens": 9, "output_tokens": 9}
        if request.path.endswith("/messages"):
            return web.json_response({"content": parts, "stop_reason": "end_turn", "usage": usage})
        output = [{"type": "message", "content": [part | {"type": "output_text"} for part in parts]}]
        return web.json_response({"status": "completed", "output": output, "usage": usage})

    def _refusal(self, request: web.Request) -> web.Response | None:
        sent = request.headers.get("Authorization", "")
        if not self.options.key or sent == f"Bearer {self.options.key}":
            return None
        message = f"Incorrect API key provided: {sent.removeprefix('Bearer ')}"  # as providers do, to see it kept out
        return web.json_response({"error": {"message": message, "code": "invalid_api_key"}}, status=401)

    def _unknown(self, model: str) -> web.Response | None:
        if not self.options.models or model in self.options.models.split():
            return None
        return web.json_response({"error": {"message": f"The model `{model}` does not exist."}}, status=404)

    def _rejection(self, options: Options) -> web.Response:
        self._counts["rejected"] += 1
        wait = options.retry_after
        headers = {"Retry-After": f"{wait:g}"} if wait else {}
        return web.json_response({"error": {"message": "Rate limit reached"}}, status=429, headers=headers)

    async def _reply(
        self, request: web.Request, body: dict[str, Any], key: str, number: int, options: Options
    ) -> web.StreamResponse:
        if self._draws("p_hang", key, options):
            await self._closing.wait()
            return web.Response(status=504)
        if self._draws("p_500", key, options):
            return web.json_response({"error": {"message": "The server had an error"}}, status=500)
        if self._draws("p_reset", key, options):
            return _abort(request)
        scripted = self._scripted(body, number)
        if isinstance(scripted, web.Response):
            return scripted
        document = scripted if isinstance(scripted, dict) else completion(body, scripted)
        payload = scripted if isinstance(scripted, bytes) else json.dumps(document, ensure_ascii=False).encode()
        if self._draws("p_empty", key, options):
            payload = json.dumps(document | {"choices": []}).encode()
        if self._draws("p_malformed", key, options):
            payload = payload[: len(payload) // 2]
        if self._draws("p_truncated", key, options):
            response = web.StreamResponse(headers={"Content-Length": str(len(payload))})
            await response.prepare(request)
            await response.write(payload[: len(payload) // 2])
            return _abort(request)
        self._counts["answered"] += 1
        self._answered[key] += 1
        return web.Response(body=payload, content_type="application/json")

    def _scripted(self, body: dict[str, Any], number: int) -> Scripted:
        script = self.options.script
        if callable(script):
            return script(body, number)
        if script is not None:
            return script[min(number, len(script) - 1)]
        return content_for(body, self.options.length)

    def _options_of(self, model: str) -> Options:
        """The options, with those that the model's name sets: `mock@latency:0.5@p_429:0.02`; unknown ones are names."""
        settings = dict(pair.split(":", 1) for pair in model.split("@")[1:] if ":" in pair)
        known = {name: text for name, text in settings.items() if hasattr(Options, name)}
        if not known:
            return self.options  # itself: it may be changed while requests are in flight
        return replace(self.options, **{name: type(getattr(Options, name))(text) for name, text in known.items()})

    def _draws(self, fault: str, key: str, options: Options) -> bool:
        share = getattr(options, fault)
        drawn = share > 0 and _hash(options.seed, fault, key, self._asked[key]) % 10_000 < share * 10_000
        self._counts[fault] += drawn
        return drawn


def content_for(body: dict[str, Any], length: int = 200) -> str:
    """The text that the endpoint answers a request with."""
    prompt = "\n".join(str(message["content"]) for message in body["messages"])
    number = _hash(body["model"], prompt)
    if "FINAL SCORE" in prompt:
        highest = int(scale[1]) if (scale := _SCALE.search(prompt)) else 10
        return f"回答は質問におおむね沿っています。\nFINAL SCORE: {1 + number % highest}"
    start = number % len(_FILLER)
    return (_FILLER * (2 + length // len(_FILLER)))[start : start + length]


def completion(body: dict[str, Any], content: str | bytes, **message: Any) -> dict[str, Any]:
    """A whole reply document; tokens are counted as characters."""
    text = content if isinstance(content, str) else ""
    prompt = sum(len(str(one["content"])) for one in body["messages"])
    usage = {"prompt_tokens": prompt, "completion_tokens": len(text), "total_tokens": prompt + len(text)}
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": "stop"}
    return {"id": "mock", "object": "chat.completion", "model": body["model"], "choices": [choice], "usage": usage}


@contextlib.contextmanager
def running_mock(tls: ssl.SSLContext | None = None, port: int = 0, **options: Any) -> Iterator[MockEndpoint]:
    """An endpoint on a port of 127.0.0.1 (0 finds a free one), in a thread of its own, with the given `Options`;
    https with `tls`."""
    mock, started = MockEndpoint(Options(**options)), threading.Event()
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(mock.application(), access_log=None, shutdown_timeout=0.5, handler_cancellation=True)

    async def start() -> None:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls)
        await site.start()
        mock.base_url = f"http{'s' if tls else ''}://127.0.0.1:{runner.addresses[0][1]}/v1"
        started.set()

    async def stop() -> None:
        mock.stop_waiting()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_forever, name="mock-endpoint", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(start(), loop).result(timeout=60)
        yield mock
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(timeout=60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _abort(request: web.Request) -> web.Response:
    """End the connection with a reset."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _hash(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256("\0".join(map(str, parts)).encode()).digest()[:8], "big")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8100)
    for option in fields(Options):
        if option.name != "script":
            parser.add_argument(f"--{option.name.replace('_', '-')}", type=type(option.default), default=option.default)
    values = vars(parser.parse_args())
    listening = socket.create_server(("127.0.0.1", values.pop("port")))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/v1", flush=True)  # noqa: T201
    application = MockEndpoint(Options(**values)).application()
    web.run_app(application, sock=listening, access_log=None, print=None, handler_cancellation=True)


if __name__ == "__main__":
    main()
