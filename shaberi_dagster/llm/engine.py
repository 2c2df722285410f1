"""The call engine: all calls of a process go through it, each with its endpoint's limiter, retries and deadline."""

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

from shaberi_dagster.lake.journal.records import Call, Usage
from shaberi_dagster.llm.budget import Budget
from shaberi_dagster.llm.client import CallFailure, ChatClient, ClientSettings
from shaberi_dagster.llm.embedded import SLOTS, start_embedded
from shaberi_dagster.llm.endpoints import (
    EMBEDDED_URL,
    api_key,
    asked_parameter,
    extra_headers,
    provider_of,
    request_body,
    request_headers,
    served_name,
)
from shaberi_dagster.llm.keys import Pair, pairs_named
from shaberi_dagster.llm.limiter import Limiter, LimiterSettings, Outcome, make_limiter
from shaberi_dagster.llm.reply import ReceivedReply
from shaberi_dagster.llm.request import ChatRequest, Endpoint
from shaberi_dagster.llm.stopping import LEAVE_OUT, NO_SYSTEM_ROLE

_ABOUT_ROLES = re.compile(r"(?i)\brole|\bsystem[ _-]?(?:message|prompt|instruction)")
_MOST_DOUBLINGS = 30  # a short Retry-After allows thousands of attempts, and 2**1024 is no float


@dataclass(frozen=True)
class RetrySettings:
    """Settings of the repetition of failed attempts.

    A rate limit (429, 529) is repeated until the deadline, a transient failure a few times, others never.

    Attributes:
        transient_attempts: Most transient failures of one call.
        first_delay_seconds: Delay after the first failure; it doubles with each further one, but for rate limits where
            the limiter spares the server. Half of every delay is random, so that calls which failed together come back
            apart.
        longest_delay_seconds: Never longer, unless the server says so (Retry-After).
        deadline_seconds: Total time of a call from its first attempt, backoff included.
    """

    transient_attempts: int = 6
    first_delay_seconds: float = 1.0
    longest_delay_seconds: float = 60.0
    deadline_seconds: float = 1800.0


