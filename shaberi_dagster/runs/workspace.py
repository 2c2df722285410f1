"""Resources that every stage works with: the lake, the prompts, the call engine, and a progress reporter."""

import asyncio
import atexit
import gc
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar
from weakref import WeakValueDictionary

import polars as pl
import uvloop

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.journal.backends import journals_of
from shaberi_dagster.journal.base import Journals
from shaberi_dagster.lake.schemas import PRICES
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.llm.budget import Budget
from shaberi_dagster.llm.embedded import start_embedded
from shaberi_dagster.llm.endpoints import endpoint_prices
from shaberi_dagster.llm.prices import PriceList
from shaberi_dagster.prompts.library import PromptLibrary
from shaberi_dagster.runs.spec import CallOptions
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.progress import LogReporter, Reporter

T = TypeVar("T")
_CLEAN_UP_SECONDS = 15.0
_reporter: ContextVar[Reporter | None] = ContextVar("reporter", default=None)
_lakes = WeakValueDictionary[Path, Lake]()
"""Lakes that this process works on, each with its tables open: to open one reads all of its log."""


@contextmanager
def reporting_to(reporter: Reporter) -> Iterator[Reporter]:
    """Within this context all stages report to `reporter`."""
    token = _reporter.set(reporter)
    try:
        with reporter.watching():
            yield reporter
    finally:
        _reporter.reset(token)


class EngineThread:
    """The process's one engine on an event loop of its own.

    Stages hand it coroutines and wait. Endpoints, their limiters and the embedded model so outlive a stage, and
    interrupts arrive in the waiting thread, where Dagster and Ctrl-C expect them, never inside a callback.

    Args:
        environment: Where API keys are read from.

    Attributes:
        engine: The engine; only to be used on its own loop, through `run`.
        announce: Told when a model was loaded.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        from shaberi_dagster.llm.engine import Engine  # the SDK costs start-up time that only calls need

        gc.freeze()  # looking through all that is loaded again and again would be a tenth of a call's cost
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="llm-engine", daemon=True)
        self._thread.start()
        self.announce: Callable[[str], object] = lambda _: None
        self.engine = Engine(environment, embedded=lambda model: start_embedded(model, self.announce))
        self.run(self.engine.__aenter__())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine to its end; an interrupt of the caller cancels it and waits for its clean-up."""
        finished = threading.Event()

        async def watched() -> T:
            try:
                return await work
            finally:
                finished.set()

        future = asyncio.run_coroutine_threadsafe(watched(), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            finished.wait(_CLEAN_UP_SECONDS)
            raise

    def close(self) -> None:
        """Close all connections, stop the loop, and let what was loaded be freed."""
        self.run(self.engine.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        gc.unfreeze()


Unpublished = dict[str, dict[str, int]]
"""Runs, each with versions of tables."""


@dataclass
class Workspace:
    """Resources of an installation; `exchange.installation` adds those that stand above the stages.

    Attributes:
        settings: Its folders.
        environment: Where API keys are read from.
        default_reporter: Told about progress unless `reporting_to` says otherwise.
        options: How calls are made.
        spender: Workspaces of this process with the same one share a budget; "" has one of its own.
        unpublished: Runs that changed and whose results are to be written at the end (`publishing`); of each the
            versions of the lake's tables that its manifest tells of.
    """

    settings: Settings
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    default_reporter: Reporter = field(default_factory=lambda: LogReporter(lambda _: None))
    options: CallOptions = field(default_factory=CallOptions)
    spender: str = ""
    unpublished: Unpublished = field(default_factory=dict)

    @cached_property
    def budget(self) -> Budget:
        """Budget that all calls share."""
        own = Budget(self.options.max_cost, self.options.max_tokens_total, prices=self.prices)
        return _budgets.setdefault(self.spender, own) if self.spender else own

    @cached_property
    def lake(self) -> Lake:
        """The Delta tables: where commands get them for writing, so that the first that does upgrades an older lake."""
        folder = self.settings.warehouse
        if (lake := _lakes.get(folder)) is not None:
            lake.refresh()
            return lake
        # A copy of this workspace upgrades: the lake ends with the last of those that work on it.
        return _lakes.setdefault(folder, Lake(folder, upgrade=replace(self).upgrade))

    def upgrade(self, lake: Lake) -> None:
        """Bring a lake of an earlier format up to date.

        Raises:
            ConfigurationError: This workspace does not know how: `exchange.installation` does.
        """
        raise ConfigurationError(f"the lake in {lake.folder} has an earlier format, which nothing here upgrades")

    def begin(self, run_id: str) -> None:
        """Hook: a run is about to change."""

    def changed(self, run_id: str, *, tells: bool = True) -> None:
        """Hook: a stage of a run has ended; if it `tells`, readers are told at once and not at the end only."""

    def is_published(self, run_id: str) -> bool:  # noqa: ARG002
        """Hook: return whether what is derived from a run for readers is up to date."""
        return True

    def with_lake(self, lake: Lake) -> Self:
        """The same installation, at work on a lake as it is."""
        other = replace(self)
        other.__dict__["lake"] = lake
        return other

    @cached_property
    def prices(self) -> PriceList:
        """Current prices of calls.

        Raises:
            ConfigurationError: The user's price file is wrong.
        """
        return PriceList.read(self.settings.prices, endpoint_prices())

    def record_prices(self, called: Iterable[tuple[str, str]]) -> bool:
        """Let the table `prices` have all prices of these models, as they are known now.

        Args:
            called: Models and the base URLs where they were called.

        Returns:
            Whether the table was changed.
        """
        created = {"created_at": datetime.now(UTC)}
        changed = False
        for model, base_url in sorted(set(called)):
            rows = [vars(price) | created for price in self.prices.history(model, base_url)]
            keys = {"model": model, "base_url": base_url}
            changed |= self.lake.update("prices", pl.DataFrame(rows, schema=PRICES.schema), keys)
        return changed

    @cached_property
    def prompts(self) -> PromptLibrary:
        """The templates as they are now.

        Raises:
            ConfigurationError: The user's folder is none, so that others would be used without a word.
        """
        if not self.settings.prompts.is_dir():
            raise ConfigurationError(f"{self.settings.prompts} is no folder: SHABERI_PROMPTS names one with templates")
        return PromptLibrary(*self.settings.prompt_folders)

    @property
    def reporter(self) -> Reporter:
        """Reporter of progress."""
        return _reporter.get() or self.default_reporter

    @cached_property
    def journals(self) -> Journals:
        """Journals of finished calls, until these are in the lake."""
        return journals_of(self.settings.warehouse)

    def engine_thread(self) -> EngineThread:
        """The engine of this process, started at first use; it ends with the process."""
        pid = os.getpid()  # a forked child must not use its parent's thread
        if pid not in _threads:
            _threads[pid] = EngineThread(self.environment)
            atexit.register(_threads[pid].close)
        _threads[pid].announce = self.reporter.note
        _threads[pid].engine.limit_by(self.options.limiter_settings)
        _threads[pid].engine.give_up_after(self.options.call_deadline)
        return _threads[pid]


_threads: dict[int, EngineThread] = {}
_budgets: dict[str, Budget] = {}
