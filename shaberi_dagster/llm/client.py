"""A client for one endpoint: it sends a request, without retries, and classifies failures."""

import email.utils
import re
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx2
from openai import APIConnectionError, APIStatusError, AsyncOpenAI, DefaultAioHttpClient, Omit, RequestOptions

from shaberi_dagster.lake.journal.records import ErrorClass, Usage
from shaberi_dagster.llm.providers.base import Provider
from shaberi_dagster.llm.providers.registry import DEFAULT_PROVIDER, PROVIDERS
from shaberi_dagster.llm.reply import (
    ErrorDetails,
    MalformedReplyError,
    ReceivedReply,
    decoded,
    error_details,
    failure_in,
    without_surrogates,
)
from shaberi_dagster.llm.stopping import UNKNOWN_MODEL
from shaberi_dagster.util.errors import EndpointError
from shaberi_dagster.util.names import did_you_mean

_MESSAGE_LENGTH = 300
_SECRET_LENGTH = 6  # shorter values (`x`, `none`) are placeholders that servers without keys are given
_REPLY_SECRET_LENGTH = 16  # shorter ones (`ollama`, `password`) may be words of an answer
_MASK = b"[key]"
_SECRET_LOOK = re.compile(r"(?i:\bbearer\s+)\S+|\b(?:sk|pk|rk|gsk|hf|xai)[-_][\w*.-]{6,}|\bAIza[\w*-]{10,}")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")  # what could steer a terminal
# A 403 that is about one prompt and says nothing about the key.
_FLAGGED = re.compile(r"moderation|input was flagged|content[ _-]?(?:policy|filter)", re.IGNORECASE)
_REJECTED = frozenset({HTTPStatus.TOO_MANY_REQUESTS, 529})
_REFUSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PAYMENT_REQUIRED})
_NOT_THERE = frozenset(
    {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.GONE, HTTPStatus.NOT_IMPLEMENTED}
)
_PASSING = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY})
# Sent as 429, but waiting does not help: the account behind the key is spent.
_SPENT = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
_UNSUPPORTED = frozenset({"unsupported_parameter", "unsupported_value"})
_FIELD = re.compile(r"[\w.]{1,60}")
_VERSIONED = re.compile(r"/v\d")
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_certificates = cache(httpx2.create_ssl_context)
"""Whom an endpoint's certificate is trusted from; read once, in 30 ms. SSL_CERT_FILE names others."""
_no_certificates = partial(ssl.SSLContext, ssl.PROTOCOL_TLS_CLIENT)
"""For addresses without TLS: it trusts no one, and reads no file."""
_OWNER_AT_OLLAMA = "library"
"""Of models in Ollama's list, which is complete; it looks at a request's messages before its model."""
_CONNECTION_ERRORS = (APIConnectionError, aiohttp.ClientError, OSError)


@dataclass(frozen=True)
class ClientSettings:
    """Timeouts and limits of a client.

    Attributes:
        connect_seconds: Longest wait for a connection.
        read_seconds: Longest silence while waiting for a reply.
        check_seconds: Longest wait of each request of `ChatClient.check`.
        reply_bytes: Largest reply accepted.
        connections: Most connections at once; high, since the limiter is what rules.
    """

    connect_seconds: float = 10.0
    read_seconds: float = 600.0
    check_seconds: float = 15.0
    reply_bytes: int = 16 * 1024 * 1024
    connections: int = 1000


class CallFailure(Exception):  # noqa: N818 - an outcome that is classified, not a fault of the program
    """An attempt that failed.

    Args:
        error_class: What kind of failure, which decides whether to try again.
        message: One line, without secrets.
        retry_after: Seconds that the server asks us to wait.
        field: The field of the body that the server does not take, if that is the reason; `reasoning.effort` is within
            `reasoning`.

    Attributes:
        usage: What the attempt used all the same.
    """

    usage = Usage()

    def __init__(
        self, error_class: ErrorClass, message: str, retry_after: float | None = None, field: str | None = None
    ) -> None:
        super().__init__(message)
        self.error_class: ErrorClass = error_class
        self.message, self.retry_after, self.field = message, retry_after, field