class Engine:
    """Makes calls; an async context manager, one for each process and event loop.

    Args:
        environment: Where API keys are read from.
        limiter: How the limiters behave that all stages share, one for each endpoint and key.
        retry: When a failed attempt is repeated.
        client: Timeouts and size limits.
        embedded: Starts the embedded server for a model, or finds it running, and returns its base URL;
            called in a thread.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        limiter: LimiterSettings | None = None,
        retry: RetrySettings | None = None,
        client: ClientSettings | None = None,
        embedded: Callable[[str], str] = start_embedded,
    ) -> None:
        self._environment, self._embedded = environment, embedded
        self._limiter_settings = limiter or LimiterSettings()
        self._retry, self._client_settings = retry or RetrySettings(), client or ClientSettings()
        self._limiters: dict[Endpoint, Limiter] = {}
        self._clients: dict[tuple[Endpoint, frozenset[Pair]], ChatClient] = {}
        self._starting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        clients = list(self._clients.values())
        self._clients.clear()
        for client in clients:
            await client.close()

    def limiter(self, endpoint: Endpoint) -> Limiter:
        """The endpoint's limiter, shared by everything that calls it."""
        if endpoint not in self._limiters:
            embedded = endpoint.base_url == EMBEDDED_URL
            settings = LimiterSettings(fixed=SLOTS) if embedded else self._limiter_settings
            self._limiters[endpoint] = make_limiter(settings)
        return self._limiters[endpoint]

    def limit_by(self, settings: LimiterSettings) -> None:
        """Use limiters with these settings from now on; what they have learned stays unless the settings change."""
        if settings != self._limiter_settings:
            self._limiter_settings = settings
            self._limiters.clear()

    def give_up_after(self, seconds: float) -> None:
        """Let a call take so long from now on, from its first attempt, backoff included."""
        self._retry = replace(self._retry, deadline_seconds=seconds)

    async def check(self, endpoint: Endpoint, model: str) -> None:
        """See that the endpoint is there, takes our key and has the model, before a stage makes its calls.

        Raises:
            ConfigurationError: Its key is missing, or the embedded model is unknown.
            EndpointError: It cannot be reached, refuses us, or has no such model.
        """
        client = await self._client(endpoint, model)
        if endpoint.base_url != EMBEDDED_URL:  # which has been started with this model
            await client.check(served_name(model, endpoint.base_url))

    def call(
        self,
        request: ChatRequest,
        budget: Budget | None = None,
        objection: Callable[[], str | None] = lambda: None,
        repeating: Callable[[CallFailure], object] = lambda _: None,
    ) -> Coroutine[Any, Any, Call]:
        """Make one call, to its end: the reply, or the error it ended with.

        Args:
            request: What to ask.
            budget: Asked before each attempt, and told what the call used.
            objection: Likewise asked: why the call need not be made any more.
            repeating: Told why an attempt failed that is made again.

        Raises:
            ConfigurationError: The endpoint's key is missing.
        """
        # A call that there is no budget for needs neither key nor server.
        client = partial(self._client, request.endpoint, request.model)
        limiter = self.limiter(request.endpoint)
        return _Attempts(client, limiter, request, self._retry, budget or Budget(), objection, repeating).run()

    async def _client(self, endpoint: Endpoint, model: str) -> ChatClient:
        # A key that one command of this process may send is not the next one's.
        place = endpoint, pairs_named()
        if place in self._clients:
            return self._clients[place]
        async with self._starting:
            if place not in self._clients:
                base_url, key = endpoint.base_url, api_key(endpoint, self._environment)
                if base_url == EMBEDDED_URL:
                    base_url = await asyncio.to_thread(self._embedded, model)
                headers = extra_headers(endpoint, self._environment)
                self._clients[place] = ChatClient(
                    base_url,
                    key,
                    headers,
                    self._client_settings,
                    provider_of(endpoint),
                )
            return self._clients[place]


