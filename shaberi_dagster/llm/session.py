"""The calls of a stage: paid calls are found again, new ones are journaled before anyone sees them."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from shaberi_dagster.lake.journal.base import Claims, Journal
from shaberi_dagster.lake.journal.records import Call
from shaberi_dagster.llm.budget import Budget
from shaberi_dagster.llm.noticed import Noticed
from shaberi_dagster.llm.request import ChatRequest
from shaberi_dagster.llm.stopping import Stopping
from shaberi_dagster.util.errors import ShaberiError

if TYPE_CHECKING:  # the engine brings the SDK, a second of start-up that only calls need
    from shaberi_dagster.llm.client import CallFailure
    from shaberi_dagster.llm.engine import Engine

Lookup = Callable[[Sequence[str]], Mapping[str, Call]]
Outcome = tuple[ChatRequest, Call, bool]
"""A request, its call, and whether that was paid for before."""


class CallSession:
    """The calls of one stage of one run.

    Args:
        engine: Makes them.
        journal: Keeps them.
        stage: The stage's name, a label of every call.
        lookup: Finds paid calls in the lake and other journals by request hash.
        budget: What new calls may cost; None is unlimited.
        claims: Keeps other processes from making the same call at the same time; None lets them.
        may_take: Whether a call of another run may answer a request to a model at an address; else none is waited for.
        news: Finds what others have paid for since it was looked up; needed with claims.
        tell: Told of a server that has only failed so far.

    Attributes:
        stopping: Who is not asked any more.
        noticed: What makes replies doubtful.
        trouble: Why no one is: the disk is full or broken. Calls under way end, their replies are still written.
    """

    def __init__(
        self,
        engine: "Engine",
        journal: Journal,
        stage: str,
        lookup: Lookup,
        budget: Budget | None = None,
        *,
        claims: Claims | None = None,
        may_take: Callable[[str, str], bool] = lambda _model, _address: True,
        news: Lookup = lambda _: {},
        tell: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._engine, self._journal, self._stage, self._lookup = engine, journal, stage, lookup
        self._budget, self._claims, self._news, self._tell = budget, claims, news, tell
        self._may_take = may_take
        self._no_news = set[str]()  # addresses that have answered, or of whose failures was told
        self.stopping, self.noticed = Stopping(), Noticed()
        self.trouble: ShaberiError | None = None
        self._unwritten: list[tuple[Call, Mapping[str, str | None]]] = []
        self._paid: dict[str, Call] = {}
        self._in_flight: dict[str, asyncio.Future[Call]] = {}

    def prefetch(self, requests: Sequence[ChatRequest]) -> None:
        """Look up many paid calls at once; those in the journal are known anyway."""
        names = [request.request_hash for request in requests]
        known = self._journal.calls
        self._paid.update(self._lookup([name for name in names if name not in known]))

    def unpaid(self, requests: Sequence[ChatRequest]) -> Iterator[ChatRequest]:
        """Yield the requests that neither the journal nor a prefetch has an answer for."""
        known = self._journal.calls
        return (one for one in requests if one.request_hash not in known and one.request_hash not in self._paid)

    async def call(
        self,
        request: ChatRequest,
        labels: Mapping[str, str | None],
        *,
        lookup: bool = False,
        outcomes: list[Outcome] | None = None,
    ) -> tuple[Call, bool]:
        """The answer to a request, from what is paid for or else by a new call.

        A new call is in the journal when this returns, errors too; but an error is never reused, and a call that was
        not made, for want of budget or because its model is not asked any more, is not recorded. Of equal requests at
        the same time one makes the call and the others get its outcome, in whatever process they are.

        Args:
            request: What to ask.
            labels: Further columns of the call's row.
            lookup: Also look among the paid calls of the lake, for a request that could not be prefetched.
            outcomes: Gets the request with what is returned.

        Returns:
            The call, and whether no new call was made for it.
        """
        name = request.request_hash
        call = await self._under_way(name) or self._find_paid(request, lookup=lookup)
        is_paid = call is not None
        if call is None:
            own = self._in_flight[name] = asyncio.get_running_loop().create_future()
            try:
                claims = self._claims if self._may_take(request.model, request.endpoint.base_url) else None
                async with claims.of(name) if claims else nullcontext():
                    self._paid.update(self._news([name]) if claims else {})
                    call = self._find_paid(request, lookup=False)
                    is_paid = call is not None
                    if call is None:
                        call = await self._engine.call(
                            request, self._budget, partial(self._objection, request), partial(self._repeating, request)
                        )
                        self._count(call, labels)
                        self.noticed.count(call, request)
            except BaseException:
                own.cancel()  # those who wait try it themselves
                raise
            else:
                own.set_result(call)
            finally:
                del self._in_flight[name]
        if outcomes is not None:
            outcomes.append((request, call, is_paid))
        return call, is_paid

    async def _under_way(self, request_hash: str) -> Call | None:
        """Wait for an equal request that is being made; None: no such request, or it was cancelled."""
        while (other := self._in_flight.get(request_hash)) is not None:
            await asyncio.wait([other])
            if not other.cancelled():
                return other.result()
        return None

    def _count(self, call: Call, labels: Mapping[str, str | None]) -> None:
        self.stopping.count(call)
        if call.status == "ok":
            self._no_news.add(call.base_url)
        if call.attempts:
            self._keep(call, {"stage": self._stage, **labels})

    def _repeating(self, request: ChatRequest, failure: "CallFailure") -> None:
        address = request.endpoint.base_url
        if failure.error_class == "transient" and address not in self._no_news:
            self._no_news.add(address)
            self._tell(f"{address} has not answered yet, and is asked again: {failure.message}")

    def _objection(self, request: ChatRequest) -> str | None:
        return str(self.trouble) if self.trouble else self.stopping.objection(request)

    def _keep(self, call: Call, labels: Mapping[str, str | None]) -> None:
        try:
            self._journal.append(call, labels)
        except ShaberiError as error:
            self._unwritten.append((call, labels))
            self.trouble = self.trouble or error
        self.trouble = self.trouble or self._journal.trouble

    def end(self) -> None:
        """Try once more to write what could not be written.

        Raises:
            ShaberiError: There was trouble; with the number of replies that are lost by it.
        """
        unwritten, self._unwritten = self._unwritten, []
        for call, labels in unwritten:
            self._keep(call, labels)
        if self.trouble is None:
            return
        if lost := sum(call.status == "ok" for call, _ in self._unwritten):
            raise ShaberiError(f"{self.trouble}, but for {lost} that could not be written") from self.trouble
        raise self.trouble

    def _find_paid(self, request: ChatRequest, *, lookup: bool) -> Call | None:
        if lookup and any(self.unpaid([request])):
            self.prefetch([request])
        call = self._journal.calls.get(request.request_hash) or self._paid.get(request.request_hash)
        return call if call and call.status == "ok" else None
