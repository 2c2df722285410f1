"""Resources that every stage works with: the lake, the prompts, the call engine, and a progress reporter."""

import asyncio
import atexit
import gc
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeVar

import polars as pl
import uvloop

from shaberi_dagster.lake.catalog import logged_versions, refresh_catalog
from shaberi_dagster.lake.journal.backends import journals_of
from shaberi_dagster.lake.journal.base import Journals
from shaberi_dagster.lake.schemas import PRICES
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.llm.budget import Budget
from shaberi_dagster.llm.embedded import start_embedded
from shaberi_dagster.llm.endpoints import endpoint_prices
from shaberi_dagster.llm.prices import PriceList
from shaberi_dagster.runs.results.results_tree import export_runs, reason_of, write_manifest
from shaberi_dagster.runs.spec import CallOptions
from shaberi_dagster.settings import Settings
from shaberi_dagster.tasks.prompts.library import PromptLibrary
from shaberi_dagster.util.errors import ConfigurationError, is_interrupt
from shaberi_dagster.util.progress import LogReporter, Reporter

T = TypeVar("T")
_CLEAN_UP_SECONDS = 15.0
_reporter: ContextVar[Reporter | None] = ContextVar("reporter", default=None)


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


@dataclass
class Workspace:
    """An installation: its folders, the lake, what calls need, and what is to be published.

    Attributes:
        settings: Its folders.
        environment: Where API keys are read from.
        default_reporter: Told about progress unless `reporting_to` says otherwise.
        options: How calls are made.
        unpublished: Runs that changed and whose results are to be written at the end; of each the versions of the
            lake's tables that its manifest tells of.
    """

    settings: Settings
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    default_reporter: Reporter = field(default_factory=lambda: LogReporter(lambda _: None))
    options: CallOptions = field(default_factory=CallOptions)
    unpublished: dict[str, dict[str, int]] = field(default_factory=dict)
    _is_published_later: bool = field(default=False, init=False)

    @cached_property
    def budget(self) -> Budget:
        """Budget that all calls share."""
        return Budget(self.options.max_cost, self.options.max_tokens_total, prices=self.prices)

    @cached_property
    def lake(self) -> Lake:
        """The Delta tables."""
        return Lake(self.settings.warehouse)

    def begin(self, run_id: str) -> None:
        """Let the manifest of a run say that it is running, before its first change."""
        if run_id not in self.unpublished:
            with suppress(Exception):  # what hinders a manifest hinders the other files too, which is said at the end
                write_manifest(self.lake, run_id, self.settings.results, environment=self.environment)

    def changed(self, run_id: str, *, tells: bool = True) -> None:
        """Have a run published at the end; if it `tells`, its manifest says at once how far it is."""
        told = self.unpublished.setdefault(run_id, {})
        if not tells:
            return
        with suppress(Exception):
            now = self.lake.versions()
            if now != told:  # a stage that had nothing to do has changed nothing
                write_manifest(self.lake, run_id, self.settings.results, environment=self.environment)
                told.update(now)

    @contextmanager
    def published_at_the_end(self) -> Iterator[None]:
        """Publish what changes within this context when it ends, also by an error or an interrupt.

        Within another such context that is left to the outermost one.
        """
        if self._is_published_later:
            yield
            return
        self._is_published_later = True
        try:
            yield
        finally:
            self._is_published_later = False
            self.publish()

    def publish(self) -> None:
        """Bring the catalog up to date, and the results of the runs that changed; what hinders it is only noted.

        A process killed with -9 does not: the next reader then writes the catalog, and the manifest says `running`
        until the next command for the run, or `shaberi export`. Within `published_at_the_end` nothing is done.
        """
        lake, folder, note = self.lake, self.settings.results, self.reporter.note
        if self._is_published_later or not logged_versions(lake.folder):
            return
        try:
            refresh_catalog(lake)
        except Exception as error:
            if is_interrupt(error):
                raise
            note(f"the catalog of {lake.folder} could not be written: {reason_of(error)}; its next reader tries again")
        run_ids = sorted(self.unpublished)
        self.unpublished.clear()
        if not run_ids:
            return
        try:
            failed = export_runs(
                lake, folder, run_ids=run_ids, environment=self.environment, hindrances=(Exception,)
            ).failed
        except Exception as error:
            if is_interrupt(error):
                raise
            failed = {", ".join(run_ids): reason_of(error)}
        for run, reason in failed.items():
            note(f"the results of run {run} in {folder} could not be written: {reason}; `shaberi export` writes them")

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
            ConfigurationError: The user's folder does not exist, so that others would be used without a word.
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