class _Attempts:
    """The attempts of one call."""

    def __init__(  # noqa: PLR0917
        self,
        client: Callable[[], Awaitable[ChatClient]],
        limiter: Limiter,
        request: ChatRequest,
        retry: RetrySettings,
        budget: Budget,
        objection: Callable[[], str | None],
        repeating: Callable[[CallFailure], object],
    ) -> None:
        self._client, self._limiter, self._request, self._retry = client, limiter, request, retry
        self._budget, self._objection, self._repeating = budget, objection, repeating
        self._has_system_role = any(message.role == "system" for message in request.messages)
        self._body, self._headers = request_body(request), request_headers(request)
        self._made = self._transient = self._rejections = 0
        self._latency, self._used = 0.0, Usage()  # by attempts that failed
        self._deadline: asyncio.Timeout | None = None

    async def run(self) -> Call:
        """Make them until one succeeds or the last one has failed."""
        retrying = AsyncRetrying(
            retry=retry_if_exception(_is_passing), wait=self._delay, stop=self._is_over, reraise=True
        )
        try:
            # Its time starts with the first slot: waiting for one's turn is no one's failure.
            async with asyncio.timeout(None) as self._deadline:
                reply: ReceivedReply = await retrying(self._attempt)
        except TimeoutError:
            return self._failed(self._out_of_time("no reply"))
        except CallFailure as failure:
            return self._failed(failure)
        finally:
            retrying.iter_state.reset()  # it has methods of its own: a cycle that would keep all of a stage
        return self._ended(
            "ok", error_class=None, error_message=None, **vars(reply) | {"usage": reply.usage + self._used}
        )

    def _failed(self, failure: CallFailure) -> Call:
        refused = failure.error_class == "authentication"
        message = _refusal(self._request.endpoint, failure) if refused else failure.message
        if failure.field:
            message += f" - {LEAVE_OUT.format(name=asked_parameter(self._request, failure.field))}"
        elif failure.error_class == "permanent" and self._has_system_role and _ABOUT_ROLES.search(message):
            message += f" - {NO_SYSTEM_ROLE}"
        no_reply = {"content": None, "reasoning": None, "finish_reason": None, "usage": self._used}
        return self._ended("error", error_class=failure.error_class, error_message=message, **no_reply)

    def _ended(self, status: Literal["ok", "error"], **outcome: Any) -> Call:
        call = Call(
            request_hash=self._request.request_hash,
            model=self._request.model,
            base_url=self._request.endpoint.base_url,
            status=status,
            attempts=self._made,
            latency_seconds=self._latency,
            created_at=datetime.now(UTC),
            **outcome,
        )
        self._budget.count(call)
        return call

    async def _attempt(self) -> ReceivedReply:
        slot = await self._limiter.acquire(again=self._rejections > 0)
        outcome: Outcome = "other"
        try:
            if objection := self._budget.objection():
                self._budget.refused += 1
                raise CallFailure("budget", objection)  # noqa: TRY301 - the slot is free again
            if objection := self._objection():
                raise CallFailure("stopped", objection)  # noqa: TRY301
            client = await self._client()
            if self._deadline is not None and self._deadline.when() is None:
                self._deadline.reschedule(asyncio.get_running_loop().time() + self._retry.deadline_seconds)
            self._made += 1
            started = time.monotonic()
            try:
                reply = await client.send(self._body, self._headers)
            finally:
                self._latency = time.monotonic() - started
            outcome = "answered"
        except CallFailure as failure:
            self._used += failure.usage
            self._transient += failure.error_class == "transient"
            if failure.error_class == "rate_limit":
                self._rejections += 1
                outcome = "rejected"
            raise
        finally:
            self._limiter.release(slot, outcome)
        return reply

    def _delay(self, state: RetryCallState) -> float:
        failure = _failure(state)
        self._repeating(failure)
        if failure.retry_after:
            return failure.retry_after + random.uniform(0.0, 0.1)  # noqa: S311 - jitter
        spared = failure.error_class == "rate_limit" and self._limiter.spares_the_server
        doublings = 0 if spared else min(self._made - 1, _MOST_DOUBLINGS)
        longest = min(self._retry.first_delay_seconds * 2**doublings, self._retry.longest_delay_seconds)
        return random.uniform(longest / 2, longest)  # noqa: S311 - jitter

    def _is_over(self, state: RetryCallState) -> bool:
        if self._transient >= self._retry.transient_attempts:
            return True
        due = self._deadline.when() if self._deadline is not None else None
        if due is not None and asyncio.get_running_loop().time() + state.upcoming_sleep > due:
            raise self._out_of_time(_failure(state).message, _failure(state).retry_after)
        return False

    def _out_of_time(self, last: str, retry_after: float | None = None) -> CallFailure:
        limit = f"{self._retry.deadline_seconds:g} s"
        if retry_after:
            told = f"the server asks to wait {retry_after:.4g} s, a call may take {limit} in all"
            return CallFailure("deadline", f"{told}: a longer --call-deadline lets it; last: {last}")
        return CallFailure("deadline", f"no reply within {limit}; last: {last}")


def _is_passing(error: BaseException) -> bool:
    return isinstance(error, CallFailure) and error.error_class in {"rate_limit", "transient"}


def _failure(state: RetryCallState) -> CallFailure:
    error = state.outcome.exception() if state.outcome is not None else None
    if not isinstance(error, CallFailure):
        raise TypeError("only call failures are retried")
    return error


def _refusal(endpoint: Endpoint, failure: CallFailure) -> str:
    key = f"the key in {endpoint.api_key_variable}" if endpoint.api_key_variable else "whether it needs a key"
    return f"endpoint {endpoint.base_url} refuses us ({failure.message}): check {key}"