class ChatClient:
    """Calls one endpoint, without retries.

    Args:
        base_url: The address up to and including `/v1`.
        key: The API key, None to send none.
        headers: Further headers.
        settings: Timeouts and limits.
        provider: The form of its calls; OpenAI's chat form by default.
    """

    def __init__(
        self,
        base_url: str,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        settings: ClientSettings | None = None,
        provider: Provider | None = None,
    ) -> None:
        self._provider = provider or PROVIDERS.use(DEFAULT_PROVIDER)()
        self._base_url, self._key, self._settings = base_url, key, settings or ClientSettings()
        parts = urlsplit(base_url)
        is_near = parts.hostname in _LOOPBACK
        seconds = httpx2.Timeout(self._settings.read_seconds, connect=self._settings.connect_seconds, pool=None)
        http = DefaultAioHttpClient(
            follow_redirects=False,
            timeout=seconds,
            limits=httpx2.Limits(max_connections=self._settings.connections),
            event_hooks={"response": [self._cap]},
            trust_env=not is_near,  # a proxy is for other machines
            verify=_no_certificates() if is_near and parts.scheme == "http" else _certificates(),
        )
        # Identity: a compressed reply could be of any size when unpacked.
        self._secrets = [value for value in (key, *(headers or {}).values()) if value and len(value) >= _SECRET_LENGTH]
        own = {"Accept-Encoding": "identity", **(headers or {}), **self._provider.headers(key)}
        self._sdk = AsyncOpenAI(
            base_url=base_url,
            api_key=key or "unused",  # left out below; without one the SDK would look in os.environ
            http_client=http,
            timeout=seconds,
            max_retries=0,
            default_headers=own,
        )
        self._probed: set[str] = set()
        self._options: RequestOptions = {} if "Authorization" in own else {"headers": {"Authorization": Omit()}}
        self._soon: RequestOptions = {**self._options, "timeout": self._settings.check_seconds}
        # The SDK found these, and OPENAI_CUSTOM_HEADERS, in os.environ and would send them to any server.
        self._sdk.organization = self._sdk.project = None
        self._sdk._custom_headers = own  # noqa: SLF001  (no other way)

    async def send(self, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> ReceivedReply:
        """Make one attempt.

        Args:
            body: The request, as from `endpoints.request_body`.
            headers: Further ones, of this request.

        Raises:
            CallFailure: There is no reply.
        """
        try:
            response = await self._sdk.post(
                self._provider.path, body=dict(body), cast_to=httpx2.Response, options=self._with(headers)
            )
            document = decoded(response.content)
            usage = Usage()
            if (details := failure_in(document)) is None:
                reply = self._provider.reply(document)
                if (details := failure_in(document, reply)) is None:
                    names = (document.get("model"), document.get("system_fingerprint"))
                    model, state = (self._line(name) if isinstance(name, str) else None for name in names)
                    return replace(reply, reply_model=model, system_fingerprint=state)
                usage = reply.usage
            # From a proxy, whose own status is 200.
            failure = self._failure(details.status or HTTPStatus.BAD_GATEWAY, details, response.headers)
            failure.usage = usage
            raise failure
        except APIStatusError as error:
            raise self._status_failure(error) from None
        except (MalformedReplyError, _RefusedReplyError) as error:
            raise CallFailure("transient", str(error)) from None
        except _CONNECTION_ERRORS as error:
            raise CallFailure("transient", self._line(f"no reply: {_cause(error)}")) from None

    async def check(self, model: str) -> None:
        """Ask the endpoint for its models, to learn at once that it is not there, refuses the key or lacks the model.

        Any other answer passes, since not all servers list models. A list without the model is no proof: lists leave
        out aliases, deployments, and what a proxy passes on. Then, and where there is no list, `_probe` finds out.

        Args:
            model: Whom a stage is about to ask.

        Raises:
            EndpointError: It cannot be reached, redirects, refuses us, or has no such path or model.
        """
        listed: dict[str, str] = {}
        try:
            listed = _listed(await self._sdk.get("/models", cast_to=httpx2.Response, options=self._soon))
        except APIStatusError as error:
            message = self._status_failure(error).message
            if error.status_code in _REFUSED:
                raise EndpointError(f"endpoint {self._base_url} refuses us: {message}") from None
            if error.response.is_redirect:
                raise EndpointError(f"endpoint {self._base_url} has moved: {message}") from None
            if error.status_code not in _NOT_THERE:
                return
        except (MalformedReplyError, _RefusedReplyError):
            return  # a long list is a list
        except _CONNECTION_ERRORS as error:
            raise EndpointError(f"endpoint {self._base_url} cannot be reached: {self._line(_cause(error))}") from None
        if model in self._probed or any(_is_named(model, name) for name in listed):
            return
        near = f"; {self._line(did_you_mean(model, listed, 'it has'))}" if listed else ""
        if _OWNER_AT_OLLAMA in listed.values() and not model.endswith("cloud"):
            raise EndpointError(f"endpoint {self._base_url} does not have {model}{near}")
        await self._probe(model, near)
        self._probed.add(model)

    async def _probe(self, model: str, near: str) -> None:
        """Ask a model nothing, which no server answers or is paid for, to learn that the path or the model is wrong.

        Any other failure passes.

        Args:
            model: Whom.
            near: What to add about names that the server lists.

        Raises:
            EndpointError: It has no such path or model, or refuses us.
        """
        body = self._provider.body(model, (), {"max_tokens": 1})  # a server that continues all the same is soon done
        with suppress(_RefusedReplyError, *_CONNECTION_ERRORS):
            try:
                await self._sdk.post(
                    self._provider.path,
                    body=body,
                    cast_to=httpx2.Response,
                    options=self._soon,
                )
            except APIStatusError as error:
                failure = self._status_failure(error)
                if failure.error_class == "authentication":
                    raise EndpointError(f"endpoint {self._base_url} refuses us: {failure.message}") from None
                is_unknown = UNKNOWN_MODEL.search(failure.message) and "max_tokens" not in failure.message
                if error.status_code in _NOT_THERE or is_unknown:
                    if error.status_code in _NOT_THERE and not _VERSIONED.search(urlsplit(self._base_url).path):
                        near = near or "; addresses of such servers usually end in /v1"
                    said = failure.message.rstrip(".") if near else failure.message
                    raise EndpointError(f"endpoint {self._base_url} takes no calls of {model}: {said}{near}") from None

    def _with(self, headers: Mapping[str, str] | None) -> RequestOptions:
        if not headers:
            return self._options
        return {**self._options, "headers": {**self._options.get("headers", {}), **headers}}

    async def close(self) -> None:
        """Close all connections."""
        await self._sdk.close()

    async def _cap(self, response: httpx2.Response) -> None:
        """Before anything is read: let the body stop at the limit, and take our secrets out of all that came."""
        if response.headers.get("content-encoding", "identity") != "identity":
            raise _RefusedReplyError("the server compressed its reply, which it was told not to")
        least = _REPLY_SECRET_LENGTH if response.is_success else _SECRET_LENGTH
        pattern = _echo([secret for secret in self._secrets if len(secret) >= least])
        if pattern:
            for name, value in response.headers.items():
                response.headers[name] = pattern.sub(_MASK, value.encode()).decode(errors="replace")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _CappedStream(response.stream, self._settings.reply_bytes, pattern)

    def _status_failure(self, error: APIStatusError) -> CallFailure:
        details = error_details(error.body)
        if error.response.is_redirect:
            address = _address(error.response.headers.get("location", ""))
            details = ErrorDetails(f"redirects to {address}, which is not followed; give the final address")
        return self._failure(error.status_code, details, error.response.headers)

    def _failure(self, status: int, details: ErrorDetails, headers: httpx2.Headers) -> CallFailure:
        message = self._line(f"HTTP {status}: {details.message}")
        is_field = details.codes & _UNSUPPORTED and _FIELD.fullmatch(self._line(details.parameter))
        field = details.parameter if is_field else None
        return CallFailure(error_class_of(status, details), message, _retry_after(headers), field)

    def _line(self, text: str) -> str:
        """Shorten a text to one line, without secrets or anything that looks like one."""
        for secret in self._secrets:
            text = text.replace(secret, "[key]")
        text = _CONTROLS.sub(" ", without_surrogates(text))
        line = _SECRET_LOOK.sub("[key]", " ".join(text.split()))
        return line if len(line) <= _MESSAGE_LENGTH else line[: _MESSAGE_LENGTH - 1] + "…"


class _RefusedReplyError(Exception):
    """The reply is too large, or comes in a form that could hide its size."""


def _echo(secrets: Sequence[str]) -> re.Pattern[bytes] | None:
    """Match secrets in what a server sends, also where JSON or an address escapes characters of them."""
    characters = (
        [rf"(?:\\?{re.escape(char)}|\\u{ord(char):04x}|%{ord(char):02x})" for char in secret] for secret in secrets
    )
    spelled = "|".join(map("".join, characters))
    return re.compile(f"(?i:{spelled})".encode()) if spelled else None


class _CappedStream(httpx2.AsyncByteStream):
    """A body that may not be larger than the limit, without our secrets."""

    def __init__(self, stream: httpx2.AsyncByteStream, limit: int, secrets: re.Pattern[bytes] | None) -> None:
        self._stream, self._limit, self._secrets = stream, limit, secrets

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = bytearray()
        async for part in self._stream:
            body += part
            if len(body) > self._limit:
                raise _RefusedReplyError(f"the reply is larger than {self._limit} bytes")
        yield self._secrets.sub(_MASK, body) if self._secrets else bytes(body)

    async def aclose(self) -> None:
        await self._stream.aclose()


def _listed(response: httpx2.Response) -> dict[str, str]:
    """The owner of each model in a list, by its name.

    Raises:
        MalformedReplyError: It is no list of models.
    """
    entries = decoded(response.content).get("data")
    if not isinstance(entries, list):
        raise MalformedReplyError("the reply is no list of models")
    models = [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str)]
    return {without_surrogates(model["id"]): str(model.get("owned_by")) for model in models}


def _is_named(model: str, listed: str) -> bool:
    """Return whether a listed name is the model's: `llama3` is `llama3:latest` at Ollama, Gemini has `models/…`."""
    wanted, name = (text.casefold().removesuffix(":latest") for text in (model, listed))
    return wanted == name or name.endswith(f"/{wanted}") or wanted.endswith(f"/{name}")


def error_class_of(status: int, details: ErrorDetails) -> ErrorClass:
    """Classify a failure by its HTTP status and the provider's words."""
    if status == HTTPStatus.FORBIDDEN and any(map(_FLAGGED.search, (details.message, *details.codes))):
        return "permanent"
    if status in _REFUSED or details.codes & _SPENT:
        return "authentication"
    if status in _REJECTED:
        return "rate_limit"
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _PASSING:
        return "transient"
    return "permanent"


def _retry_after(headers: httpx2.Headers) -> float | None:
    """Seconds to wait, from `retry-after-ms`, or `Retry-After` in seconds or as a date."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(KeyError, ValueError):
            return max(0.0, float(headers[name]) * unit)
    with suppress(KeyError, ValueError, TypeError):
        moment = email.utils.parsedate_to_datetime(headers["retry-after"])
        return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    return None


def _address(location: str) -> str:
    """Scheme and host of a redirect's target."""
    with suppress(ValueError):
        target = urlsplit(location)
        if target.netloc:
            return f"{target.scheme}://{target.netloc}"
    return "another path"


def _cause(error: BaseException) -> str:
    """The innermost message and type: the SDK's own says only that the connection failed."""
    while error.__cause__ is not None:
        error = error.__cause__
    text, name = str(error), type(error).__name__
    return f"{text} ({name})" if text else name
